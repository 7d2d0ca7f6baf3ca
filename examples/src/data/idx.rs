//! Pairs of IDX files, images and their labels, each plain or compressed with gzip.
//!
//! Labels are checked when a pair is opened, and again when they are read.

use super::{CLASSES, DataError, Examples, SIDE};
use mesh_core::array::Array;
use mesh_core::names::DType;
use mesh_optimize::dataset::read::{self, ArrayFile, Input};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How many labels are checked at a time when a pair is opened.
const LOOKED_AT: usize = 1 << 16;

/// The brightest pixel of a file.
const WHITE: f32 = 255.0;

/// The files of one pair, without `.gz`.
pub(super) struct Names {
    pub(super) images: &'static str,
    pub(super) labels: &'static str,
}

pub(super) const TRAIN: Names =
    Names { images: "train-images-idx3-ubyte", labels: "train-labels-idx1-ubyte" };
pub(super) const TEST: Names =
    Names { images: "t10k-images-idx3-ubyte", labels: "t10k-labels-idx1-ubyte" };

/// The path of `name` in `dir`, plain or with `.gz`; the plain file is preferred.
///
/// A path whose state cannot be read is returned as well: opening it then reports the error.
pub(super) fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    [name.to_owned(), format!("{name}.gz")]
        .into_iter()
        .map(|name| dir.join(name))
        .find(|file| file.try_exists().unwrap_or(true))
}

/// A file of images and a file of their labels.
pub(super) struct Pair {
    images: ArrayFile,
    labels: ArrayFile,
}

impl Pair {
    /// Opens and checks a pair of at least `least` examples. Of plain files only the labels are read.
    pub(super) fn open(images: Input, labels: Input, least: usize) -> Result<Self, DataError> {
        let (images, labels) = (read::idx(images)?, read::idx(labels)?);
        let pair = Self { images, labels };
        let (found, of_labels) = (pair.images.shape(), pair.labels.shape());
        let (&[count], true) = (of_labels, pair.labels.dtype() == DType::I32) else {
            return Err(pair.unfit(&pair.labels, "labels", "whole numbers, one dim"));
        };
        if count < least {
            let file = format!("{:?}", pair.labels);
            return Err(DataError::Count { file, declared: count, least });
        }
        if pair.images.dtype() != DType::I32 || found.get(1..) != Some(&[SIDE, SIDE]) {
            return Err(pair.unfit(&pair.images, "images", "bytes of [examples, 28, 28]"));
        }
        if found[0] != count {
            let (images, labels) = (format!("{:?}", pair.images), format!("{:?}", pair.labels));
            return Err(DataError::Unpaired { images, labels });
        }
        for start in (0..count).step_by(LOOKED_AT) {
            pair.labels(start..(start + LOOKED_AT).min(count))?;
        }
        Ok(Self { images: pair.images.divided_by(WHITE), labels: pair.labels })
    }

    fn unfit(&self, file: &ArrayFile, what: &'static str, legal: &'static str) -> DataError {
        DataError::Unfit { file: format!("{file:?}"), what, legal }
    }

    /// The labels of a range of examples, each that of a class.
    fn labels(&self, run: Range<usize>) -> Result<Vec<i32>, DataError> {
        let labels = self.labels.range(run.start as u64..run.end as u64)?;
        let labels: Vec<_> = labels.as_i32().into_iter().flatten().copied().collect();
        let legal = |label: i32| usize::try_from(label).is_ok_and(|label| label < CLASSES);
        match labels.iter().position(|&label| !legal(label)) {
            None => Ok(labels),
            Some(at) => {
                let (file, index) = (format!("{:?}", self.labels), run.start + at);
                Err(DataError::Label { file, index, label: labels[at] })
            }
        }
    }
}

impl Examples for Pair {
    fn len(&self) -> usize {
        self.labels.examples() as usize
    }

    fn read(
        &self,
        run: Range<usize>,
        pixels: &mut Vec<f32>,
        labels: &mut Vec<i32>,
    ) -> Result<(), DataError> {
        if let Array::F32(images) = self.images.range(run.start as u64..run.end as u64)? {
            pixels.append(&mut images.into_raw_vec_and_offset().0);
        }
        labels.append(&mut self.labels(run)?);
        Ok(())
    }

    fn contents(&self) -> Result<String, DataError> {
        Ok(format!("{} and {}", self.images.contents()?, self.labels.contents()?))
    }
}

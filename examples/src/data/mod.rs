//! Handwritten digits: the MNIST files, or a generator where there are none.
//!
//! ```
//! use examples::data::Digits;
//!
//! let digits = Digits::generate(1, 100, 20);
//! let batches = digits.train.batches(&[784], 25, 1)?;
//! for batch in batches.pass(0) {
//!     assert_eq!(batch?.get("image")?.shape(), [25, 784]);
//! }
//! # Ok::<(), examples::data::DataError>(())
//! ```

mod batches;
mod error;
mod generate;
mod idx;
mod strokes;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndarray::{Array1, Array3, Axis, Slice};

pub use error::DataError;

/// The height and the width of an image, in pixels.
pub const SIDE: usize = 28;
/// The number of classes: the digits 0 to 9.
pub const CLASSES: usize = 10;

/// Of a directory that holds a single pair of files, one example in this many is for testing.
const TESTED: usize = 5;

/// A data set of handwritten digits.
#[derive(Clone, Debug)]
pub struct Digits {
    /// The examples to learn from.
    pub train: Arc<Split>,
    /// The examples to measure by.
    pub test: Arc<Split>,
}

/// Some examples: images and, as many, labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// `[n, 28, 28]`, from 0 (paper) to 1 (ink).
    pub images: Array3<f32>,
    /// `[n]`, the digits shown, 0 to 9.
    pub labels: Array1<i32>,
}

impl Digits {
    /// Reads the MNIST files in `dir`, each as it is or gzip-compressed.
    ///
    /// `train-images-idx3-ubyte` and `train-labels-idx1-ubyte` are the training set,
    /// `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte` the test set (a `.gz` may follow each
    /// name). Where only one of the pairs is there, its last fifth becomes the test set.
    pub fn load(dir: &Path) -> Result<Self, DataError> {
        let files = [idx::TRAIN, idx::TEST]
            .map(|names| [names.images, names.labels].map(|name| (name, idx::find(dir, name))));
        match &files {
            [[(_, Some(images)), (_, Some(labels))], [(_, None), (_, None)]]
            | [[(_, None), (_, None)], [(_, Some(images)), (_, Some(labels))]] => {
                Ok(Split::load(images, labels, TESTED)?.divided())
            }
            [
                [(_, Some(images)), (_, Some(labels))],
                [(_, Some(test_images)), (_, Some(test_labels))],
            ] => Ok(Self {
                train: Split::load(images, labels, 1)?.into(),
                test: Split::load(test_images, test_labels, 1)?.into(),
            }),
            _ => {
                let (expected, found): (Vec<_>, Vec<_>) = files.into_iter().flatten().unzip();
                let spelled = |file: PathBuf| {
                    file.file_name().map(|name| name.to_string_lossy().into_owned())
                };
                Err(DataError::Incomplete {
                    dir: dir.to_owned(),
                    exists: dir.exists(),
                    expected: expected.into_iter().map(str::to_owned).collect(),
                    found: found.into_iter().flatten().filter_map(spelled).collect(),
                })
            }
        }
    }

    /// Draws `train` and `test` digits from `seed`.
    ///
    /// Example `i` of a split depends on the seed, the split and `i` only, so a larger split begins
    /// with the smaller one, and every platform gets the same bits.
    pub fn generate(seed: u64, train: usize, test: usize) -> Self {
        let split = |stream, count| Arc::new(generate::split(seed, stream, count));
        Self { train: split(0, train), test: split(1, test) }
    }
}

impl Split {
    /// Reads a pair of IDX streams, each as it is or gzip-compressed; errors call them `images` and
    /// `labels`.
    pub fn read(images: impl Read, labels: impl Read) -> Result<Self, DataError> {
        let images = idx::Named { file: Path::new("images"), bytes: Box::new(images) };
        let labels = idx::Named { file: Path::new("labels"), bytes: Box::new(labels) };
        idx::read_pair(images, labels, 1)
    }

    fn load(images: &Path, labels: &Path, least: usize) -> Result<Self, DataError> {
        idx::read_pair(idx::Named::open(images)?, idx::Named::open(labels)?, least)
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len().min(self.images.len_of(Axis(0)))
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn divided(self) -> Digits {
        let kept = self.len() - self.len() / TESTED;
        let part = |slice: Slice| Self {
            images: self.images.slice_axis(Axis(0), slice).to_owned(),
            labels: self.labels.slice_axis(Axis(0), slice).to_owned(),
        };
        Digits { train: part(Slice::from(..kept)).into(), test: part(Slice::from(kept..)).into() }
    }
}

#[cfg(test)]
mod tests;

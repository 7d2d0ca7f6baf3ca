//! Handwritten digits: the MNIST files, or a generator where there are none.
//!
//! ```
//! use examples::data::{Batches, Digits};
//! use ndarray::{Array1, Array3};
//!
//! let digits = Digits::generate(1, 100, 20);
//! let (mut images, mut labels) = (Array3::zeros((25, 28, 28)), Array1::zeros(25));
//! let mut batches = Batches::new(digits.train.len(), 25, 1)?;
//! for _ in 0..batches.per_epoch() {
//!     digits.train.gather(batches.next_batch(), &mut images, &mut labels)?;
//! }
//! # Ok::<(), examples::data::DataError>(())
//! ```

mod batches;
mod error;
mod generate;
mod idx;
mod strokes;

use std::path::{Path, PathBuf};

use ndarray::{Array1, Array3, Axis, Slice};

pub use batches::Batches;
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
    pub train: Split,
    /// The examples to measure by.
    pub test: Split,
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
                Ok(idx::read_pair(images, labels, TESTED)?.divided())
            }
            [
                [(_, Some(images)), (_, Some(labels))],
                [(_, Some(test_images)), (_, Some(test_labels))],
            ] => Ok(Self {
                train: idx::read_pair(images, labels, 1)?,
                test: idx::read_pair(test_images, test_labels, 1)?,
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
        Self { train: generate::split(seed, 0, train), test: generate::split(seed, 1, test) }
    }
}

impl Split {
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
        Digits { train: part(Slice::from(..kept)), test: part(Slice::from(kept..)) }
    }
}

#[cfg(test)]
mod tests;

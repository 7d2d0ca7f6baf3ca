//! Handwritten digits: the MNIST files, or generated ones.
//!
//! Files are not read whole: a batch reads its examples.
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

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::DataError;

use mesh_optimize::dataset::read::Input;

/// The height and the width of an image, in pixels.
pub const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;
/// The number of classes: the digits 0 to 9.
pub const CLASSES: usize = 10;

/// If a directory has a single pair of files, one example in this many is for testing.
const TESTED: usize = 5;

/// A data set of handwritten digits.
#[derive(Clone, Debug)]
pub struct Digits {
    /// The training examples.
    pub train: Arc<Split>,
    /// The test examples.
    pub test: Arc<Split>,
}

/// Images, each with its label. An example is read when it is asked for.
#[derive(Clone)]
pub struct Split {
    of: Arc<dyn Examples>,
    part: Range<usize>,
}

/// Where examples come from.
trait Examples: Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Appends the pixels and labels of a range of examples.
    fn read(
        &self,
        run: Range<usize>,
        pixels: &mut Vec<f32>,
        labels: &mut Vec<i32>,
    ) -> Result<(), DataError>;

    /// A text that distinguishes these examples from others of the same kind.
    fn contents(&self) -> Result<String, DataError>;
}

impl Digits {
    /// The MNIST files in `dir`, each plain or compressed with gzip. Plain files are read as
    /// examples are asked for; compressed files are decompressed into memory.
    ///
    /// `train-images-idx3-ubyte` and `train-labels-idx1-ubyte` are the training set,
    /// `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte` the test set (`.gz` may follow each
    /// name). If there is only one pair, its last fifth becomes the test set.
    pub fn load(dir: &Path) -> Result<Self, DataError> {
        let files = [idx::TRAIN, idx::TEST]
            .map(|names| [names.images, names.labels].map(|name| (name, idx::find(dir, name))));
        match &files {
            [[(_, Some(images)), (_, Some(labels))], [(_, None), (_, None)]]
            | [[(_, None), (_, None)], [(_, Some(images)), (_, Some(labels))]] => {
                Ok(Split::of_idx(images, labels, TESTED)?.divided())
            }
            [
                [(_, Some(images)), (_, Some(labels))],
                [(_, Some(test_images)), (_, Some(test_labels))],
            ] => Ok(Self {
                train: Split::of_idx(images, labels, 1)?.into(),
                test: Split::of_idx(test_images, test_labels, 1)?.into(),
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

    /// A text that distinguishes the examples from others, whatever files they are in. Reads all of
    /// them.
    pub fn contents(&self) -> Result<String, DataError> {
        let train = self.train.of.contents()?;
        // The last fifth of one pair is for testing.
        if Arc::ptr_eq(&self.train.of, &self.test.of) {
            return Ok(train);
        }
        Ok(format!("{train}; {}", self.test.of.contents()?))
    }

    /// Draws `train` and `test` digits from `seed`.
    ///
    /// Example `i` of a split depends only on the seed, the split and `i`. So a larger split begins
    /// with the smaller one, and every platform gets the same bits.
    pub fn generate(seed: u64, train: usize, test: usize) -> Self {
        let split = |stream, count| Arc::new(Split::new(generate::draw(seed, stream, count)));
        Self { train: split(0, train), test: split(1, test) }
    }
}

impl Split {
    fn new(of: impl Examples + 'static) -> Self {
        let part = 0..of.len();
        Self { of: Arc::new(of), part }
    }

    /// A pair of IDX files, each plain or compressed with gzip, of at least `least` examples.
    pub fn of_idx(
        images: impl Into<Input>,
        labels: impl Into<Input>,
        least: usize,
    ) -> Result<Self, DataError> {
        idx::Pair::open(images.into(), labels.into(), least).map(Self::new)
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.part.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.part.is_empty()
    }

    /// The examples of these numbers. The pixels follow each other, 28 rows of 28 for each image,
    /// from 0 (paper) to 1 (ink). The labels are the digits, 0 to 9.
    pub fn read(&self, rows: &[u64]) -> Result<(Vec<f32>, Vec<i32>), DataError> {
        let examples = self.len();
        if let Some(&row) = rows.iter().find(|row| **row >= examples as u64) {
            return Err(DataError::Example { row, examples });
        }
        let mut pixels = Vec::with_capacity(rows.len() * PIXELS);
        let mut labels = Vec::with_capacity(rows.len());
        for run in rows.chunk_by(|row, next| row + 1 == *next) {
            // Each number is below the number of examples.
            let start = self.part.start + run[0] as usize;
            self.of.read(start..start + run.len(), &mut pixels, &mut labels)?;
        }
        Ok((pixels, labels))
    }

    fn divided(self) -> Digits {
        let middle = self.part.end - self.len() / TESTED;
        let part = |part| Arc::new(Self { of: self.of.clone(), part });
        Digits { train: part(self.part.start..middle), test: part(middle..self.part.end) }
    }
}

impl fmt::Debug for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} examples", self.len())
    }
}

#[cfg(test)]
mod tests;

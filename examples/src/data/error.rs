//! The errors of data sets, for the person who has to repair them.

use std::path::PathBuf;

use mesh_optimize::dataset::DatasetError;
use mesh_optimize::dataset::read::ReadError;
use thiserror::Error;

use super::{CLASSES, SIDE};

/// Why a data set could not be read or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// The directory lacks a file that makes up a pair.
    #[error(
        "{} holds no complete data set: {}; expected {}, each as it is or with .gz appended \
         (one images file with its labels file is enough)",
        .dir.display(), present(*.exists, .found), .expected.join(", ")
    )]
    Incomplete {
        /// The directory that was searched.
        dir: PathBuf,
        /// Whether the directory is there at all.
        exists: bool,
        /// The file names that are read, without `.gz`.
        expected: Vec<String>,
        /// Those present, as they are spelled there.
        found: Vec<String>,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file has an array of another kind.
    #[error("{file} has no {what}: legal are {legal}")]
    Unfit {
        /// The file, with the array that it has.
        file: String,
        /// `images` or `labels`.
        what: &'static str,
        /// What the array should be.
        legal: &'static str,
    },
    /// There are too few examples.
    #[error("{file} has {declared} examples; legal are {least} or more")]
    Count {
        /// The file, with the array that it has.
        file: String,
        /// The number of its examples.
        declared: usize,
        /// The fewest that make a data set.
        least: usize,
    },
    /// A label names no class.
    #[error("label {index} of {file} is {label}; legal are 0 to {}", CLASSES - 1)]
    Label {
        /// The file, with the array that it has.
        file: String,
        /// The place of the label in the file.
        index: usize,
        /// The label.
        label: i32,
    },
    /// Two files of a pair disagree.
    #[error("{images} and {labels}: a pair needs as many images as labels")]
    Unpaired {
        /// The file of images, with its array.
        images: String,
        /// The file of labels, with its array.
        labels: String,
    },
    /// The batch size does not fit the data.
    #[error("a batch of {batch} from {examples} examples: legal are 1 to {examples}")]
    BatchSize {
        /// The batch size asked for.
        batch: usize,
        /// The number of examples.
        examples: usize,
    },
    /// An example does not exist.
    #[error("there is no example {row}: there are {examples}, counted from 0")]
    Example {
        /// Its number.
        row: u64,
        /// How many there are.
        examples: usize,
    },
    /// The dims that were asked for have another number of pixels than an image.
    #[error("an image of {SIDE}x{SIDE} pixels cannot have the dims {dims:?}: their product must be {}", SIDE * SIDE)]
    ImageDims {
        /// The dims asked for.
        dims: Vec<usize>,
    },
    /// The data set could not be made.
    #[error("{0}")]
    Dataset(#[from] DatasetError),
}

fn present(exists: bool, found: &[String]) -> String {
    match found {
        [] if !exists => "it does not exist".to_owned(),
        [] => "none of its files was found".to_owned(),
        [only] => format!("only {only} was found"),
        some => format!("only {} were found", some.join(", ")),
    }
}

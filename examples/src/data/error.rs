//! The errors of data sets, for the person who has to repair them.

use std::io;
use std::path::PathBuf;

use mesh_optimize::dataset::DatasetError;
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
    /// The operating system could not read a file.
    #[error("cannot read {}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A compressed file cannot be decompressed.
    #[error("cannot read {}: as gzip it is damaged or cut short: {source}", .file.display())]
    Compressed {
        /// The file.
        file: PathBuf,
        /// What the decompressor says.
        source: io::Error,
    },
    /// The file does not begin as an IDX file of the wanted kind.
    #[error(
        "{} is no IDX file of {wanted}: its magic number is {found:#010x}, legal is \
         {legal:#010x} (unsigned bytes, rank {}); the file may also be gzip-compressed",
        .file.display(), .legal & 0xff
    )]
    Magic {
        /// The file.
        file: PathBuf,
        /// `images` or `labels`.
        wanted: &'static str,
        /// The first four bytes, big-endian.
        found: u32,
        /// What they have to be.
        legal: u32,
    },
    /// The declared number of examples is out of range.
    #[error(
        "{} declares {declared} examples; legal are {least} to {most}{hint}", .file.display()
    )]
    Count {
        /// The file.
        file: PathBuf,
        /// The count in its header.
        declared: usize,
        /// The fewest that make a data set.
        least: usize,
        /// The most that are read.
        most: usize,
        /// What can be done.
        hint: &'static str,
    },
    /// The images have another size.
    #[error("{} declares images of {rows}x{columns} pixels; legal is {SIDE}x{SIDE}", .file.display())]
    ImageSize {
        /// The file.
        file: PathBuf,
        /// The declared height.
        rows: u32,
        /// The declared width.
        columns: u32,
    },
    /// The file ends before all that its header declares.
    #[error(
        "{} is truncated: {declared} bytes are declared (header and data), it holds {found}",
        .file.display()
    )]
    Truncated {
        /// The file.
        file: PathBuf,
        /// The size, uncompressed, that the header asks for.
        declared: u64,
        /// The size that is there.
        found: u64,
    },
    /// The file has more bytes than its header declares.
    #[error(
        "{} goes on after the {declared} bytes (header and data) that its header declares",
        .file.display()
    )]
    Trailing {
        /// The size, uncompressed, that the header declares.
        file: PathBuf,
        /// The size, uncompressed, that the header asks for.
        declared: u64,
    },
    /// A label names no class.
    #[error("label {index} of {} is {label}; legal are 0 to {}", .file.display(), CLASSES - 1)]
    Label {
        /// The file.
        file: PathBuf,
        /// The place of the label in the file.
        index: usize,
        /// The label.
        label: u8,
    },
    /// Two files of a pair disagree.
    #[error(
        "{} declares {images} images and {} declares {labels} labels; a pair needs as many of each",
        .images_file.display(), .labels_file.display()
    )]
    Unpaired {
        /// The file of images.
        images_file: PathBuf,
        /// Its count.
        images: usize,
        /// The file of labels.
        labels_file: PathBuf,
        /// Its count.
        labels: usize,
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

//! What is wrong with a file of data, for the person who has to repair it.

use crate::dataset::DatasetError;
use std::io;

/// Why a file of data cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system could not read the file.
    #[error("cannot read {file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What went wrong.
        source: io::Error,
    },
    /// A compressed file cannot be decompressed.
    #[error("cannot read {file}: as gzip it is damaged or cut short: {source}")]
    Compressed {
        /// The file.
        file: String,
        /// What the decompressor says.
        source: io::Error,
    },
    /// The content is not what the format asks for.
    #[error("{file}, {place}: {problem}")]
    Content {
        /// The file.
        file: String,
        /// Where in the file: a byte, a line, an element.
        place: String,
        /// What is wrong, and what would be legal.
        problem: String,
    },
    /// What was asked for is not in the file.
    #[error("{file} {problem}")]
    Asked {
        /// The file.
        file: String,
        /// What was asked for, and what there is.
        problem: String,
    },
}

impl ReadError {
    pub(super) fn content(
        file: &str,
        place: impl Into<String>,
        problem: impl Into<String>,
    ) -> Self {
        Self::Content { file: file.to_owned(), place: place.into(), problem: problem.into() }
    }

    pub(super) fn asked(file: &str, problem: impl Into<String>) -> Self {
        Self::Asked { file: file.to_owned(), problem: problem.into() }
    }

    /// The file is shorter or longer than the `declared` bytes, header and data, that it should have.
    pub(super) fn size(file: &str, declared: u64, found: u64) -> Self {
        let (place, problem) = if found < declared {
            let problem =
                format!("it is truncated: {declared} bytes are declared (header and data)");
            (found, problem)
        } else {
            (declared, format!("it goes on after the {declared} bytes (header and data) declared"))
        };
        Self::content(file, format!("byte {place}"), problem)
    }
}

/// A data set's error says what the file's says.
impl From<ReadError> for DatasetError {
    fn from(error: ReadError) -> Self {
        Self::Refused(error.to_string())
    }
}

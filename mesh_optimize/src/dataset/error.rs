//! What can go wrong with a data set.

use std::ops::Range;
use thiserror::Error;

/// Why a data set, or one of its records, cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// A size of 0.
    #[error("a {what} of size 0 gives nothing: sizes are {least} or more")]
    Nothing {
        /// Of what.
        what: &'static str,
        /// The least legal one.
        least: usize,
    },
    /// A batch that no memory has room for.
    #[error("a batch of {size} records: legal are up to {most}")]
    Batch {
        /// Its size.
        size: usize,
        /// The largest legal one.
        most: usize,
    },
    /// A record without arrays.
    #[error("a record has no arrays")]
    NoArrays,
    /// Two arrays of one name.
    #[error("two arrays of a record are called `{0}`")]
    RepeatedName(String),
    /// An array that is not there.
    #[error("a record has no array `{name}`: it has {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Examples cannot be told apart.
    #[error("array `{0}` has no dims: the first dim is that of the examples")]
    NoExamples(String),
    /// Arrays with different numbers of examples.
    #[error("array `{name}` has {found} examples, but `{first}` has {expected}")]
    Examples {
        /// The array.
        name: String,
        /// How many it has.
        found: usize,
        /// The first array.
        first: String,
        /// How many that has.
        expected: usize,
    },
    /// Records that do not go together.
    #[error(
        "array `{name}` cannot be joined: {found} meets {expected}; records that are joined have \
         the same arrays, dtypes and shapes"
    )]
    Join {
        /// The array.
        name: String,
        /// What one of the records has.
        found: String,
        /// What the first has.
        expected: String,
    },
    /// A source that does not give what it is asked for.
    #[error("a source gave {found} examples side by side where {asked} were asked for")]
    Source {
        /// How many it gave.
        found: usize,
        /// How many were asked for.
        asked: usize,
    },
    /// An order of examples that names one which is not there.
    #[error("there is no example {row}: the source has {examples}, counted from 0")]
    Example {
        /// Its number.
        row: u64,
        /// How many there are.
        examples: u64,
    },
    /// An order of examples that is too short.
    #[error("the order of pass {pass} ends before the {expected} examples that it should have")]
    Order {
        /// The pass.
        pass: u64,
        /// How many a pass has.
        expected: u64,
    },
    /// Rows of records of another size.
    #[error(
        "rows {} to {} of {of} are asked for, but a record has {rows}: drop a remainder that makes a \
         smaller batch", .range.start, .range.end
    )]
    Rows {
        /// The rows asked for.
        range: Range<usize>,
        /// How many a record was said to have.
        of: usize,
        /// How many it has.
        rows: usize,
    },
    /// A dim that is not there, or cannot be cut.
    #[error("{0}")]
    Replicas(String),
    /// The thread that prefetches ended early.
    #[error("the thread that prefetches stopped: {0}")]
    Stopped(String),
    /// What a function of [`Dataset::map`](super::Dataset::map) refuses.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for DatasetError {
    fn from(message: String) -> Self {
        Self::Refused(message)
    }
}

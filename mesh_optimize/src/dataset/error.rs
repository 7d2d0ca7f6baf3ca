//! The errors of data sets.

use std::ops::Range;
use thiserror::Error;

/// Why a data set or one of its records cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// A size is 0.
    #[error("a {what} of size 0 gives nothing: sizes are {least} or more")]
    Nothing {
        /// The thing whose size it is.
        what: &'static str,
        /// The least legal size.
        least: usize,
    },
    /// A batch has more records than fit into memory.
    #[error("a batch of {size} records: legal are up to {most}")]
    Batch {
        /// The batch's size.
        size: usize,
        /// The largest legal size.
        most: usize,
    },
    /// A record has no arrays.
    #[error("a record has no arrays")]
    NoArrays,
    /// A record has two arrays of one name.
    #[error("two arrays of a record are called `{0}`")]
    RepeatedName(String),
    /// A record has no array of this name.
    #[error("a record has no array `{name}`: it has {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The record's arrays.
        known: String,
    },
    /// An array has no dims, so it has no dim of examples.
    #[error("array `{0}` has no dims: the first dim is that of the examples")]
    NoExamples(String),
    /// Two arrays have different numbers of examples.
    #[error("array `{name}` has {found} examples, but `{first}` has {expected}")]
    Examples {
        /// The array's name.
        name: String,
        /// Its number of examples.
        found: usize,
        /// The name of the first array.
        first: String,
        /// The number of examples of the first array.
        expected: usize,
    },
    /// Records have arrays of one name that differ in dtype or shape.
    #[error(
        "array `{name}` cannot be joined: {found} meets {expected}; records that are joined have \
         the same arrays, dtypes and shapes"
    )]
    Join {
        /// The array's name.
        name: String,
        /// Dtype and shape in one of the records.
        found: String,
        /// Dtype and shape in the first record.
        expected: String,
    },
    /// A source gave another number of examples than it was asked for.
    #[error("a source gave {found} examples side by side where {asked} were asked for")]
    Source {
        /// How many examples it gave.
        found: usize,
        /// How many examples it was asked for.
        asked: usize,
    },
    /// An order names an example that the source lacks.
    #[error("there is no example {row}: the source has {examples}, counted from 0")]
    Example {
        /// The example's number.
        row: u64,
        /// How many examples the source has.
        examples: u64,
    },
    /// An order ended before the pass did.
    #[error("the order of pass {pass} ends before the {expected} examples that it should have")]
    Order {
        /// The pass.
        pass: u64,
        /// How many examples the pass has.
        expected: u64,
    },
    /// A record has another number of rows than it was said to have.
    #[error(
        "rows {} to {} of {of} are asked for, but a record has {rows}: drop a remainder that makes a \
         smaller batch", .range.start, .range.end
    )]
    Rows {
        /// The rows that were asked for.
        range: Range<usize>,
        /// The number of rows it was said to have.
        of: usize,
        /// The number of rows it has.
        rows: usize,
    },
    /// An array has no dim for replicas, or the dim cannot be cut into as many parts.
    #[error("{0}")]
    Replicas(String),
    /// The prefetching thread ended early.
    #[error("the thread that prefetches stopped: {0}")]
    Stopped(String),
    /// A user's function refused a record.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for DatasetError {
    fn from(message: String) -> Self {
        Self::Refused(message)
    }
}

//! Sources of examples.

use super::{DatasetError, Record, Result};
use std::sync::Arc;

/// A set of numbered examples that can be read in any order.
///
/// A data set reads the examples of a batch in one call. It never reads examples that a pass leaves
/// out, or that [`Dataset::rows`](super::Dataset::rows) leaves to other processes.
///
/// See [`Dataset::sampled`](super::Dataset::sampled) for an example.
pub trait Source: Send + Sync {
    /// The number of examples, which never changes.
    fn examples(&self) -> u64;

    /// Reads the examples of these numbers into one record, whose arrays have a first dim of
    /// `rows.len()`. A number may occur more than once. All are below [`examples`](Self::examples).
    ///
    /// # Errors
    ///
    /// If the examples cannot be read. The error is that of the record that needed them.
    fn read(&self, rows: &[u64]) -> Result<Record>;
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn examples(&self) -> u64 {
        (**self).examples()
    }

    fn read(&self, rows: &[u64]) -> Result<Record> {
        (**self).read(rows)
    }
}

/// Arrays whose first dim is that of the examples.
pub(super) struct Arrays {
    pub(super) whole: Record,
    pub(super) examples: usize,
}

impl Source for Arrays {
    fn examples(&self) -> u64 {
        self.examples as u64
    }

    fn read(&self, rows: &[u64]) -> Result<Record> {
        // Every number is below the size of a dim.
        Ok(self.whole.select(&rows.iter().map(|&row| row as usize).collect::<Vec<_>>()))
    }
}

/// Reads examples of a source; an error if the source gives another number of them.
pub(super) fn read(source: &dyn Source, rows: &[u64]) -> Result<Record> {
    let record = source.read(rows)?;
    let found = record.first_dim()?;
    if found != rows.len() {
        return Err(DatasetError::Source { found, asked: rows.len() });
    }
    Ok(record)
}

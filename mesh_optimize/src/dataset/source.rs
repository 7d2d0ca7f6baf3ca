//! Where examples come from.

use super::{DatasetError, Record, Result};
use std::sync::Arc;

/// Examples that have a number each and can be made in any order.
///
/// A data set asks for the examples of a batch together, and for no others: those that a pass
/// leaves out, or that [`Dataset::rows`](super::Dataset::rows) leaves to other processes, are never
/// read.
pub trait Source: Send + Sync {
    /// How many examples there are. The number does not change.
    fn examples(&self) -> u64;

    /// The examples of these numbers side by side: each array has a first dim of `rows.len()`.
    /// Numbers may come more than once; all are below [`examples`](Self::examples).
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
        // Each is below the size of a dim.
        Ok(self.whole.select(&rows.iter().map(|&row| row as usize).collect::<Vec<_>>()))
    }
}

/// Examples of a source; refused if it gives another number of them.
pub(super) fn read(source: &dyn Source, rows: &[u64]) -> Result<Record> {
    let record = source.read(rows)?;
    let found = record.first_dim()?;
    if found != rows.len() {
        return Err(DatasetError::Source { found, asked: rows.len() });
    }
    Ok(record)
}

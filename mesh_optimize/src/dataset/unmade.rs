//! Records that are not made yet.
//!
//! A pass consists of these. To skip, shuffle or leave out a record costs a few words; only a
//! record that is taken in the end is read, mapped and joined.

use super::source::{self, Source};
use super::{DatasetError, Record, Result};
use ndarray::Array1;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// An iterator of records that are not made yet.
pub(super) type Unmades = Box<dyn Iterator<Item = Unmade> + Send>;

/// The most records in a batch.
pub(super) const LARGEST_BATCH: usize = u32::MAX as usize;

/// The next `count` records, or those that are left. There may be far fewer, so memory is not
/// reserved for all.
pub(super) fn upto(records: &mut Unmades, count: usize) -> Vec<Unmade> {
    let mut some = Vec::new();
    while some.len() < count
        && let Some(record) = records.next()
    {
        some.push(record);
    }
    some
}

/// A user's function that changes a record.
pub(super) type Function = dyn Fn(Record) -> Result<Record> + Send + Sync;
/// A user's function from the numbers of a pass and of a record in it to the record.
pub(super) type Generator = dyn Fn(u64, u64) -> Result<Record> + Send + Sync;

/// A recipe for a record.
#[derive(Clone)]
pub(super) enum Unmade {
    /// An example of a source, by its number.
    Example(Arc<dyn Source>, u64),
    /// The result of a function of the pass and the record's number.
    Generated(Arc<Generator>, u64, u64),
    /// The result of a function of another record.
    Mapped(Box<Self>, Arc<Function>),
    /// A record that stays in a cache, at a place, once it is made.
    Kept(Box<Self>, Arc<Cache>, usize),
    /// Records joined along a new first dim; at least one.
    Batch(Vec<Self>),
    /// A batch with an array of weights: 1 for the first records, 0 for the others.
    Weighted(Box<Weighted>),
    /// Records joined along their first dim; at least one.
    Joined(Vec<Self>),
    /// A range of rows of a record that should have so many.
    Rows(Box<Self>, Range<usize>, usize),
    /// An error.
    Failed(Box<DatasetError>),
}

/// A batch whose last records may be copies; see [`Unmade::Weighted`].
#[derive(Clone)]
pub(super) struct Weighted {
    pub(super) records: Vec<Unmade>,
    /// The number of records with weight 1.
    pub(super) valid: usize,
    /// The name of the array of weights.
    pub(super) name: Arc<str>,
}

impl Unmade {
    /// Makes the record.
    pub(super) fn make(self) -> Result<Arc<Record>> {
        match self {
            Self::Example(source, row) => Ok(Arc::new(source::read(&*source, &[row])?.row(0))),
            Self::Generated(generator, pass, index) => generator(pass, index).map(Arc::new),
            Self::Mapped(of, function) => function(Arc::unwrap_or_clone(of.make()?)).map(Arc::new),
            Self::Kept(of, cache, place) => cache.get(place, || of.make()),
            Self::Batch(records) => batch(records).map(Arc::new),
            Self::Weighted(weighted) => {
                let Weighted { records, valid, name } = *weighted;
                let weight = |i| if i < valid { 1.0_f32 } else { 0.0 };
                let weights: Array1<f32> = (0..records.len()).map(weight).collect();
                Ok(Arc::new(batch(records)?.with(&name, weights)))
            }
            Self::Joined(parts) => Record::concatenate(&made(parts)?).map(Arc::new),
            Self::Rows(record, range, of) => record.make()?.rows(range, of).map(Arc::new),
            Self::Failed(error) => Err(*error),
        }
    }

    /// The given rows of its `of` rows. The others are not made wherever the recipe allows that.
    pub(super) fn rows(self, range: Range<usize>, of: usize) -> Self {
        if let Some(rows) = self.known_rows().filter(|&rows| rows != of || range.end > rows) {
            return Self::Failed(Box::new(DatasetError::Rows { range, of, rows }));
        }
        match self {
            Self::Batch(mut records) => Self::Batch(records.drain(range).collect()),
            Self::Weighted(mut weighted) => {
                weighted.valid = weighted.valid.saturating_sub(range.start).min(range.len());
                weighted.records = weighted.records.drain(range).collect();
                Self::Weighted(weighted)
            }
            Self::Joined(parts) if parts.iter().all(|part| part.known_rows().is_some()) => {
                let mut before = 0;
                let part = |part: Self| {
                    let rows = part.known_rows().unwrap_or(0);
                    let own = range.start.saturating_sub(before)
                        ..range.end.saturating_sub(before).min(rows);
                    before += rows;
                    (own.start < own.end).then(|| part.rows(own, rows))
                };
                Self::Joined(parts.into_iter().filter_map(part).collect())
            }
            other => Self::Rows(Box::new(other), range, of),
        }
    }

    /// The number of rows the record will have, if the recipe tells it.
    fn known_rows(&self) -> Option<usize> {
        match self {
            Self::Batch(records) => Some(records.len()),
            Self::Weighted(weighted) => Some(weighted.records.len()),
            Self::Joined(parts) => parts.iter().map(Self::known_rows).sum(),
            Self::Rows(_, range, _) => Some(range.len()),
            _ => None,
        }
    }
}

/// Makes a batch; with a single read if all records are examples of one source.
fn batch(records: Vec<Unmade>) -> Result<Record> {
    if let Some(Unmade::Example(source, _)) = records.first() {
        let row = |record: &Unmade| match record {
            Unmade::Example(other, row) if Arc::ptr_eq(source, other) => Some(*row),
            _ => None,
        };
        if let Some(rows) = records.iter().map(row).collect::<Option<Vec<_>>>() {
            return source::read(&**source, &rows);
        }
    }
    Record::stack(&made(records)?)
}

fn made(records: Vec<Unmade>) -> Result<Vec<Arc<Record>>> {
    records.into_iter().map(Unmade::make).collect()
}

/// The records made so far, by their place in the pass.
#[derive(Default)]
pub(super) struct Cache {
    kept: Mutex<Vec<Option<Arc<Record>>>>,
}

impl Cache {
    fn get(&self, place: usize, make: impl FnOnce() -> Result<Arc<Record>>) -> Result<Arc<Record>> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(known)) = lock().get(place) {
            return Ok(known.clone());
        }
        // The lock is not held while a record is made, so that other threads do not wait.
        let made = make()?;
        let mut kept = lock();
        if kept.len() <= place {
            kept.resize(place + 1, None);
        }
        Ok(kept[place].get_or_insert(made).clone())
    }
}

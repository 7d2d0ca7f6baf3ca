//! Batches of examples: from sources, mapped, cached, shuffled, repeated, batched, prefetched.
//!
//! A [`Dataset`] is a description that can be gone through again and again; each time gives the same
//! records, whatever the machine does meanwhile. Records are whole *global* arrays: a session takes
//! its processors' slices out of what it is fed, as the layout says, so one data set serves every
//! layout and its batch size is the global one. Where the processors are several processes, each
//! makes the rows alone that its own need ([`addressable`](Dataset::addressable)).
//!
//! A [`pass`](Dataset::pass) is an epoch: what is shuffled has another order in each. Records are made
//! when they are asked for, and only those that are asked for: a pass that is entered in the middle
//! ([`skip`](Dataset::skip)), as by a run that goes on from a checkpoint, gives what the whole pass
//! would have given from there, and reads nothing of what came before. Examples of a [`Source`] that
//! stand side by side in a batch are read together, without a record for each.
//!
//! Functions have static shapes. A function lowered for batches of 64 takes batches of 64: drop the
//! remainder ([`Remainder::Drop`]), keep it ([`Remainder::Keep`]) and lower a function for that
//! size as well, or fill it up ([`Dataset::batch_weighted`]).
//!
//! ```
//! use mesh_optimize::dataset::{Dataset, Remainder};
//! use ndarray::{Array1, Array2};
//!
//! let images = Array2::<f32>::zeros((10, 784));
//! let labels = Array1::<i32>::zeros(10);
//! let examples = Dataset::from_arrays([("image", images.into()), ("label", labels.into())])?;
//! let batches = examples.shuffle(10, 7)?.batch(4, Remainder::Drop)?.prefetch(2);
//! let mut count = 0;
//! for epoch in 0..2 {
//!     for batch in batches.pass(epoch) {
//!         let batch = batch?;
//!         assert_eq!(batch.get("image")?.shape(), [4, 784]);
//!         // session.call(&train, batch.feeds(["image", "label"])?)?
//!         count += 1;
//!     }
//! }
//! assert_eq!(count, 4);
//! // Epoch 1 after its first batch.
//! assert_eq!(batches.skip(1).pass(1).next(), batches.pass(1).nth(1));
//! # Ok::<(), mesh_optimize::dataset::DatasetError>(())
//! ```

mod arrays;
mod error;
mod prefetch;
mod record;
mod records;
mod replicas;
mod shuffle;
mod source;
mod unmade;

pub use error::DatasetError;
pub use record::Record;
pub use records::Records;
pub use replicas::PerReplica;
pub use source::Source;

use mesh_core::array::Array;
use mesh_core::session::{self, Session};
use std::fmt;
use std::iter::from_fn;
use std::ops::Range;
use std::sync::Arc;
use unmade::{Cache, Function, Generator, LARGEST_BATCH, Unmade, Unmades, Weighted, upto};

/// The result of going through a data set.
pub type Result<T, E = DatasetError> = std::result::Result<T, E>;

/// What becomes of the last examples if they fill no batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Remainder {
    /// They are left out. The only choice for a function that is lowered for one size of batch.
    Drop,
    /// They make a smaller batch.
    Keep,
}

/// Records that can be gone through again and again.
#[derive(Clone)]
pub struct Dataset {
    /// The records of the pass of a number, unmade.
    unmade: Arc<dyn Fn(u64) -> Unmades + Send + Sync>,
    cardinality: Option<u64>,
    /// How many records another thread makes ahead.
    ahead: usize,
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset").field("cardinality", &self.cardinality).finish_non_exhaustive()
    }
}

impl Dataset {
    fn new(
        cardinality: Option<u64>,
        unmade: impl Fn(u64) -> Unmades + Send + Sync + 'static,
    ) -> Self {
        Self { unmade: Arc::new(unmade), cardinality, ahead: 0 }
    }

    /// Something else with the records of this one, in as many passes.
    fn then<I: Iterator<Item = Unmade> + Send + 'static>(
        &self,
        cardinality: Option<u64>,
        change: impl Fn(Unmades, u64) -> I + Send + Sync + 'static,
    ) -> Self {
        let of = self.unmade.clone();
        let changed = Self::new(cardinality, move |pass| Box::new(change(of(pass), pass)));
        Self { ahead: self.ahead, ..changed }
    }

    /// The same for each record.
    fn each(&self, change: impl Fn(Unmade, usize) -> Unmade + Send + Sync + 'static) -> Self {
        let change = Arc::new(change);
        self.then(self.cardinality, move |records, _| {
            let change = change.clone();
            records.enumerate().map(move |(place, record)| change(record, place))
        })
    }

    /// One record for each index of the first dim, which all arrays have in common; its arrays are
    /// without that dim.
    pub fn from_arrays<'n>(arrays: impl IntoIterator<Item = (&'n str, Array)>) -> Result<Self> {
        let whole = Record::new(arrays)?;
        let examples = whole.first_dim()?;
        Ok(Self::from_source(source::Arrays { whole, examples }))
    }

    /// As [`from_arrays`](Self::from_arrays), of arrays that are known by their position: `0`, `1`
    /// and so on.
    pub fn from_positional(arrays: impl IntoIterator<Item = Array>) -> Result<Self> {
        let arrays: Vec<_> =
            arrays.into_iter().enumerate().map(|(i, array)| (i.to_string(), array)).collect();
        Self::from_arrays(arrays.iter().map(|(name, array)| (name.as_str(), array.clone())))
    }

    /// The examples of a source in order.
    pub fn from_source(source: impl Source + 'static) -> Self {
        let examples = source.examples();
        Self::sampled(source, examples, move |_| 0..examples)
    }

    /// Examples of a source in an order that a function of the pass gives, `examples` of them. An
    /// example may come more than once, or never.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Record, Result, Source};
    /// # use ndarray::Array1;
    /// /// Squares of numbers.
    /// struct Squares;
    ///
    /// impl Source for Squares {
    ///     fn examples(&self) -> u64 {
    ///         1000
    ///     }
    ///
    ///     fn read(&self, rows: &[u64]) -> Result<Record> {
    ///         let squares: Array1<i32> = rows.iter().map(|&row| (row * row) as i32).collect();
    ///         Record::new([("square", squares.into())])
    ///     }
    /// }
    ///
    /// let windows = Dataset::sampled(Squares, 3, |pass| [pass, 10 + pass, 20 + pass]);
    /// assert_eq!(windows.pass(4).nth(1).unwrap()?.get("square")?.item(), Some(196.0));
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    pub fn sampled<I>(
        source: impl Source + 'static,
        examples: u64,
        order: impl Fn(u64) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator<Item = u64>,
        I::IntoIter: Send + 'static,
    {
        let (known, source) = (source.examples(), Arc::new(source) as Arc<dyn Source>);
        Self::new(Some(examples), move |pass| {
            let (source, mut order) = (source.clone(), order(pass).into_iter());
            Box::new((0..examples).map(move |_| {
                let error = match order.next() {
                    Some(row) if row < known => return Unmade::Example(source.clone(), row),
                    Some(row) => DatasetError::Example { row, examples: known },
                    None => DatasetError::Order { pass, expected: examples },
                };
                Unmade::Failed(Box::new(error))
            }))
        })
    }

    /// What a function makes of the pass and the number of the record in it, `records` a pass.
    pub fn from_function(
        records: u64,
        function: impl Fn(u64, u64) -> Result<Record> + Send + Sync + 'static,
    ) -> Self {
        let function: Arc<Generator> = Arc::new(function);
        Self::new(Some(records), move |pass| {
            let function = function.clone();
            Box::new((0..records).map(move |i| Unmade::Generated(function.clone(), pass, i)))
        })
    }

    /// The records of several sources side by side: each is that of the first source, then of the
    /// second and so on, joined along the first dim. What tf.distribute calls a data set from a
    /// function for each replica: `replicas` batches of one replica's size make a global batch, in
    /// the order of replicas. It ends with the shortest source.
    pub fn from_replicas(
        replicas: usize,
        source: impl FnMut(usize) -> Result<Self>,
    ) -> Result<Self> {
        let sources = (0..replicas).map(source).collect::<Result<Vec<_>>>()?;
        let Some(ahead) = sources.iter().map(|source| source.ahead).max() else {
            return Err(DatasetError::Nothing { what: "replicas", least: 1 });
        };
        let shortest = sources.iter().filter_map(|source| source.cardinality).min();
        let joined = Self::new(shortest, move |pass| {
            let mut sources: Vec<_> = sources.iter().map(|source| (source.unmade)(pass)).collect();
            Box::new(from_fn(move || {
                let parts: Option<Vec<_>> = sources.iter_mut().map(Iterator::next).collect();
                parts.map(Unmade::Joined)
            }))
        });
        Ok(Self { ahead, ..joined })
    }

    /// What a function makes of each record. It depends on the record alone.
    pub fn map(&self, function: impl Fn(Record) -> Result<Record> + Send + Sync + 'static) -> Self {
        let function: Arc<Function> = Arc::new(function);
        self.each(move |record, _| Unmade::Mapped(Box::new(record), function.clone()))
    }

    /// The first pass again and again. Each record is kept in memory once it has been made; what
    /// comes before is then not asked for it again. A shuffle before a cache shuffles once.
    pub fn cache(&self) -> Self {
        let (of, cache) = (self.unmade.clone(), Arc::new(Cache::default()));
        let first = Self { unmade: Arc::new(move |_| of(0)), ..self.clone() };
        first.each(move |record, place| Unmade::Kept(Box::new(record), cache.clone(), place))
    }

    /// In random order: each record is drawn from the next `buffer`. All orders are equally likely
    /// if the buffer holds all records. Every pass, as of [`repeat`](Self::repeat), has an order of
    /// its own; all follow from `seed`. What waits in the buffer is not made yet.
    pub fn shuffle(&self, buffer: usize, seed: u64) -> Result<Self> {
        if buffer == 0 {
            return Err(DatasetError::Nothing { what: "buffer", least: 1 });
        }
        Ok(self.then(self.cardinality, move |records, pass| {
            shuffle::Shuffled::new(records, buffer, seed, pass)
        }))
    }

    /// Everything so many times.
    pub fn repeat(&self, times: u64) -> Self {
        let of = self.unmade.clone();
        let all = match self.cardinality {
            _ if times == 0 => Some(0),
            once => once.map(|once| once.saturating_mul(times)),
        };
        let repeated = Self::new(all, move |pass| {
            let (of, first) = (of.clone(), pass.wrapping_mul(times));
            Box::new((0..times).flat_map(move |round| of(first.wrapping_add(round))))
        });
        Self { ahead: self.ahead, ..repeated }
    }

    /// Everything again and again; nothing, if there is nothing.
    pub fn repeat_forever(&self) -> Self {
        let of = self.unmade.clone();
        let repeated = Self::new(self.cardinality.filter(|&once| once == 0), move |pass| {
            let of = of.clone();
            let rounds = (pass..=u64::MAX).map(move |pass| of(pass).peekable());
            let rounds =
                rounds.map_while(|mut records| records.peek().is_some().then_some(records));
            Box::new(rounds.flatten())
        });
        Self { ahead: self.ahead, ..repeated }
    }

    /// The first so many records.
    pub fn take(&self, count: usize) -> Self {
        let some = self.cardinality.map_or(count as u64, |all| all.min(count as u64));
        self.then(Some(some), move |records, _| records.take(count))
    }

    /// All but the first so many records, which are not made.
    ///
    /// A run that stopped after `count` records of pass `e` goes on with `skip(count).pass(e)`.
    pub fn skip(&self, count: usize) -> Self {
        let rest = self.cardinality.map(|all| all.saturating_sub(count as u64));
        self.then(rest, move |records, _| records.skip(count))
    }

    /// So many records side by side along a new first dim. `size` is that of the global batch.
    pub fn batch(&self, size: usize, remainder: Remainder) -> Result<Self> {
        self.batches(size, remainder, Unmade::Batch)
    }

    /// As [`batch`](Self::batch), with one more array of the name `weight`: 1 for each record, f32.
    /// The last batch is filled up with its records again, whose weights are 0, so that a sum with
    /// these weights counts every record once.
    pub fn batch_weighted(&self, size: usize, weight: &str) -> Result<Self> {
        let name: Arc<str> = weight.into();
        self.batches(size, Remainder::Keep, move |mut records| {
            let valid = records.len();
            records.extend((valid..size).map(|i| records[i % valid].clone()).collect::<Vec<_>>());
            Unmade::Weighted(Box::new(Weighted { records, valid, name: name.clone() }))
        })
    }

    fn batches(
        &self,
        size: usize,
        remainder: Remainder,
        batch: impl Fn(Vec<Unmade>) -> Unmade + Send + Sync + 'static,
    ) -> Result<Self> {
        if size == 0 {
            return Err(DatasetError::Nothing { what: "batch", least: 1 });
        }
        if size > LARGEST_BATCH {
            return Err(DatasetError::Batch { size, most: LARGEST_BATCH });
        }
        let all = self.cardinality.map(|all| match remainder {
            Remainder::Drop => all / size as u64,
            Remainder::Keep => all.div_ceil(size as u64),
        });
        let batch = Arc::new(batch);
        Ok(self.then(all, move |mut records, _| {
            let batch = batch.clone();
            from_fn(move || {
                let part = upto(&mut records, size);
                let kept = match remainder {
                    Remainder::Drop => part.len() == size,
                    Remainder::Keep => !part.is_empty(),
                };
                kept.then(|| batch(part))
            })
        }))
    }

    /// Of each record, whose arrays all have a first dim of size `of`, only these rows of that dim.
    /// After [`batch`](Self::batch), [`batch_weighted`](Self::batch_weighted) and
    /// [`from_replicas`](Self::from_replicas) the other rows are not made; after a
    /// [`map`](Self::map) of batches they are, and are cut off.
    pub fn rows(&self, rows: Range<usize>, of: usize) -> Result<Self> {
        if rows.is_empty() {
            return Err(DatasetError::Nothing { what: "range of rows", least: 1 });
        }
        Ok(self.each(move |record, _| record.rows(rows.clone(), of)))
    }

    /// Of each record, which a function of a session is fed, only the [`rows`](Self::rows) that the
    /// processors of this process need. Whole records, where that is all of them: on threads, and
    /// where the feeds' first dims are not split alike, so that they are not one batch.
    ///
    /// A [`Trainer`](crate::training::Trainer) does this by itself.
    pub fn addressable(&self, session: &Session, function: &str) -> session::Result<Self> {
        let feeds = session.feeds(function)?;
        let mut rows = feeds.map(|feed| Some((*feed.shape.first()?, feed.addressable.first()?)));
        let Some((of, needed)) = rows.next().flatten() else { return Ok(self.clone()) };
        if needed.len() == of || !rows.all(|other| other == Some((of, needed))) {
            return Ok(self.clone());
        }
        let needed = needed.clone();
        Ok(self.each(move |record, _| record.rows(needed.clone(), of)))
    }

    /// The same, made by another thread up to `depth` records ahead, 1 to 65,536. It makes no
    /// difference where in the chain this is said.
    pub fn prefetch(&self, depth: usize) -> Self {
        Self { ahead: depth.clamp(1, prefetch::MOST), ..self.clone() }
    }

    /// How many records a pass has; `None` if it has no end.
    pub fn cardinality(&self) -> Option<u64> {
        self.cardinality
    }

    /// The records of one pass; passes differ where something is shuffled or drawn.
    pub fn pass(&self, number: u64) -> Records {
        Records::new((self.unmade)(number), self.ahead)
    }

    /// The records of the first pass.
    pub fn iter(&self) -> Records {
        self.pass(0)
    }
}

impl IntoIterator for &Dataset {
    type Item = Result<Record>;
    type IntoIter = Records;

    fn into_iter(self) -> Records {
        self.iter()
    }
}

#[cfg(test)]
mod tests;

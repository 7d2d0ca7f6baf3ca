//! Data sets: examples from a source, mapped, cached, shuffled, repeated, batched and prefetched.
//!
//! A [`Dataset`] describes records. It can be iterated over again and again, and gives the same
//! records every time. A record holds whole *global* arrays. A session takes each processor's
//! slices out of them as the layout says, so one data set serves every layout, and a batch size is
//! the global one. Where the processors belong to several processes, each process makes only the
//! rows that its processors need ([`addressable`](Dataset::addressable)).
//!
//! A [`pass`](Dataset::pass) is an epoch; a shuffled data set has another order in each pass.
//! Records are lazy: only those that are asked for are made. A pass can be entered in its middle
//! ([`skip`](Dataset::skip)), as a run does that resumes from a checkpoint: the records from there
//! on are the same, and the earlier ones are not read. Examples of a [`Source`] that end up in one
//! batch are read in one call.
//!
//! Functions have static shapes: one that is lowered for batches of 64 takes batches of 64. So drop
//! the remainder ([`Remainder::Drop`]), or keep it ([`Remainder::Keep`]) and lower a function for
//! its size, too, or fill it up ([`Dataset::batch_weighted`]).
//!
//! [`read`] has readers of files: IDX, numpy, safetensors, CSV, text, tokens.
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
mod batch;
mod error;
mod prefetch;
pub mod read;
mod record;
mod records;
mod replicas;
mod shuffle;
mod source;
mod transform;
mod unmade;

pub use batch::Remainder;
pub use error::DatasetError;
pub use record::Record;
pub use records::Records;
pub use replicas::PerReplica;
pub use source::Source;

use mesh_core::array::Array;
use std::fmt;
use std::iter::from_fn;
use std::sync::Arc;
use unmade::{Generator, Unmade, Unmades};

/// The result of making a record.
pub type Result<T, E = DatasetError> = std::result::Result<T, E>;

/// Records that can be iterated over again and again.
#[derive(Clone)]
pub struct Dataset {
    /// The records of a pass, by the pass's number.
    unmade: Arc<dyn Fn(u64) -> Unmades + Send + Sync>,
    cardinality: Option<u64>,
    /// How many records the prefetching thread makes ahead; 0 without such a thread.
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

    /// A data set that applies `change` to the records of each pass of this one.
    fn then<I: Iterator<Item = Unmade> + Send + 'static>(
        &self,
        cardinality: Option<u64>,
        change: impl Fn(Unmades, u64) -> I + Send + Sync + 'static,
    ) -> Self {
        let of = self.unmade.clone();
        let changed = Self::new(cardinality, move |pass| Box::new(change(of(pass), pass)));
        Self { ahead: self.ahead, ..changed }
    }

    /// A data set that applies `change` to each record and its place in the pass.
    fn each(&self, change: impl Fn(Unmade, usize) -> Unmade + Send + Sync + 'static) -> Self {
        let change = Arc::new(change);
        self.then(self.cardinality, move |records, _| {
            let change = change.clone();
            records.enumerate().map(move |(place, record)| change(record, place))
        })
    }

    /// One record for each index of the first dim, which all arrays have in common. The record's
    /// arrays lack that dim.
    ///
    /// # Errors
    ///
    /// If there is no array, two have the same name, one has no dims, or the first dims differ.
    pub fn from_arrays<'n>(arrays: impl IntoIterator<Item = (&'n str, Array)>) -> Result<Self> {
        let whole = Record::new(arrays)?;
        let examples = whole.first_dim()?;
        Ok(Self::from_source(source::Arrays { whole, examples }))
    }

    /// [`from_arrays`](Self::from_arrays) with the names `0`, `1` and so on, by position.
    ///
    /// ```
    /// # use mesh_optimize::dataset::Dataset;
    /// # use ndarray::arr1;
    /// let data = Dataset::from_positional([arr1(&[1, 2]).into(), arr1(&[0.5f32, 0.25]).into()])?;
    /// assert_eq!(data.pass(0).nth(1).ok_or("no record")??.get("1")?.item(), Some(0.25));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`from_arrays`](Self::from_arrays).
    pub fn from_positional(arrays: impl IntoIterator<Item = Array>) -> Result<Self> {
        let arrays: Vec<_> =
            arrays.into_iter().enumerate().map(|(i, array)| (i.to_string(), array)).collect();
        Self::from_arrays(arrays.iter().map(|(name, array)| (name.as_str(), array.clone())))
    }

    /// All examples of a source, in order.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Record, Result, Source};
    /// struct Zeros;
    ///
    /// impl Source for Zeros {
    ///     fn examples(&self) -> u64 {
    ///         60_000
    ///     }
    ///
    ///     fn read(&self, rows: &[u64]) -> Result<Record> {
    ///         Record::new([("image", ndarray::Array2::<f32>::zeros((rows.len(), 784)).into())])
    ///     }
    /// }
    ///
    /// assert_eq!(Dataset::from_source(Zeros).cardinality(), Some(60_000));
    /// ```
    pub fn from_source(source: impl Source + 'static) -> Self {
        let examples = source.examples();
        Self::sampled(source, examples, move |_| 0..examples)
    }

    /// `examples` examples of a source in each pass, in the order that the function `order` of the
    /// pass gives. An example may come more than once, or never.
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

    /// `records` records in each pass: `function` makes each from the numbers of the pass and of
    /// the record in it.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Record};
    /// let data = Dataset::from_function(10, |pass, record| {
    ///     Record::new([("x", ndarray::arr1(&[pass as i32, record as i32]).into())])
    /// });
    /// assert_eq!(data.pass(3).nth(7).ok_or("no record")??.get("x")?, &ndarray::arr1(&[3, 7]).into());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Joins data sets that `source` makes, one for each replica: a record is made of the replicas'
    /// records, one after another along the first dim. In tf.distribute this is a data set from a
    /// function per replica: `replicas` batches of one replica's size become a global batch. The
    /// data set ends with the shortest of its parts.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// // Two replicas with batches of 2 make global batches of 4.
    /// let global = Dataset::from_replicas(2, |_| numbers.batch(2, Remainder::Drop))?;
    /// assert_eq!(global.iter().next().map(|r| r.map(|r| r.get("x").map(|x| x.shape()[0]))), Some(Ok(Ok(4))));
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `replicas` is 0 or `source` fails.
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

    /// The number of records in a pass; `None` if it has no end.
    pub fn cardinality(&self) -> Option<u64> {
        self.cardinality
    }

    /// The records of one pass. Passes differ where a data set is shuffled, or depends on the
    /// pass's number.
    pub fn pass(&self, number: u64) -> Records {
        Records::new((self.unmade)(number), self.ahead)
    }

    /// The records of the first pass.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// assert_eq!(numbers.iter().count(), 6);
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
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

//! Batches of examples: from arrays, mapped, cached, shuffled, repeated, batched, prefetched.
//!
//! A [`Dataset`] is a description that can be gone through again and again; each time gives the same
//! records, whatever the machine does meanwhile. Records are whole *global* arrays: nothing here
//! distributes anything. A session takes its processors' slices out of what it is fed, as the layout
//! says, so one data set serves every layout and its batch size is the global one.
//!
//! Functions have static shapes. A function lowered for batches of 64 takes batches of 64: drop the
//! remainder ([`Remainder::Drop`]), or keep it ([`Remainder::Keep`]) and lower a function for that
//! size as well.
//!
//! ```
//! use mesh_optimize::dataset::{Dataset, Remainder};
//! use ndarray::{Array1, Array2};
//!
//! let images = Array2::<f32>::zeros((10, 784));
//! let labels = Array1::<i32>::zeros(10);
//! let examples = Dataset::from_arrays([("image", images.into()), ("label", labels.into())])?;
//! let batches = examples.cache().shuffle(10, 7)?.repeat(2).batch(4, Remainder::Drop)?.prefetch(2);
//! let mut count = 0;
//! for batch in &batches {
//!     let batch = batch?;
//!     assert_eq!(batch.get("image")?.shape(), [4, 784]);
//!     // session.call(&train, batch.feeds(["image", "label"])?)?
//!     count += 1;
//! }
//! assert_eq!(count, 5);
//! # Ok::<(), mesh_optimize::dataset::DatasetError>(())
//! ```

mod arrays;
mod error;
mod prefetch;
mod record;
mod replicas;
mod shuffle;

pub use error::DatasetError;
pub use record::Record;
pub use replicas::PerReplica;

use mesh_core::array::Array;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The result of going through a data set.
pub type Result<T, E = DatasetError> = std::result::Result<T, E>;

/// Records one after another. After an error there is nothing more.
pub type Records = Box<dyn Iterator<Item = Result<Record>> + Send>;

/// Makes the records of the pass of a number.
type Make = dyn Fn(u64) -> Records + Send + Sync;

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
    make: Arc<Make>,
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dataset")
    }
}

impl Dataset {
    fn new(make: impl Fn(u64) -> Records + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make) }
    }

    /// One record for each index of the first dim, which all arrays have in common; its arrays are
    /// without that dim.
    pub fn from_arrays<'n>(arrays: impl IntoIterator<Item = (&'n str, Array)>) -> Result<Self> {
        let whole = Arc::new(Record::new(arrays)?);
        let examples = whole.first_dim()?;
        Ok(Self::new(move |_| {
            let whole = whole.clone();
            Box::new((0..examples).map(move |i| Ok(whole.row(i))))
        }))
    }

    /// As [`from_arrays`](Self::from_arrays), of arrays that are known by their position: `0`, `1`
    /// and so on.
    pub fn from_positional(arrays: impl IntoIterator<Item = Array>) -> Result<Self> {
        let arrays: Vec<_> =
            arrays.into_iter().enumerate().map(|(i, array)| (i.to_string(), array)).collect();
        Self::from_arrays(arrays.iter().map(|(name, array)| (name.as_str(), array.clone())))
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
        if sources.is_empty() {
            return Err(DatasetError::Nothing { what: "replicas", least: 1 });
        }
        Ok(Self::new(move |pass| {
            let mut sources: Vec<_> = sources.iter().map(|source| source.pass(pass)).collect();
            let joined = std::iter::from_fn(move || {
                let parts: Option<Result<Vec<_>>> =
                    sources.iter_mut().map(Iterator::next).collect();
                Some(parts?.and_then(|parts| Record::concatenate(&parts)))
            });
            until_error(joined)
        }))
    }

    /// What a function makes of each record.
    pub fn map(&self, function: impl Fn(Record) -> Result<Record> + Send + Sync + 'static) -> Self {
        let (of, function) = (self.clone(), Arc::new(function));
        Self::new(move |pass| {
            let function = function.clone();
            until_error(of.pass(pass).map(move |record| record.and_then(|record| function(record))))
        })
    }

    /// The same, kept in memory once it has been gone through. What comes before is then not asked
    /// again: a shuffle before a cache shuffles once.
    pub fn cache(&self) -> Self {
        let of = self.clone();
        let kept: Arc<Mutex<Option<Arc<Vec<Record>>>>> = Arc::default();
        Self::new(move |_| {
            let known = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(known) = known {
                return Box::new((0..known.len()).map(move |i| Ok(known[i].clone())));
            }
            let (mut records, mut seen, kept) = (of.pass(0), Vec::new(), kept.clone());
            until_error(std::iter::from_fn(move || match records.next() {
                Some(Ok(record)) => {
                    seen.push(record.clone());
                    Some(Ok(record))
                }
                Some(error) => Some(error),
                None => {
                    let seen = Arc::new(std::mem::take(&mut seen));
                    kept.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(seen);
                    None
                }
            }))
        })
    }

    /// In random order: each record is drawn from the next `buffer`. All orders are equally likely
    /// if the buffer holds all records. Every pass, as of [`repeat`](Self::repeat), has an order of
    /// its own; all follow from `seed`.
    pub fn shuffle(&self, buffer: usize, seed: u64) -> Result<Self> {
        if buffer == 0 {
            return Err(DatasetError::Nothing { what: "buffer", least: 1 });
        }
        let of = self.clone();
        Ok(Self::new(move |pass| {
            until_error(shuffle::Shuffled::new(of.pass(pass), buffer, seed, pass))
        }))
    }

    /// Everything so many times.
    pub fn repeat(&self, times: u64) -> Self {
        let of = self.clone();
        Self::new(move |pass| {
            let of = of.clone();
            let first = pass.wrapping_mul(times);
            until_error((0..times).flat_map(move |round| of.pass(first.wrapping_add(round))))
        })
    }

    /// Everything again and again; nothing, if there is nothing.
    pub fn repeat_forever(&self) -> Self {
        let of = self.clone();
        Self::new(move |pass| {
            let of = of.clone();
            let rounds = (pass..=u64::MAX).map(move |pass| of.pass(pass).peekable());
            let rounds =
                rounds.map_while(|mut records| records.peek().is_some().then_some(records));
            until_error(rounds.flatten())
        })
    }

    /// The first so many records.
    pub fn take(&self, count: usize) -> Self {
        let of = self.clone();
        Self::new(move |pass| Box::new(of.pass(pass).take(count)))
    }

    /// So many records side by side along a new first dim. `size` is that of the global batch.
    pub fn batch(&self, size: usize, remainder: Remainder) -> Result<Self> {
        if size == 0 {
            return Err(DatasetError::Nothing { what: "batch", least: 1 });
        }
        let of = self.clone();
        Ok(Self::new(move |pass| {
            let mut records = of.pass(pass);
            until_error(std::iter::from_fn(move || {
                let part: Result<Vec<_>> = records.by_ref().take(size).collect();
                match part {
                    Err(error) => Some(Err(error)),
                    Ok(part) if part.is_empty() => None,
                    Ok(part) if part.len() < size && remainder == Remainder::Drop => None,
                    Ok(part) => Some(Record::stack(&part)),
                }
            }))
        }))
    }

    /// The same, made by another thread up to `depth` records (1 or more) ahead.
    pub fn prefetch(&self, depth: usize) -> Self {
        let of = self.clone();
        Self::new(move |pass| {
            let of = of.clone();
            Box::new(prefetch::Prefetched::start(depth, move || of.pass(pass)))
        })
    }

    /// The records of one pass; passes differ where something is shuffled.
    pub fn pass(&self, number: u64) -> Records {
        (self.make)(number)
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

/// The records up to the first error, that included.
fn until_error(records: impl Iterator<Item = Result<Record>> + Send + 'static) -> Records {
    let mut ended = false;
    Box::new(records.take_while(move |record| !std::mem::replace(&mut ended, record.is_err())))
}

#[cfg(test)]
mod tests;

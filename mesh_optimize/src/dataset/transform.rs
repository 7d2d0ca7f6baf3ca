//! Data sets made of other data sets: mapped, cached, shuffled, repeated, shortened, prefetched.

use super::unmade::{Cache, Function, Unmade};
use super::{Dataset, DatasetError, Record, Result, prefetch, shuffle};
use std::sync::Arc;

impl Dataset {
    /// Applies `function` to each record. Its result may depend on nothing but the record.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// # let xs = |d: &Dataset| d.iter().map(|r| r?.get("x").map(|x| x.to_f64().sum())).collect::<Result<Vec<_>, _>>();
    /// let twice = numbers.map(|record| {
    ///     let x = record.get("x")?.to_f64() * 2.0;
    ///     Ok(record.with("x", x))
    /// });
    /// assert_eq!(xs(&twice)?[1..3], [2.0, 4.0]);
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    pub fn map(&self, function: impl Fn(Record) -> Result<Record> + Send + Sync + 'static) -> Self {
        let function: Arc<Function> = Arc::new(function);
        self.each(move |record, _| Unmade::Mapped(Box::new(record), function.clone()))
    }

    /// Repeats the first pass in every pass, and keeps each of its records in memory once it has
    /// been made, so that it is made once. A shuffle before a cache has the same order in every
    /// pass.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// let cached = numbers.map(|record| Ok(record)).cache().shuffle(6, 7)?; // read once, shuffled each pass
    /// assert_eq!(cached.pass(1).count(), 6);
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    pub fn cache(&self) -> Self {
        let (of, cache) = (self.unmade.clone(), Arc::new(Cache::default()));
        let first = Self { unmade: Arc::new(move |_| of(0)), ..self.clone() };
        first.each(move |record, place| Unmade::Kept(Box::new(record), cache.clone(), place))
    }

    /// Draws each record at random from the next `buffer` records. If the buffer holds all records,
    /// all orders are equally likely. Every pass has an order of its own, which follows from `seed`
    /// and the pass's number. Records that wait in the buffer are not made yet.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// # let xs = |d: &Dataset| d.iter().map(|r| r?.get("x").map(|x| x.to_f64().sum())).collect::<Result<Vec<_>, _>>();
    /// let shuffled = numbers.shuffle(6, 7)?;
    /// assert_eq!(xs(&shuffled)?.iter().sum::<f64>(), 15.0);
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `buffer` is 0.
    pub fn shuffle(&self, buffer: usize, seed: u64) -> Result<Self> {
        if buffer == 0 {
            return Err(DatasetError::Nothing { what: "buffer", least: 1 });
        }
        Ok(self.then(self.cardinality, move |records, pass| {
            shuffle::Shuffled::new(records, buffer, seed, pass)
        }))
    }

    /// Puts `times` passes one after another into one pass.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// assert_eq!(numbers.repeat(3).cardinality(), Some(18));
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
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

    /// Puts pass after pass into one pass without an end. An empty data set stays empty.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// assert_eq!(numbers.repeat_forever().take(100).iter().count(), 100);
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
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

    /// The first `count` records.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// assert_eq!(numbers.take(2).cardinality(), Some(2));
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    pub fn take(&self, count: usize) -> Self {
        let some = self.cardinality.map_or(count as u64, |all| all.min(count as u64));
        self.then(Some(some), move |records, _| records.take(count))
    }

    /// The records after the first `count`, which are not made.
    ///
    /// A run that stopped after `count` records of pass `e` resumes with `skip(count).pass(e)`.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// # let xs = |d: &Dataset| d.iter().map(|r| r?.get("x").map(|x| x.to_f64().sum())).collect::<Result<Vec<_>, _>>();
    /// assert_eq!(xs(&numbers.skip(4))?, [4.0, 5.0]);
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    pub fn skip(&self, count: usize) -> Self {
        let rest = self.cardinality.map(|all| all.saturating_sub(count as u64));
        self.then(rest, move |records, _| records.skip(count))
    }

    /// The same records, made by a second thread up to `depth` records ahead (1 to 65,536). The
    /// place of this call in the chain makes no difference.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// # let xs = |d: &Dataset| d.iter().map(|r| r?.get("x").map(|x| x.to_f64().sum())).collect::<Result<Vec<_>, _>>();
    /// assert_eq!(xs(&numbers.prefetch(2))?, xs(&numbers)?);
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    pub fn prefetch(&self, depth: usize) -> Self {
        Self { ahead: depth.clamp(1, prefetch::MOST), ..self.clone() }
    }
}

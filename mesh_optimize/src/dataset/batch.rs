//! Records joined to batches, and rows cut out of batches.

use super::unmade::{LARGEST_BATCH, Unmade, Weighted, upto};
use super::{Dataset, DatasetError, Result};
use mesh_core::session::{self, Session};
use std::iter::from_fn;
use std::ops::Range;
use std::sync::Arc;

/// What happens to the last records of a pass where they are too few for a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Remainder {
    /// They are left out. A function that is lowered for one batch size needs this.
    Drop,
    /// They make a smaller batch.
    Keep,
}

impl Dataset {
    /// Joins `size` records along a new first dim. `size` is the size of the global batch.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// assert_eq!(numbers.batch(4, Remainder::Drop)?.cardinality(), Some(1));
    /// assert_eq!(numbers.batch(4, Remainder::Keep)?.cardinality(), Some(2));
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `size` is 0 or above 2^32 - 1.
    pub fn batch(&self, size: usize, remainder: Remainder) -> Result<Self> {
        self.batches(size, remainder, Unmade::Batch)
    }

    /// [`batch`](Self::batch) with one more array, named `weight`, whose f32 elements are 1. The last
    /// batch is filled up with copies of its records, whose weights are 0. So a sum with these
    /// weights counts every record once.
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// let batches = numbers.batch_weighted(4, "weight")?;
    /// let last = batches.pass(0).nth(1).ok_or("no batch")??;
    /// assert_eq!(last.get("weight")?, &arr1(&[1f32, 1.0, 0.0, 0.0]).into());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `size` is 0 or above 2^32 - 1.
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

    /// Takes the given rows of each record, whose arrays all have a first dim of size `of`. The
    /// other rows are not made if the records come from [`batch`](Self::batch),
    /// [`batch_weighted`](Self::batch_weighted) or [`from_replicas`](Self::from_replicas). They are
    /// made and cut off if the records come from a [`map`](Self::map).
    ///
    /// ```
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # use ndarray::{arr1, aview1};
    /// # let x = arr1(&[0, 1, 2, 3, 4, 5]);
    /// let numbers = Dataset::from_arrays([("x", x.into())])?;
    /// let upper = numbers.batch(4, Remainder::Drop)?.rows(2..4, 4)?;
    /// let rows = upper.iter().next().ok_or("no batch")??;
    /// assert_eq!(rows.get("x")?, &arr1(&[2, 3]).into());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `rows` is empty. A record of another size is an error when it is made.
    pub fn rows(&self, rows: Range<usize>, of: usize) -> Result<Self> {
        if rows.is_empty() {
            return Err(DatasetError::Nothing { what: "range of rows", least: 1 });
        }
        Ok(self.each(move |record, _| record.rows(rows.clone(), of)))
    }

    /// Takes of each record, which is fed to a function of the session, the [`rows`](Self::rows)
    /// that the processors of this process need. The records stay whole on threads, and where the
    /// feeds' first dims are not split alike (then they are not one batch).
    ///
    /// A [`Trainer`](crate::training::Trainer) calls this itself.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::dataset::{Dataset, Remainder};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4)], F32);
    /// # g.function("mean", [x], [x.mean()], []);
    /// # let module = g.lower(&"data:2".parse()?, &"batch:data".parse()?)?;
    /// # let session = Session::threads(&module, 0)?;
    /// let numbers = Dataset::from_arrays([("x", ndarray::Array1::<f32>::ones(8).into())])?;
    /// let batches = numbers.batch(4, Remainder::Drop)?.addressable(&session, "mean")?;
    /// assert_eq!(batches.cardinality(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the session has no such function.
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
}

//! A record: named arrays.

use super::{DatasetError, Result, arrays};
use mesh_core::array::{Array, ArrayRef};
use std::ops::Range;
use std::sync::Arc;

/// One example or one batch of examples: named arrays, in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    arrays: Vec<(String, Array)>,
}

impl Record {
    /// A record of at least one named array.
    ///
    /// ```
    /// # use mesh_optimize::dataset::Record;
    /// use ndarray::arr1;
    ///
    /// let record = Record::new([("x", arr1(&[1.0f32, 2.0]).into())])?.with("y", arr1(&[3]));
    /// assert_eq!(record.arrays().map(|(name, _)| name).collect::<Vec<_>>(), ["x", "y"]);
    /// let [y, x] = record.feeds(["y", "x"])?; // for Session::call
    /// assert_eq!((y.shape(), x.shape()), (&[1][..], &[2][..]));
    /// assert!(record.get("z").is_err());
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no array, or two have the same name.
    pub fn new<'n>(arrays: impl IntoIterator<Item = (&'n str, Array)>) -> Result<Self> {
        let arrays: Vec<_> =
            arrays.into_iter().map(|(name, array)| (name.to_owned(), array)).collect();
        if arrays.is_empty() {
            return Err(DatasetError::NoArrays);
        }
        let twice = arrays
            .iter()
            .enumerate()
            .find(|(i, (name, _))| arrays[..*i].iter().any(|(earlier, _)| earlier == name));
        match twice {
            Some((_, (name, _))) => Err(DatasetError::RepeatedName(name.clone())),
            None => Ok(Self { arrays }),
        }
    }

    /// The array called `name`.
    ///
    /// # Errors
    ///
    /// If the record has no such array.
    pub fn get(&self, name: &str) -> Result<&Array> {
        let found = self.arrays.iter().find(|(known, _)| known == name);
        let found = found.map(|(_, array)| array);
        found.ok_or_else(|| {
            let known: Vec<_> = self.arrays.iter().map(|(name, _)| name.as_str()).collect();
            DatasetError::Unknown { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// Sets the array called `name`, or adds it at the end.
    pub fn with(mut self, name: &str, array: impl Into<Array>) -> Self {
        match self.arrays.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = array.into(),
            None => self.arrays.push((name.to_owned(), array.into())),
        }
        self
    }

    /// All arrays with their names.
    pub fn arrays(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.arrays.iter().map(|(name, array)| (name.as_str(), array))
    }

    /// Views of the arrays with these names, as a session's call takes them.
    ///
    /// # Errors
    ///
    /// If the record lacks one of them.
    pub fn feeds<const N: usize>(&self, names: [&str; N]) -> Result<[ArrayRef<'_>; N]> {
        let mut feeds = names.map(|_| None);
        for (feed, name) in feeds.iter_mut().zip(names) {
            *feed = Some(self.get(name)?.view());
        }
        // The loop above has set each of them.
        Ok(feeds.map(|feed| feed.unwrap_or_else(|| self.arrays[0].1.view())))
    }

    /// The size of the first dim, which all arrays must have in common.
    pub(super) fn first_dim(&self) -> Result<usize> {
        let (first, _) = &self.arrays[0];
        let mut expected = None;
        for (name, array) in &self.arrays {
            let size = array.shape().first().copied();
            let found = size.ok_or_else(|| DatasetError::NoExamples(name.clone()))?;
            let expected = *expected.get_or_insert(found);
            if found != expected {
                let (name, first) = (name.clone(), first.clone());
                return Err(DatasetError::Examples { name, found, first, expected });
            }
        }
        Ok(expected.unwrap_or(0))
    }

    /// Example `i`. All arrays have it.
    pub(super) fn row(&self, i: usize) -> Self {
        self.each(|array| arrays::at(array, 0, i))
    }

    /// The examples `rows`, joined along the first dim. All arrays have them.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        self.each(|array| arrays::select(array, rows))
    }

    /// A range of the examples of a record that should have `of`.
    pub(super) fn rows(&self, range: Range<usize>, of: usize) -> Result<Self> {
        let rows = self.first_dim()?;
        if rows != of || range.end > rows {
            return Err(DatasetError::Rows { range, of, rows });
        }
        Ok(self.each(|array| arrays::rows(array, range.clone())))
    }

    fn each(&self, change: impl Fn(&Array) -> Array) -> Self {
        let arrays = self.arrays.iter().map(|(name, array)| (name.clone(), change(array)));
        Self { arrays: arrays.collect() }
    }

    /// Joins records along a new first dim.
    pub(super) fn stack(records: &[Arc<Self>]) -> Result<Self> {
        Self::join(records, arrays::stack)
    }

    /// Joins records along their first dim.
    pub(super) fn concatenate(records: &[Arc<Self>]) -> Result<Self> {
        Self::join(records, arrays::concatenate)
    }

    fn join(records: &[Arc<Self>], join: impl Fn(&[&Array]) -> Option<Array>) -> Result<Self> {
        let first = records.first().ok_or(DatasetError::NoArrays)?;
        let mut joined = Vec::new();
        for (name, array) in &first.arrays {
            let parts =
                records.iter().map(|record| record.get(name)).collect::<Result<Vec<_>>>()?;
            let whole = join(&parts).ok_or_else(|| {
                let text = |array: &Array| format!("{}{:?}", array.dtype(), array.shape());
                let other = parts.iter().find(|part| text(part) != text(array));
                let found = other.map_or_else(|| text(array), |part| text(part));
                DatasetError::Join { name: name.clone(), found, expected: text(array) }
            })?;
            joined.push((name.clone(), whole));
        }
        Ok(Self { arrays: joined })
    }
}

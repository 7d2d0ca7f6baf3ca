//! A record: named arrays.

use super::{DatasetError, Result, arrays};
use mesh_core::array::{Array, ArrayRef};
use std::ops::Range;
use std::sync::Arc;

/// What a data set gives one at a time: an example, or a batch of them. Named arrays, in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    arrays: Vec<(String, Array)>,
}

impl Record {
    /// A record of named arrays, at least one.
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

    /// The array of a name.
    pub fn get(&self, name: &str) -> Result<&Array> {
        let found = self.arrays.iter().find(|(known, _)| known == name);
        let found = found.map(|(_, array)| array);
        found.ok_or_else(|| {
            let known: Vec<_> = self.arrays.iter().map(|(name, _)| name.as_str()).collect();
            DatasetError::Unknown { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// The same with another array of a name, or one more.
    pub fn with(mut self, name: &str, array: impl Into<Array>) -> Self {
        match self.arrays.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = array.into(),
            None => self.arrays.push((name.to_owned(), array.into())),
        }
        self
    }

    /// Every array with its name.
    pub fn arrays(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.arrays.iter().map(|(name, array)| (name.as_str(), array))
    }

    /// The arrays of these names, to be fed to a function.
    pub fn feeds<const N: usize>(&self, names: [&str; N]) -> Result<[ArrayRef<'_>; N]> {
        let mut feeds = names.map(|_| None);
        for (feed, name) in feeds.iter_mut().zip(names) {
            *feed = Some(self.get(name)?.view());
        }
        // Each was set just now.
        Ok(feeds.map(|feed| feed.unwrap_or_else(|| self.arrays[0].1.view())))
    }

    /// The size of the first dim, which all arrays have in common.
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

    /// Example `i` of arrays that have one.
    pub(super) fn row(&self, i: usize) -> Self {
        self.each(|array| arrays::at(array, 0, i))
    }

    /// Some examples of arrays that have them, side by side.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        self.each(|array| arrays::select(array, rows))
    }

    /// A range of `of` examples, side by side.
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

    /// Records side by side along a new first dim.
    pub(super) fn stack(records: &[Arc<Self>]) -> Result<Self> {
        Self::join(records, arrays::stack)
    }

    /// Records one after another along the first dim.
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

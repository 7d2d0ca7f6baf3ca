//! Calls of functions, and values of variables.

use super::{Error, Result, Session, feeds};
use crate::array::{Array, ArrayRef};
use crate::graph::Function;
use crate::names::DType;
use crate::program::Slot;

impl Session {
    /// Calls a function with an array for each input and returns its fetches. An array is the
    /// global one, or the part that [`feeds`](Self::feeds) says this process needs.
    ///
    /// # Errors
    ///
    /// If the function's handle is of another graph, a feed has the wrong dtype or shape, or the
    /// call fails.
    pub fn call<const I: usize, const F: usize>(
        &mut self,
        function: &Function<I, F>,
        feeds: [ArrayRef<'_>; I],
    ) -> Result<[Array; F]> {
        let mut outputs = [(); F].map(|()| Array::zeros(DType::F32, &[0]));
        self.call_into(function, feeds, &mut outputs)?;
        Ok(outputs)
    }

    /// [`call`](Self::call) that writes into existing arrays. An array of another shape or dtype is
    /// replaced.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn call_into<const I: usize, const F: usize>(
        &mut self,
        function: &Function<I, F>,
        feeds: [ArrayRef<'_>; I],
        outputs: &mut [Array; F],
    ) -> Result<()> {
        let index = self.called_by(function)?;
        self.run(index, &feeds, outputs)
    }

    /// Calls a function by name. Feeds are given by name in any order; fetches are returned with
    /// their names: what [`Tensor::named`](crate::graph::Tensor::named) says, or else the name of the
    /// operation.
    ///
    /// # Errors
    ///
    /// If the function or a feed is unknown, a feed is missing, repeated, or of the wrong dtype or
    /// shape, or the call fails.
    pub fn call_named(
        &mut self,
        function: &str,
        feeds: &[(&str, ArrayRef<'_>)],
    ) -> Result<Vec<(String, Array)>> {
        let index = self.function(function)?;
        let program = &self.programs[index];
        let known = program.feeds.iter().map(|slot| slot.name.as_str());
        for (position, (name, _)) in feeds.iter().enumerate() {
            if !known.clone().any(|feed| feed == *name) {
                return Err(Error::unknown(format!("feed of `{function}` called"), name, known));
            }
            if feeds[..position].iter().any(|(earlier, _)| earlier == name) {
                let (function, feed) = (function.to_owned(), (*name).to_owned());
                return Err(Error::RepeatedFeed { function, feed });
            }
        }
        let find = |slot: &Slot| match feeds.iter().find(|(name, _)| *name == slot.name) {
            Some((_, array)) => Ok(array.clone()),
            None => {
                let (function, feed) = (function.to_owned(), slot.name.clone());
                Err(Error::MissingFeed { function, feed })
            }
        };
        let arrays = program.feeds.iter().map(find).collect::<Result<Vec<_>>>()?;
        let names: Vec<_> = program.fetches.iter().map(|slot| slot.name.clone()).collect();
        let mut outputs = vec![Array::zeros(DType::F32, &[0]); names.len()];
        self.run(index, &arrays, &mut outputs)?;
        Ok(names.into_iter().zip(outputs).collect())
    }

    /// Returns the whole value of a variable.
    ///
    /// # Errors
    ///
    /// If the variable is unknown, or a rank of the job fails.
    pub fn read(&self, variable: &str) -> Result<Array> {
        let (index, held) = self.variable(variable)?;
        let mut array = Array::zeros(held.spec.dtype, &held.spec.shape.sizes());
        for (processor, begin) in held.first_holders() {
            let slice = self.backend.slice(processor, index)?;
            array.set_part(begin, &held.local.extents, &slice);
        }
        Ok(array)
    }

    /// Sets the whole value of a variable.
    ///
    /// # Errors
    ///
    /// If the variable is unknown, or the array has another dtype or shape. Integers are converted as
    /// [`feeds`](Self::feeds) are.
    pub fn write<'a>(&mut self, variable: &str, array: impl Into<ArrayRef<'a>>) -> Result<()> {
        let array = array.into();
        let (index, held) = self.variable(variable)?;
        let what = || format!("variable `{variable}`");
        let shape = &held.spec.shape;
        if array.shape() != shape.sizes() {
            let (dims, expected) = (shape.names().collect(), shape.sizes());
            let found = array.shape().to_vec();
            return Err(Error::Shape { what: what(), dims, expected, found });
        }
        let converted = feeds::of_dtype(what, held.spec.dtype, &array)?;
        let array = match &converted {
            Some(converted) => converted.view(),
            None => array.view(),
        };
        // The variable is looked up again, as the machine is borrowed mutably.
        let held = &self.variables[index];
        for (processor, begin) in held.holders() {
            let slice = array.part_bytes(begin, &held.local.extents);
            self.backend.set_slice(processor, index, &slice)?;
        }
        Ok(())
    }

    /// Sets every variable to its value in another session. The other session's module is of the
    /// same graph, under any mesh and layout.
    ///
    /// # Errors
    ///
    /// If the other session lacks a variable, or has it with another dtype or shape.
    pub fn copy_variables(&mut self, from: &Self) -> Result<()> {
        let names: Vec<_> = self.variables.keys().cloned().collect();
        names.iter().try_for_each(|name| self.write(name, &from.read(name)?))
    }

    /// The names of the variables.
    pub fn variables(&self) -> impl Iterator<Item = &str> + Clone {
        self.variables.keys().map(String::as_str)
    }

    /// The names of the functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> + Clone {
        self.functions.keys().map(String::as_str)
    }

    /// Calls a function with its feeds in order. Outputs of another shape or dtype are replaced.
    pub(super) fn run(
        &mut self,
        index: usize,
        feeds: &[ArrayRef<'_>],
        outputs: &mut [Array],
    ) -> Result<()> {
        let converted = self.check_feeds(index, feeds)?;
        if !converted.is_empty() {
            let held: Vec<ArrayRef<'_>> = feeds
                .iter()
                .zip(&converted)
                .map(|(feed, converted)| match converted {
                    Some(converted) => converted.view(),
                    None => feed.view(),
                })
                .collect();
            return self.run(index, &held, outputs);
        }
        let program = &self.programs[index];
        let shown = &mut self.shown[index];
        shown.resize_with(program.probes.len(), || Array::zeros(DType::F32, &[0]));
        let arrays = outputs.iter_mut().chain(&mut *shown);
        for ((slot, value), output) in program.left().zip(arrays) {
            let dtype = program.value(value).dtype;
            if output.dtype() != dtype || output.shape() != slot.shape {
                *output = Array::zeros(dtype, &slot.shape);
            }
        }
        self.backend.call(index, feeds, outputs, shown)?;
        let program = &self.programs[index];
        for (slot, array) in program.probes.iter().zip(&self.shown[index]) {
            (self.watcher)(&slot.name, array);
        }
        if self.replica_check { self.check_replicas(index) } else { Ok(()) }
    }
}

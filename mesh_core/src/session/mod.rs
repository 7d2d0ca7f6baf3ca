//! Sessions run a module: they take global arrays and return global arrays.
//!
//! A [`Session`] holds the variables of a [`Module`] on the processors of its mesh and calls its
//! functions. Each processor takes its slices from the arrays that are fed and writes its slices
//! into those that are fetched. Where several processes run a module, each may be fed only the part
//! of an array that it needs: [`Session::feeds`].

pub mod checkpoint;
mod compare;
mod error;
mod feeds;
mod lookup;
mod processes;
#[cfg(feature = "mpi")]
mod ranks;
mod recorded;
mod reference;
mod replicas;
mod share;
mod slices;
mod threads;
mod trace;

use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use indexmap::IndexMap;

pub use self::compare::{
    Agreement, CompareError, Comparing, Difference, Side, Subject, Tolerance, compare,
};
pub use self::error::Error;
pub use self::feeds::Feed;
#[cfg(feature = "mpi")]
pub use self::ranks::Ranks;
pub use self::recorded::Recorded;
use self::slices::VariableSlices;
pub use self::threads::Threads;
pub use self::trace::Trace;
use crate::array::{Array, ArrayRef};
use crate::exec::Addressable;
pub use crate::exec::{
    Backend, CallTimes, Capabilities, Failure, GivenTo, InIteration, NonFinite, Processes,
    Reference, Span, StepTimes, Summary,
};
use crate::graph::{Function, GraphId};
use crate::lower::Module;
use crate::names::{DType, Mesh};
use crate::program::{Program, Slot};

/// The result of a session's methods.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A module's variables and the processors that run its functions.
///
/// A session borrows nothing and may move to another thread.
pub struct Session {
    /// The graph whose function handles the session accepts.
    graph: GraphId,
    mesh: Mesh,
    backend: Box<dyn Backend>,
    /// The module's functions, then its initialisation.
    programs: Arc<[Program]>,
    /// Per program, what of its feeds the processors of this process need.
    addressable: Arc<[Addressable]>,
    /// By name, in the module's order.
    functions: Arc<IndexMap<String, usize>>,
    /// By name, in the module's order.
    variables: Arc<IndexMap<String, VariableSlices>>,
    replica_check: bool,
    watcher: Watcher,
    /// For each function, what its probes showed in its last call.
    shown: Vec<Vec<Array>>,
    /// How many snapshots were taken.
    snapshots: Cell<u64>,
}

/// Gets the label and the global value of each probe.
type Watcher = Box<dyn FnMut(&str, &Array) + Send>;

fn write_to_stderr(label: &str, array: &Array) {
    let (dtype, shape) = (array.dtype(), array.shape());
    // If standard error cannot be written to, there is nowhere to report that.
    let _ = writeln!(io::stderr(), "probe {label}: {dtype}{shape:?} {}", array.to_f64());
}

impl Session {
    /// Makes a session on a back-end that was made for the module, and initialises its variables.
    ///
    /// [`threads`](Self::threads) and the other constructors make a back-end themselves. A back-end of
    /// your own may wrap one of them; this one counts calls.
    ///
    /// ```
    /// # use std::borrow::Cow;
    /// # use mesh_core::array::{Array, ArrayRef};
    /// # use mesh_core::lower::Module;
    /// # use mesh_core::names::ProcessMap;
    /// # use mesh_core::session::{Backend, Capabilities, Error, Failure, Session, Threads};
    /// struct Counted {
    ///     inner: Box<dyn Backend>,
    ///     calls: usize,
    /// }
    ///
    /// impl Backend for Counted {
    ///     fn name(&self) -> &str {
    ///         "counted"
    ///     }
    ///
    ///     fn capabilities(&self) -> Capabilities {
    ///         Capabilities::default()
    ///     }
    ///
    ///     fn call(
    ///         &mut self,
    ///         function: usize,
    ///         feeds: &[ArrayRef<'_>],
    ///         fetches: &mut [Array],
    ///         probes: &mut [Array],
    ///     ) -> Result<(), Failure> {
    ///         self.calls += 1;
    ///         self.inner.call(function, feeds, fetches, probes)
    ///     }
    /// #   fn map(&self) -> &ProcessMap { self.inner.map() }
    /// #   fn seed(&self) -> u64 { self.inner.seed() }
    /// #   fn set_seed(&mut self, seed: u64) { self.inner.set_seed(seed); }
    /// #   fn slice(&self, p: usize, v: usize) -> Result<Cow<'_, [u8]>, Failure> {
    /// #       self.inner.slice(p, v)
    /// #   }
    /// #   fn set_slice(&mut self, p: usize, v: usize, b: &[u8]) -> Result<(), Failure> {
    /// #       self.inner.set_slice(p, v, b)
    /// #   }
    /// }
    ///
    /// # fn doc(module: &Module) -> Result<(), Error> {
    /// let inner = Threads::default().start(module, 0)?;
    /// let session = Session::on(module, Counted { inner, calls: 0 })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the initialisation fails.
    pub fn on(module: &Module, backend: impl Backend + 'static) -> Result<Self> {
        let mesh = module.mesh().clone();
        let held =
            module.variables().iter().map(|v| Ok((v.name.clone(), VariableSlices::new(v, &mesh)?)));
        let variables = held.collect::<Result<IndexMap<_, _>>>()?;
        let programs: Arc<[_]> =
            module.functions().iter().chain([module.init()]).cloned().collect();
        let names = module.functions().iter().map(|program| program.name.clone());
        let functions =
            names.enumerate().map(|(index, name)| (name, index)).collect::<IndexMap<_, _>>();
        let here = backend.map().of(backend.processes().rank);
        let addressable = programs.iter().map(|program| Addressable::new(program, &mesh, here));
        let addressable = addressable.collect();
        let shown = vec![Vec::new(); programs.len()];
        let watcher: Watcher = Box::new(write_to_stderr);
        let mut session = Self {
            graph: module.graph(),
            mesh,
            backend: Box::new(backend),
            programs,
            addressable,
            functions: Arc::new(functions),
            variables: Arc::new(variables),
            replica_check: false,
            watcher,
            shown,
            snapshots: Cell::default(),
        };
        session.run(module.functions().len(), &[], &mut [])?;
        Ok(session)
    }

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
    /// their names.
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
    /// If the variable is unknown, or the array has another dtype or shape.
    pub fn write<'a>(&mut self, variable: &str, array: impl Into<ArrayRef<'a>>) -> Result<()> {
        let array = array.into();
        let (index, held) = self.variable(variable)?;
        let what = || format!("variable `{variable}`");
        check(what, held.spec.dtype, &held.spec.shape.sizes(), &array)?;
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

    /// Gives what probes show to `watcher` instead of writing it to standard error.
    pub fn watch(&mut self, watcher: impl FnMut(&str, &Array) + Send + 'static) {
        self.watcher = Box::new(watcher);
    }

    /// What a function's probes showed in its last call: labels and global values, in the order of
    /// the program. Empty before the first call.
    ///
    /// # Errors
    ///
    /// If the function is unknown.
    pub fn shown(&self, function: &str) -> Result<impl Iterator<Item = (&str, &Array)>> {
        let index = self.function(function)?;
        let labels = self.programs[index].probes.iter();
        Ok(labels.map(|slot| slot.name.as_str()).zip(&self.shown[index]))
    }

    /// Whether to compare, after every call, all variables and fetches between the processors that
    /// hold the same slice, bit for bit. Off at first.
    ///
    /// # Errors
    ///
    /// If the back-end does not give the slices of single processors.
    pub fn set_replica_check(&mut self, on: bool) -> Result<()> {
        if on && !self.backend.capabilities().replicas {
            return Err(self.backend.lacks("compare replicas").into());
        }
        self.replica_check = on;
        Ok(())
    }

    /// Calls a function with its feeds in order. Outputs of another shape or dtype are replaced.
    fn run(&mut self, index: usize, feeds: &[ArrayRef<'_>], outputs: &mut [Array]) -> Result<()> {
        self.check_feeds(index, feeds)?;
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

/// Checks the dtype and shape of an array for a feed or variable.
fn check(
    what: impl Fn() -> String,
    dtype: DType,
    shape: &[usize],
    array: &ArrayRef<'_>,
) -> Result<()> {
    check_dtype(&what, dtype, array)?;
    if array.shape() != shape {
        let (expected, found) = (shape.to_vec(), array.shape().to_vec());
        return Err(Error::Shape { what: what(), expected, found });
    }
    Ok(())
}

fn check_dtype(what: impl Fn() -> String, dtype: DType, array: &ArrayRef<'_>) -> Result<()> {
    if array.dtype() != dtype {
        return Err(Error::DType { what: what(), expected: dtype, found: array.dtype() });
    }
    Ok(())
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("mesh", &self.mesh.to_string())
            .field("functions", &self.functions.keys().collect::<Vec<_>>())
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! Sessions run a module: they take global arrays and return global arrays.
//!
//! A [`Session`] holds the variables of a [`Module`] on the processors of its mesh and calls its
//! functions. Each processor takes its slices from the arrays that are fed and writes its slices
//! into those that are fetched. Where several processes run a module, each may be fed only the part
//! of an array that it needs: [`Session::feeds`].

// Rustdoc lists methods in this order: first what one needs first.
mod threads;

mod calls;

mod feeds;

pub mod checkpoint;
mod compare;
mod error;
mod lookup;
mod processes;
#[cfg(feature = "mpi")]
mod ranks;
mod recorded;
mod reference;
mod replicas;
mod share;
mod slices;
mod trace;
#[cfg(feature = "xla")]
mod xla;

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
#[cfg(feature = "xla")]
pub use self::xla::{Ahead, Plugin, PluginError, Xla};
use crate::array::Array;
use crate::exec::Addressable;
pub use crate::exec::{
    Backend, CallTimes, Capabilities, Failure, GivenTo, InIteration, NonFinite, Processes,
    Reference, Span, StepTimes, Summary,
};
use crate::graph::GraphId;
use crate::lower::Module;
use crate::names::Mesh;
use crate::program::Program;

/// The result of a session's methods.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A module's variables and the processors that run its functions.
///
/// [`Session::threads`] makes one, with a thread for each processor; [`call`](Self::call) calls a function
/// with arrays and returns arrays; [`read`](Self::read) and [`write`](Self::write) are for variables, and
/// [`snapshot`](Self::snapshot) and [`restore`](Self::restore) for all of them in a file.
///
/// ```
/// # use mesh_core::{array::ArrayRef, graph::Function, lower::Module, session::{Error, Session}};
/// # fn example(module: &Module, train: &Function<2, 1>) -> Result<(), Error> {
/// # let (images, labels) = (ndarray::arr2(&[[1f32, 2.0]]), ndarray::arr1(&[3_u8]));
/// let mut session = Session::threads(module, 0)?;
/// for _ in 0..10 {
///     let [loss] = session.call(train, [(&images).into(), (&labels).into()])?;
///     println!("{}", loss.to_f64());
/// }
/// let kernel = session.read("hidden/kernel")?;
/// # Ok(())
/// # }
/// ```
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

//! Running a module: global arrays in, global arrays out.
//!
//! A [`Session`] holds the variables of a [`Module`] on the processors of its mesh and calls its
//! functions. Callers see global arrays only; each processor takes its slices from them and writes
//! its slices into them. Where the processors are several processes, each may be fed what it needs of
//! an array instead: [`Session::feeds`].

pub mod checkpoint;
mod compare;
mod error;
mod feeds;
mod lookup;
mod processes;
#[cfg(feature = "mpi")]
mod ranks;
mod recorded;
mod replicas;
mod threads;
mod trace;

use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};

pub use self::compare::{
    Agreement, CompareError, Comparing, Difference, Side, Subject, Tolerance, compare,
};
pub use self::error::Error;
pub use self::feeds::Feed;
#[cfg(feature = "mpi")]
pub use self::ranks::Ranks;
pub use self::recorded::Recorded;
use self::replicas::{Copy, difference};
pub use self::threads::Threads;
pub use self::trace::Trace;
use crate::array::{Array, ArrayRef};
use crate::exec::Machine;
pub use crate::exec::{CallTimes, GivenTo, InIteration, NonFinite, Span, StepTimes, Summary};
use crate::graph::{Function, GraphId};
use crate::lower::{Module, VariableSpec};
use crate::names::{DType, Mesh};
use crate::passes::{Executable, Target};
use crate::program::{Compiled, Slot};

/// The result of a session's methods.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A module at work: its variables, and the processors that run its functions.
///
/// It borrows nothing and may move between threads.
pub struct Session {
    /// Whose functions' handles it takes.
    graph: GraphId,
    mesh: Mesh,
    machine: Box<dyn Machine>,
    /// By name, in the order of the machine's.
    functions: IndexMap<String, usize>,
    /// By name, in the module's order.
    variables: IndexMap<String, Held>,
    replica_check: bool,
    watcher: Watcher,
    /// Per function, what its probes showed last.
    shown: Vec<Vec<Array>>,
    /// How many snapshots were taken.
    snapshots: Cell<u64>,
}

/// Sees what probes show: their label and global value.
type Watcher = Box<dyn FnMut(&str, &Array) + Send>;

fn write_to_stderr(label: &str, array: &Array) {
    let (dtype, shape) = (array.dtype(), array.shape());
    // If it cannot be written, there is nobody to tell.
    let _ = writeln!(io::stderr(), "probe {label}: {dtype}{shape:?} {}", array.to_f64());
}

/// A variable and where each processor's slice of it begins; `None` where it is not held.
struct Held {
    spec: VariableSpec,
    begins: Vec<Option<Vec<usize>>>,
}

impl Held {
    fn new(spec: &VariableSpec, mesh: &Mesh) -> Result<Self> {
        let begin = |processor| {
            let slice = spec.placement.slice(mesh, &spec.shape, processor).ok_or_else(|| {
                let problem = format!("a dim of variable `{}` does not divide", spec.name);
                Error::Module { problem }
            })?;
            let mut owned = spec.placement.owned().iter();
            let held = owned.all(|&(axis, owner)| mesh.coordinate(processor, axis) == owner);
            Ok(held.then_some(slice.begin))
        };
        let begins = (0..mesh.processors()).map(begin).collect::<Result<_>>()?;
        Ok(Self { spec: spec.clone(), begins })
    }

    /// Who holds it, and from where on.
    fn holders(&self) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        let begins = self.begins.iter().enumerate();
        begins.filter_map(|(processor, begin)| Some((processor, begin.as_ref()?)))
    }

    /// Of those who hold the same slice one, another one each `turn`.
    fn keepers(&self, turn: usize) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        let mut slices = IndexMap::<_, Vec<_>>::new();
        self.holders().for_each(|(holder, begin)| slices.entry(begin).or_default().push(holder));
        slices.into_iter().map(move |(begin, holders)| (holders[turn % holders.len()], begin))
    }

    /// Of those who hold the same slice, the first.
    fn first_holders(&self) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        let mut seen = IndexSet::new();
        self.holders().filter(move |(_, begin)| seen.insert(*begin))
    }
}

impl Session {
    /// Runs a module, its initialisation to begin with, on what `start` makes of it when it is compiled.
    fn on_machine(
        module: &Module,
        target: &Target,
        start: impl FnOnce(Executable) -> Result<Box<dyn Machine>, String>,
    ) -> Result<Self> {
        let mesh = module.mesh().clone();
        let held = module.variables().iter().map(|v| Ok((v.name.clone(), Held::new(v, &mesh)?)));
        let variables = held.collect::<Result<IndexMap<_, _>>>()?;
        let executable = module.compile(target);
        let executable =
            executable.map_err(|fault| Error::Module { problem: fault.to_string() })?;
        let machine = start(executable).map_err(|problem| Error::Module { problem })?;
        let names = module.functions().iter().map(|program| program.name.clone());
        let functions = names.enumerate().map(|(index, name)| (name, index)).collect();
        let shown = vec![Vec::new(); module.functions().len() + 1];
        let watcher: Watcher = Box::new(write_to_stderr);
        let (graph, replica_check) = (module.graph(), false);
        let mut session = Self {
            graph,
            mesh,
            machine,
            functions,
            variables,
            replica_check,
            watcher,
            shown,
            snapshots: Cell::default(),
        };
        session.run(module.functions().len(), &[], &mut [])?;
        Ok(session)
    }

    /// Calls a function with its inputs' arrays, global ones or what [`feeds`](Self::feeds) says that
    /// this process needs of them; gives its fetches.
    pub fn call<const I: usize, const F: usize>(
        &mut self,
        function: &Function<I, F>,
        feeds: [ArrayRef<'_>; I],
    ) -> Result<[Array; F]> {
        let mut outputs = [(); F].map(|()| Array::zeros(DType::F32, &[0]));
        self.call_into(function, feeds, &mut outputs)?;
        Ok(outputs)
    }

    /// As [`call`](Self::call), into arrays that are there already. One of another shape or dtype
    /// is replaced.
    pub fn call_into<const I: usize, const F: usize>(
        &mut self,
        function: &Function<I, F>,
        feeds: [ArrayRef<'_>; I],
        outputs: &mut [Array; F],
    ) -> Result<()> {
        let index = self.called_by(function)?;
        self.run(index, &feeds, outputs)
    }

    /// Calls a function by name, with feeds by name in any order; gives its fetches with their
    /// names.
    pub fn call_named(
        &mut self,
        function: &str,
        feeds: &[(&str, ArrayRef<'_>)],
    ) -> Result<Vec<(String, Array)>> {
        let index = self.function(function)?;
        let program = &self.machine.functions()[index].program;
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

    /// The whole value of a variable.
    pub fn read(&self, variable: &str) -> Result<Array> {
        let (index, held) = self.variable(variable)?;
        let mut array = Array::zeros(held.spec.dtype, &held.spec.shape.sizes());
        for (processor, begin) in held.first_holders() {
            self.machine
                .read(processor, index, begin, &mut array)
                .map_err(|problem| Error::Module { problem })?;
        }
        Ok(array)
    }

    /// Sets the whole value of a variable.
    pub fn write<'a>(&mut self, variable: &str, array: impl Into<ArrayRef<'a>>) -> Result<()> {
        let array = array.into();
        let (index, held) = self.variable(variable)?;
        let what = || format!("variable `{variable}`");
        check(what, held.spec.dtype, &held.spec.shape.sizes(), &array)?;
        // The machine is borrowed apart from the table of variables.
        for (processor, begin) in self.variables[index].holders() {
            self.machine
                .write(processor, index, begin, &array)
                .map_err(|problem| Error::Module { problem })?;
        }
        Ok(())
    }

    /// Sets every variable to its value in another session, of a module of the same graph under
    /// any mesh and layout.
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

    /// Shows what probes see to `watcher` instead of writing it to standard error.
    pub fn watch(&mut self, watcher: impl FnMut(&str, &Array) + Send + 'static) {
        self.watcher = Box::new(watcher);
    }

    /// What the probes of a function saw in its last call: their labels and global values, in the
    /// order of the program. Nothing before the first call.
    pub fn shown(&self, function: &str) -> Result<impl Iterator<Item = (&str, &Array)>> {
        let index = self.function(function)?;
        let labels = self.machine.functions()[index].program.probes.iter();
        Ok(labels.map(|slot| slot.name.as_str()).zip(&self.shown[index]))
    }

    /// Whether to compare, after every call, all variables and fetches between the processors that
    /// hold the same slice, bit for bit. Off at first.
    pub fn set_replica_check(&mut self, on: bool) {
        self.replica_check = on;
    }

    /// Calls a function with feeds in order; outputs that do not fit are replaced.
    fn run(&mut self, index: usize, feeds: &[ArrayRef<'_>], outputs: &mut [Array]) -> Result<()> {
        self.check_feeds(index, feeds)?;
        let program = &self.machine.functions()[index].program;
        let shown = &mut self.shown[index];
        shown.resize_with(program.probes.len(), || Array::zeros(DType::F32, &[0]));
        let arrays = outputs.iter_mut().chain(&mut *shown);
        for ((slot, value), output) in program.left().zip(arrays) {
            let dtype = program.value(value).dtype;
            if output.dtype() != dtype || output.shape() != slot.shape {
                *output = Array::zeros(dtype, &slot.shape);
            }
        }
        let called = self.machine.call(index, feeds, outputs, shown);
        called.map_err(|reason| match self.machine.found() {
            Some(found) => Error::NonFinite(Box::new(found.clone())),
            None => Error::Stopped { reason },
        })?;
        let program = &self.machine.functions()[index].program;
        for (slot, array) in program.probes.iter().zip(&self.shown[index]) {
            (self.watcher)(&slot.name, array);
        }
        if self.replica_check { self.check_replicas(index) } else { Ok(()) }
    }

    fn check_replicas(&self, index: usize) -> Result<()> {
        let Compiled { program, .. } = &self.machine.functions()[index];
        let variables = self.variables.values().enumerate().map(|(variable, held)| {
            let copies = held.holders().map(move |(processor, begin)| {
                let bytes = self.machine.variable_bytes(processor, variable);
                Copy { processor, begin: begin.clone(), bytes }
            });
            let what = format!("variable `{}`", held.spec.name);
            (what, difference(self.machine.variable(variable), copies))
        });
        let fetches = program.left().enumerate().map(|(fetch, (slot, value))| {
            let value = program.value(value);
            let copies = (0..self.mesh.processors()).map(|processor| {
                let part = |axes: &[_]| self.mesh.group_index(processor, axes);
                let dims = slot.split.iter().zip(&value.extents);
                let begin = dims.map(|(axes, extent)| part(axes) * extent).collect();
                let bytes = self.machine.fetch_bytes(processor, index, fetch);
                Copy { processor, begin, bytes }
            });
            (format!("fetch `{}`", slot.name), difference(value, copies))
        });
        let mut found = variables.chain(fetches);
        let found = found.find_map(|(what, difference)| Some((what, difference?)));
        found.map_or(Ok(()), |(what, replicas::Difference { processors, index, values })| {
            let function = program.name.clone();
            Err(Error::Replicas { function, what, processors, index, values })
        })
    }
}

/// Whether an array fits what it is for.
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

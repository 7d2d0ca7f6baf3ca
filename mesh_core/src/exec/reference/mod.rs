//! Runs programs by the meaning of their steps, naively: all processors of a mesh in one thread, step by
//! step. Slow, but any mesh of any machine; what the other back-ends are judged by.

mod lockstep;

use std::borrow::Cow;
use std::collections::BTreeSet;

use ndarray::{AxisDescription, Slice};

use self::lockstep::{Lockstep, Writes};
use super::backend::{Backend, Capabilities, Failure};
use super::border::Border;
use super::sync::Arc;
use crate::array::{Array, ArrayRef};
use crate::names::{Mesh, ProcessMap};
use crate::program::meaning::Numbers;
use crate::program::{Program, Slot, Value, ValueId, VariableType, owns, verify};

/// What a function leaves, by processor and fetch or probe.
type Left = Vec<Vec<Arc<Numbers>>>;

/// The reference back-end: it runs every step as the step's form says what it means, for all processors of
/// the mesh, in the caller's thread. See [`Session::reference`](crate::session::Session::reference).
#[derive(Debug)]
pub struct Reference {
    map: ProcessMap,
    variables: Vec<VariableType>,
    /// The functions, then the initialisation.
    programs: Vec<Program>,
    /// By processor and variable; none of what a processor does not hold.
    slices: Vec<Vec<Option<Array>>>,
    seed: u64,
    /// The function of the last call and what it left, by processor and fetch.
    left: Option<(usize, Left)>,
    failed: Option<Failure>,
}

impl Reference {
    /// The processors of a mesh, with variables of zeros; the initialisation comes behind the functions. An
    /// illegal program is refused, with an error for people.
    pub(crate) fn of(
        mesh: &Mesh,
        variables: Vec<VariableType>,
        programs: Vec<Program>,
        seed: u64,
    ) -> Result<Self, String> {
        for program in &programs {
            verify(program, mesh, &variables).map_err(|problems| {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                format!("program `{}` is illegal: {}", program.name, problems.join("; "))
            })?;
        }
        let zeros = |processor, v: &VariableType| {
            let holds = owns(mesh, processor, &v.owners);
            holds.then(|| Array::zeros(v.dtype, &v.extents))
        };
        let slices = (0..mesh.processors())
            .map(|processor| variables.iter().map(|v| zeros(processor, v)).collect())
            .collect();
        let map = ProcessMap::new(mesh, 1).map_err(|error| error.to_string())?;
        Ok(Self { map, variables, programs, slices, seed, left: None, failed: None })
    }

    fn program(&self, function: usize) -> Result<&Program, Failure> {
        let unknown = || Failure::Refused(format!("there is no function {function}"));
        self.programs.get(function).ok_or_else(unknown)
    }

    /// What a function leaves to each processor, and what it writes.
    fn run(&self, program: &Program, feeds: &[ArrayRef<'_>]) -> Result<(Left, Writes), Failure> {
        let (mesh, seed, slices) = (self.map.mesh(), self.seed, &self.slices[..]);
        let feeds: Vec<_> =
            feeds.iter().filter_map(|feed| Some(feed.to_owned()?.to_f64())).collect();
        let cut = |processor, (i, (slot, id)): (usize, (&Slot, ValueId))| {
            let value = program.value(id);
            let begin = Border::begin(slot, value, mesh, processor);
            Arc::new(feeds[i].slice_each_axis(window(&begin, &value.extents)).to_owned())
        };
        let given = |processor| {
            let fed = program.fed().enumerate();
            Some(fed.map(|feed| cut(processor, feed)).collect())
        };
        let given = (0..mesh.processors()).map(given).collect();
        let mut lockstep = Lockstep { mesh, seed, slices, writes: Writes::new() };
        let left = lockstep.run(&program.name, &program.block, given).map_err(Failure::Stopped)?;
        Ok((left.into_iter().flatten().collect(), lockstep.writes))
    }

    /// The global array of a slot; of several processors that hold one slice, the first delivers.
    fn deliver(&self, slot: &Slot, value: &Value, slices: &[&Arc<Numbers>]) -> Array {
        let (mut global, mut delivered) = (Numbers::zeros(&slot.shape[..]), BTreeSet::new());
        for (processor, slice) in slices.iter().enumerate() {
            let begin = Border::begin(slot, value, self.map.mesh(), processor);
            if delivered.insert(begin.clone()) {
                let mut part = global.slice_each_axis_mut(window(&begin, &value.extents));
                part.assign(slice);
            }
        }
        Array::from_f64(value.dtype, &global)
    }

    fn known(&self, processor: usize, variable: usize) -> Result<&Array, Failure> {
        let slice = self.slices.get(processor).and_then(|held| held.get(variable)?.as_ref());
        slice.ok_or_else(|| {
            Failure::Refused(format!("processor {processor} holds no variable {variable}"))
        })
    }
}

/// The part of an array from `begin` on, of these extents.
fn window(begin: &[usize], extents: &[usize]) -> impl FnMut(AxisDescription) -> Slice {
    move |dim| {
        let dim = dim.axis.index();
        Slice::from(begin[dim]..begin[dim] + extents[dim])
    }
}

/// Whether arrays have the order, shapes and dtypes of a program's slots.
fn fits(program: &Program, feeds: &[ArrayRef<'_>], outputs: &[&mut Array]) -> bool {
    let same = |(slot, id): (&Slot, ValueId), dtype, shape: &[usize]| {
        Some(program.value(id).dtype) == dtype && slot.shape == shape
    };
    let fed = feeds.len() == program.feeds.len()
        && program.fed().zip(feeds).all(|(slot, array)| same(slot, array.dtype(), array.shape()));
    let left = program.left().zip(outputs);
    fed && outputs.len() == program.block.results.len()
        && left.into_iter().all(|(slot, array)| same(slot, Some(array.dtype()), array.shape()))
}

impl Backend for Reference {
    fn name(&self) -> &str {
        "reference"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { replicas: true, ..Capabilities::default() }
    }

    fn map(&self) -> &ProcessMap {
        &self.map
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        fetches: &mut [Array],
        probes: &mut [Array],
    ) -> Result<(), Failure> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let program = self.program(function)?;
        let outputs: Vec<_> = fetches.iter_mut().chain(probes).collect();
        if !fits(program, feeds, &outputs) {
            let problem = format!("the arrays do not fit the slots of `{}`", program.name);
            return Err(Failure::Refused(problem));
        }
        let (left, writes) = match self.run(program, feeds) {
            Ok(done) => done,
            Err(failure) => {
                self.failed = Some(failure.clone());
                return Err(failure);
            }
        };
        for (i, ((slot, id), output)) in program.left().zip(outputs).enumerate() {
            let slices: Vec<_> = left.iter().map(|own| &own[i]).collect();
            *output = self.deliver(slot, program.value(id), &slices);
        }
        for ((processor, variable), numbers) in writes {
            let dtype = self.variables[variable].dtype;
            self.slices[processor][variable] = Some(Array::from_f64(dtype, &numbers));
        }
        self.left = Some((function, left));
        Ok(())
    }

    fn slice(&self, processor: usize, variable: usize) -> Result<Cow<'_, [u8]>, Failure> {
        let slice = self.known(processor, variable)?;
        Ok(bytes(slice).into())
    }

    fn set_slice(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let VariableType { dtype, extents, .. } = {
            self.known(processor, variable)?;
            &self.variables[variable]
        };
        if bytes.len() != extents.iter().product::<usize>() * dtype.size() {
            let problem = format!("{} bytes are no slice {dtype}{extents:?}", bytes.len());
            return Err(Failure::Refused(problem));
        }
        let mut slice = Array::zeros(*dtype, extents);
        slice.set_part(&vec![0; extents.len()], extents, bytes);
        self.slices[processor][variable] = Some(slice);
        Ok(())
    }

    fn fetched_slice(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        let program = self.program(function)?;
        let last = self.left.as_ref().filter(|(last, _)| *last == function);
        let slice = last.and_then(|(_, left)| left.get(processor)?.get(fetch));
        let unknown = || Failure::Refused(format!("there is no fetch {fetch} of the last call"));
        let dtype = program.value(program.block.results[fetch]).dtype;
        Ok(bytes(&Array::from_f64(dtype, slice.ok_or_else(unknown)?)).into())
    }
}

/// An array's elements in declared order, little-endian.
fn bytes(array: &Array) -> Vec<u8> {
    array.view().part_bytes(&vec![0; array.shape().len()], array.shape())
}

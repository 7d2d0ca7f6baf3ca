//! The verifier. This comment is the specification of a legal program.
//!
//! **Values.** Every extent is at least 1; the memory order is a permutation of the dims. Every
//! value is defined exactly once, by a feed or a step, and before its first use. Ids of values,
//! variables and origins are in range; axes are axes of the mesh, and no list names one twice.
//!
//! **Feeds and fetches.** Along every dim, the local extent times the group size of the axes it is
//! split over is the global size. An axis splits at most one dim.
//!
//! **Operands.** One label per dim, no label twice. All dims of one label have the same extent, and
//! result dim `i` has label `i`. Below, `rank` is the result's.
//!
//! * **map**: outs have equal extents and one result register each, of the out's dtype. Every label
//!   is below `rank`. The body: an instruction reads earlier registers only; inputs exist and have
//!   the register's dtype; constants too; a primitive's arguments have the dtype of its register
//!   (comparisons: any one dtype, and the register is bool; select: a bool condition; cast: any)
//!   and accept it; unused arguments repeat the first.
//! * **reduce**: input and result have one dtype; all and any fold bool, the other kinds numbers.
//!   Every result label is in the input.
//! * **contract**: factors and result have one dtype, not bool. Every result label is in a factor.
//! * **convolve**: as contract, except that a window's label which is the result's is in no factor.
//!   A window's three labels differ, belong to no other window, and are each a dim of exactly one
//!   of lhs, rhs and result: `input` of the image, `kernel` of the kernel, `output` of the output
//!   image, the same for all windows. Strides and dilations are at least 1. The last window begins
//!   before the end of the image followed by `max(pad, dilation * (kernel - 1))` zeros.
//! * **move**: inputs, fill and result have one dtype. Every label is below `rank`. A piece lies
//!   inside the result, and inside its input for every group index its offsets may meet.
//! * **reshape**: dtype and number of elements stay.
//! * **generate**: the slice lies inside the global extents for every group index. A fill has the
//!   result's dtype; iota counts along a dim and is not bool; a table has the global extents and
//!   the result's dtype; random numbers are floats, `low < high`, `stddev > 0`, all finite; uniform
//!   ones may be i32 between whole bounds. Only random numbers have salts, scalars of i32.
//! * **gather**: input and result have one dtype, indices are i32. The input's labels are below
//!   `rank` but for `dim`, which it has and which is not; the indices' are below `rank`. Every
//!   result label is in one of them.
//! * **scatter**: updates and result have one dtype, f32, f64 or i32; indices are i32 and have only
//!   labels of the updates. `dim` is below `rank` and no label of the updates; every other result
//!   label is.
//! * **sort**: as many outs as inputs, at least one, each of its input's dtype; the outs have equal
//!   extents. Every label is below `rank`. `dim` is one; along it the outs may be shorter than the
//!   inputs. The keys, which come first, have every label.
//! * **scan**: input and result have one type; `dim` is one of its dims. The kind suits the dtype
//!   as in reduce.
//! * **call**: all values are in declared order; there is at least one out.
//! * **collectives**: the group has at least one axis. Dtypes stay. A cut extent is the group size
//!   times the part's: all_gather joins along `dim`, reduce_scatter cuts along it, all_to_all cuts
//!   along `split` and joins along `concat`, another dim; all else keeps its extent. all_reduce has
//!   as many inputs as outs, at least one. A fold's kind suits the dtype as in reduce, and sums and
//!   products are not bf16: a pending value is held in its reduction dtype.
//!   reduce_to and broadcast have a root inside the group.
//! * **barrier**: each out has its input's type; there is at least one.
//! * **await**: names the inputs and outs of a collective that stands before it, and is run by those
//!   who run that. Awaits stand in the order of their collectives, one each at most. Nobody uses the
//!   outs before they are awaited.
//! * **loop**: at least one round. The body is a legal program that neither reads nor writes, and
//!   its slots are whole. Feeds and fetches come in the order of [`Rounds`](super::Rounds), with the
//!   types of what they stand for; sliced and stacked values are as many slices as there are rounds,
//!   one after the other ([`is_stack`](super::is_stack)). A condition is a bool, forbids slices, and has no dims. Feeds may be
//!   fetched, each in any place and any number of times.
//!
//! **Owners.** A step that only some processors run has axes and coordinates of the mesh, no axis
//! twice; it meets no group along such an axis. What it defines is theirs alone, what reduce_to
//! defines its root's, and only steps of no others use it, or a broadcast from that root. A read
//! is run by holders of the variable alone, a write by all of them and nobody else. A fetch is
//! everybody's.
//!
//! * **read**, **write**: the value has the variable's dtype and extents. At most one write per
//!   variable. A read yields the value from the call's start wherever it stands.

mod awaits;
mod body;
mod forms;
mod index;
mod owners;
mod rounds;
#[cfg(test)]
mod tests;

use super::{Offset, Owners, Program, Slot, Step, Value, ValueId, VariableType};
use crate::names::{Axis, Mesh};

/// The legality of one thing, or what is wrong with it.
type Legal = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
use ensure;

/// Checks the rules of the module comment. Each message names the step, its form and its origin.
pub fn verify(
    program: &Program,
    mesh: &Mesh,
    variables: &[VariableType],
) -> Result<(), Vec<String>> {
    let scope = Scope { program, mesh, variables };
    let mut state = State {
        defined: vec![false; program.values.len()],
        written: vec![false; variables.len()],
        owners: vec![Owners::new(); program.values.len()],
        awaits: program.awaits(),
        makers: vec![None; program.values.len()],
        awaited: None,
        at: 0,
    };
    let mut problems = Vec::new();
    for (index, value) in program.values.iter().enumerate() {
        note(&mut problems, || format!("value %{index}"), scope.value_type(value));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    for slot in &program.feeds {
        let legal = scope.slot(slot).and_then(|()| state.define(slot.value));
        note(&mut problems, || format!("feed {}", slot.name), legal);
    }
    for (index, node) in program.steps.iter().enumerate() {
        state.at = index;
        let legal = state.step(&scope, &node.step).and_then(|()| scope.form(&node.step));
        let legal = legal.and_then(|()| state.awaited(program, node));
        let legal = legal.and_then(|()| scope.owners(node, &mut state.owners));
        note(&mut problems, || program.caption(index), legal);
        if node.origin >= program.origins.len() {
            let legal = Err(format!("there is no origin {}", node.origin));
            note(&mut problems, || program.caption(index), legal);
        }
    }
    state.at = program.steps.len();
    for slot in &program.fetches {
        let legal = scope.slot(slot).and_then(|()| state.used(slot.value));
        let legal = legal.and_then(|()| scope.everybodys(slot.value, &state.owners));
        note(&mut problems, || format!("fetch {}", slot.name), legal);
    }
    for (index, _) in state.defined.iter().enumerate().filter(|(_, defined)| !**defined) {
        note(&mut problems, || format!("value %{index}"), Err("is never defined".to_owned()));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn note(problems: &mut Vec<String>, what: impl FnOnce() -> String, legal: Legal) {
    if let Err(problem) = legal {
        problems.push(format!("{}: {problem}", what()));
    }
}

/// What has happened up to a step.
struct State {
    defined: Vec<bool>,
    written: Vec<bool>,
    /// Whose each value is.
    owners: Vec<Owners>,
    /// [`Program::awaits`].
    awaits: Vec<Option<usize>>,
    /// The step that makes each value.
    makers: Vec<Option<usize>>,
    /// The collective awaited last.
    awaited: Option<usize>,
    /// The present step.
    at: usize,
}

impl State {
    fn define(&mut self, value: ValueId) -> Legal {
        let Some(defined) = self.defined.get_mut(value.index()) else {
            return Err(format!("there is no value {value:?}"));
        };
        ensure!(!*defined, "{value:?} is defined twice");
        *defined = true;
        Ok(())
    }

    fn used(&self, value: ValueId) -> Legal {
        ensure!(value.index() < self.defined.len(), "there is no value {value:?}");
        ensure!(self.defined[value.index()], "{value:?} is used before it is defined");
        let awaited = self.awaits[value.index()].is_none_or(|at| at <= self.at);
        ensure!(awaited, "{value:?} is used before it is awaited");
        Ok(())
    }

    /// Uses and definitions of a step, so that [`Scope::form`] finds every id in range.
    fn step(&mut self, scope: &Scope<'_>, step: &Step) -> Legal {
        let used = step.inputs().iter().try_for_each(|&value| self.used(value));
        step.outs().iter().map(|&value| self.define(value)).fold(used, Result::and)?;
        step.outs().iter().for_each(|out| self.makers[out.index()] = Some(self.at));
        if let Step::Read { variable, .. } | Step::Write { variable, .. } = step {
            ensure!(variable.index() < scope.variables.len(), "there is no {variable:?}");
        }
        if let Step::Write { variable, .. } = step {
            ensure!(!self.written[variable.index()], "{variable:?} is written twice");
            self.written[variable.index()] = true;
        }
        Ok(())
    }
}

/// What rules look at.
struct Scope<'a> {
    program: &'a Program,
    mesh: &'a Mesh,
    variables: &'a [VariableType],
}

impl Scope<'_> {
    fn value(&self, id: ValueId) -> &Value {
        self.program.value(id)
    }

    fn value_type(&self, value: &Value) -> Legal {
        ensure!(!value.extents.contains(&0), "has an empty extent: {:?}", value.extents.as_slice());
        let bytes = value.extents.iter().try_fold(value.dtype.size(), |n, &e| n.checked_mul(e));
        ensure!(bytes.is_some(), "is too large: {:?}", value.extents.as_slice());
        let mut order = value.order.clone();
        order.sort_unstable();
        let identity = order.iter().map(|&dim| usize::from(dim)).eq(0..value.extents.len());
        ensure!(identity, "has no memory order: {:?}", value.order.as_slice());
        Ok(())
    }

    /// Whether a list of axes is of the mesh and names none twice; it may be empty.
    fn axes(&self, axes: &[Axis]) -> Legal {
        let count = self.mesh.axes().count();
        for (i, axis) in axes.iter().enumerate() {
            ensure!(axis.index() < count, "{axis:?} is not an axis of {}", self.mesh);
            ensure!(!axes[..i].contains(axis), "axis {} is listed twice", self.mesh.name(*axis));
        }
        Ok(())
    }

    /// The greatest position an offset takes on any processor.
    fn greatest(&self, offset: &Offset) -> Result<usize, String> {
        self.axes(&offset.axes)?;
        let last = self.mesh.group_size(&offset.axes) as i64 - 1;
        let along = offset.scale.checked_mul(last).and_then(|along| isize::try_from(along).ok());
        let at_last = along.and_then(|along| offset.base.checked_add_signed(along));
        // Positions are linear in the group index: first and last are the extremes.
        at_last.map(|at| at.max(offset.base)).ok_or_else(|| {
            let range = if offset.scale < 0 { "goes below 0" } else { "overflows" };
            format!("an offset {range}")
        })
    }

    fn slot(&self, slot: &Slot) -> Legal {
        let values = &self.program.values;
        let value = values.get(slot.value.index());
        let value = value.ok_or_else(|| format!("there is no value {:?}", slot.value))?;
        let rank = value.extents.len();
        let (shape, split) = (&slot.shape, &slot.split);
        ensure!(
            shape.len() == rank && split.len() == rank,
            "{rank} dims, but {} global sizes and {} splits",
            shape.len(),
            split.len()
        );
        let all: Vec<Axis> = split.iter().flatten().copied().collect();
        self.axes(&all)?;
        for (dim, axes) in split.iter().enumerate() {
            let (local, parts) = (value.extents[dim], self.mesh.group_size(axes));
            ensure!(
                local.checked_mul(parts) == Some(shape[dim]),
                "dim {dim} is {parts} parts of {local}, but its global size is {}",
                shape[dim]
            );
        }
        Ok(())
    }
}

//! What one operation, or one move, costs a processor: its steps, made by themselves.

use super::{Estimator, Exchanged, Price};
use crate::graph::{Operation, Signature, TensorType};
use crate::lower::emit::Emitter;
use crate::lower::local::{Local, LocalCx, extents};
use crate::lower::placed::Placed;
use crate::lower::relayout::Route;
use crate::lower::setting::Setting;
use crate::lower::table::Table;
use crate::names::DType;
use crate::passes::{Exchange, Machine};
use crate::program::forms::Loop;
use crate::program::{Block, Builder, Cost, Form, Generator, Program, Step, ValueId, cost};

/// What some steps cost one processor.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Work {
    /// All but memory; the cost as programs count it, values that never reach memory included.
    pub(super) price: Price,
    /// Whether all steps are elementwise.
    pub(super) is_light: bool,
    /// Whether all steps are of forms that can go piece by piece.
    pub(super) is_piecewise: bool,
    /// Whether one of them is a product.
    pub(super) has_product: bool,
}

impl Work {
    /// Seconds without exchanges.
    pub(super) fn seconds(&self) -> f64 {
        self.price.compute_seconds + self.price.memory_seconds
    }
}

/// Which values of an operation need no memory: inputs first, then outputs.
pub(super) type Hidden = u32;

pub(super) fn is_hidden(hidden: Hidden, value: usize) -> bool {
    hidden.checked_shr(value as u32).is_some_and(|bits| bits & 1 == 1)
}

impl Estimator<'_> {
    /// The work of an operation whose outputs and then inputs lie so.
    pub(super) fn of_operation(
        &self,
        setting: &Setting<'_>,
        operation: &Operation,
        placed: &[&Placed],
        hidden: Hidden,
    ) -> Option<Work> {
        let data = setting.data;
        let types = |list: &[crate::graph::TensorId]| -> Vec<TensorType> {
            list.iter().map(|t| data.tensors[t.index()].ty.clone()).collect()
        };
        let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
        let signature = Signature { inputs: &inputs, outputs: &outputs };
        let mut builder = Builder::new("", setting.mesh);
        let mut given = Vec::new();
        for (ty, placement) in inputs.iter().zip(&placed[outputs.len()..]) {
            let shape = placement.local_shape(setting.mesh, &ty.shape)?;
            let id = builder.param(placement.held(ty.dtype), extents(&shape));
            given.push(Local::new(id, shape));
        }
        let mut cx = LocalCx {
            builder: &mut builder,
            signature,
            inputs: given.clone(),
            placements: placed.iter().map(|placed| &***placed).collect(),
            rule: operation.op.split(signature),
            outputs: vec![None; outputs.len()],
        };
        operation.op.local(&mut cx).ok()?;
        let made = cx.outputs;
        let values = given.iter().map(Some).chain(made.iter().map(Option::as_ref)).enumerate();
        let hidden: Vec<_> = values
            .filter(|(i, _)| is_hidden(hidden, *i))
            .filter_map(|(_, local)| local.map(|local| local.id))
            .collect();
        Some(self.of_program(setting, &builder.finish(), &hidden))
    }

    /// The work of moving a tensor by a route.
    pub(super) fn of_move(
        &self,
        setting: &Setting<'_>,
        ty: &TensorType,
        [from, to]: [&Placed; 2],
        route: &Route,
    ) -> Option<Work> {
        let nothing = Table::default();
        let mut emitter = Emitter::new(setting, "", &nothing);
        let shape = from.local_shape(setting.mesh, &ty.shape)?;
        let id = emitter.builder.param(from.held(ty.dtype), extents(&shape));
        let moved = emitter.travel(Local::new(id, shape), from, route).ok()?;
        let dtype = to.held(ty.dtype);
        if emitter.builder.value(moved.id).dtype != dtype {
            emitter.cast(&moved, dtype).ok()?;
        }
        Some(self.of_program(setting, &emitter.finish(), &[]))
    }

    fn of_program(&self, setting: &Setting<'_>, program: &Program, hidden: &[ValueId]) -> Work {
        // What makes nothing, such as an input, gives out what lies in memory.
        let makes = !program.block.steps.is_empty();
        let mut work = Work { is_light: makes, is_piecewise: makes, ..Work::default() };
        let mut places = vec![Place::Memory; program.block.values.len()];
        hidden.iter().for_each(|value| places[value.index()] = Place::Near);
        self.add(setting, &program.block, 1, places, &mut work);
        work
    }

    /// Adds a block that runs so many times.
    fn add(
        &self,
        setting: &Setting<'_>,
        block: &Block,
        times: u64,
        mut places: Vec<Place>,
        work: &mut Work,
    ) {
        let (count, machine) = (times as f64, self.machine());
        for step in &block.steps {
            if let Form::Loop(form) = &step.form {
                (work.is_light, work.is_piecewise) = (false, false);
                let read: u64 = captured(form, step)
                    .filter(|(_, value)| places[value.index()] == Place::Slice)
                    .map(|(_, value)| block.value(value).bytes() as u64)
                    .sum();
                work.price.memory_seconds += machine.seconds(DType::F32, 0, read) * count;
                let inner = inside(form, step, &mut places);
                self.add(setting, &form.body, times * form.expected() as u64, inner, work);
                continue;
            }
            work.is_light &= is_light(step);
            work.is_piecewise &= is_piecewise(step);
            work.has_product |= matches!(step.form, Form::Contract(_));
            let cost = cost(block, step, setting.mesh);
            work.price.cost += cost.times(times);
            if let Some(axes) = step.axes() {
                let members = setting.mesh.group_size(axes);
                let travel = self.exchange(&step.form, axes, members, cost.sent as f64);
                let seconds = travel.max(machine.seconds(DType::F32, 0, cost.bytes));
                work.price.exchanged.push(Exchanged {
                    form: step.form.name(),
                    axes: setting.mesh.list(axes),
                    count: times,
                    bytes: cost.sent * times,
                    seconds: seconds * count,
                });
                continue;
            }
            let is_near = |value: &ValueId| places[value.index()] == Place::Near;
            // A step whose out never reaches memory is a part of the step that takes it.
            let fused = step.outs.iter().any(is_near);
            // Of what it gathers from, a step meets the parts that it takes; those are counted as they are.
            let from = usize::from(matches!(step.form, Form::Gather(_)));
            let within = step.values().skip(from).filter(is_near);
            let within: u64 = within.map(|value| block.value(value).bytes() as u64).sum();
            let bytes = cost.bytes.saturating_sub(within);
            let flops = in_vectors(block, step, cost.flops, machine.caches.vector_bytes);
            let [arithmetic, traffic] = [(flops, 0), (0, bytes)]
                .map(|(flops, bytes)| machine.seconds(dtype(block, step), flops, bytes));
            match arithmetic >= traffic {
                true => work.price.compute_seconds += arithmetic * count,
                false => work.price.memory_seconds += traffic * count,
            }
            if cost != Cost::default() && !fused {
                work.price.memory_seconds += machine.begin * count;
            }
            for value in step.values() {
                let place = &mut places[value.index()];
                *place = if *place == Place::Slice { Place::Near } else { *place };
            }
        }
    }

    fn exchange(
        &self,
        form: &Form,
        axes: &[crate::names::Axis],
        members: usize,
        received: f64,
    ) -> f64 {
        let (what, received) = match form {
            Form::AllReduce(_) => (Exchange::AllReduce, received),
            Form::AllGather(_) => (Exchange::AllGather, received),
            Form::ReduceScatter(_) => (Exchange::ReduceScatter, received),
            Form::AllToAll(_) => (Exchange::AllToAll, received),
            Form::Permute(_) => (Exchange::Permute, received),
            // The owner receives the parts of all others, which a tree adds on the way.
            Form::ReduceTo(_) => (Exchange::Rooted, received / members.max(2) as f64),
            _ => (Exchange::Rooted, received),
        };
        let level = self.level(axes);
        level.map_or(0.0, |level| Machine::exchange(&level, what, members, received))
    }
}

/// Where a value of an operation's body lies. It is the same for all sizes of slices, so that no layout can do
/// with less than its share of the traffic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Whoever reads or writes it meets memory.
    Memory,
    /// A slice, in an iteration, of what lies in memory: the first that reads it fetches it.
    Slice,
    /// In registers, or in a processor's own cache.
    Near,
}

/// What a loop's body reads of outside, whole in each iteration: as a position among its parameters, and outside.
fn captured<'s>(form: &Loop, step: &'s Step) -> impl Iterator<Item = (usize, ValueId)> + 's {
    step.reads().enumerate().skip(form.carried + form.sliced)
}

/// Where the values of a loop's body lie. Bodies of operations' own loops work on blocks that are small enough
/// for a processor's own cache, so what they make is near.
fn inside(form: &Loop, step: &Step, places: &mut [Place]) -> Vec<Place> {
    let body = &form.body;
    let mut inner = vec![Place::Near; body.values.len()];
    let slices = step.reads().enumerate().skip(form.carried).take(form.sliced);
    for (i, value) in slices {
        if let (Some(param), true) = (body.params.get(i), places[value.index()] != Place::Near) {
            inner[param.index()] = Place::Slice;
        }
    }
    for (i, value) in captured(form, step) {
        let place = &mut places[value.index()];
        *place = if *place == Place::Slice { Place::Near } else { *place };
        if let Some(param) = body.params.get(i) {
            inner[param.index()] = *place;
        }
    }
    inner
}

/// Whether a step is elementwise, or makes equal elements.
fn is_light(step: &Step) -> bool {
    match &step.form {
        Form::Map(_) => true,
        Form::Generate(form) => matches!(form.generator, Generator::Fill(_)),
        _ => false,
    }
}

/// Whether a step is of a form that tiles can cut.
fn is_piecewise(step: &Step) -> bool {
    let forms = matches!(
        step.form,
        Form::Contract(_) | Form::Reduce(_) | Form::Sort(_) | Form::Gather(_) | Form::Scan(_)
    );
    forms || is_light(step) || matches!(step.form, Form::Reshape(_) | Form::Move(_))
}

/// Floating-point operations of a step, with those of the lanes that a convolution's last dim leaves empty. Blocks of
/// one vector load an element for each product, those of two for every second: on Zen 3, with 8 and 16 features of
/// `mnist`, they reach 55 to 66 and 63 to 81 GFLOP/s, so one vector counts as five quarters. A part of a dim takes at
/// least its share of what the whole dim takes.
fn in_vectors(block: &Block, step: &Step, flops: u64, vector_bytes: usize) -> u64 {
    let (Form::Convolve(_), Some(out)) = (&step.form, step.outs.first()) else { return flops };
    let out = block.value(*out);
    let last = out.extents.last().map_or(1, |n| *n as u64).max(1);
    let lanes = (vector_bytes / out.dtype.size()).max(1) as u64;
    let filled = last.next_multiple_of(lanes);
    let counted = if filled == lanes { filled * 5 / 4 } else { filled };
    (flops / last).saturating_mul(counted)
}

/// What a step computes in.
fn dtype(block: &Block, step: &Step) -> DType {
    let mut values = step.values().map(|value| block.value(value).dtype);
    values.find(|dtype| dtype.is_float()).unwrap_or_default()
}

//! What one operation, or one move, costs a processor: its steps, made by themselves.

use super::{Estimator, Exchanged};
use crate::graph::{Operation, Signature, TensorType};
use crate::lower::emit::Emitter;
use crate::lower::local::{Local, LocalCx, extents};
use crate::lower::relayout::Route;
use crate::lower::table::{Setting, Table};
use crate::names::{DType, Placement};
use crate::passes::{Exchange, Machine};
use crate::program::{Block, Builder, Cost, Form, Generator, Program, Step, ValueId, cost};

/// What some steps cost one processor.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Work {
    /// Seconds of steps that are bound by arithmetic.
    pub(super) compute: f64,
    /// Seconds of steps that are bound by memory traffic, and of beginning steps.
    pub(super) memory: f64,
    /// As programs count it, values that stay in registers included.
    pub(super) cost: Cost,
    /// What steps exchange.
    pub(super) exchanges: Vec<Exchanged>,
    /// Whether all steps are elementwise.
    pub(super) is_light: bool,
}

impl Work {
    /// Seconds without exchanges.
    pub(super) fn seconds(&self) -> f64 {
        self.compute + self.memory
    }

    /// Seconds with exchanges.
    pub(super) fn all_seconds(&self) -> f64 {
        self.seconds() + self.exchanges.iter().map(|exchange| exchange.seconds).sum::<f64>()
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
        placements: &[Placement],
        hidden: Hidden,
    ) -> Option<Work> {
        let data = setting.data;
        let types = |list: &[crate::graph::TensorId]| -> Vec<TensorType> {
            list.iter().map(|t| data.tensors[t.index()].ty.clone()).collect()
        };
        let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
        let signature = Signature { inputs: &inputs, outputs: &outputs };
        let mut builder = Builder::new("", setting.mesh);
        let at = &placements[outputs.len()..];
        let mut given = Vec::new();
        for (ty, placement) in inputs.iter().zip(at) {
            let shape = placement.local_shape(setting.mesh, &ty.shape)?;
            let id = builder.param(placement.held(ty.dtype), extents(&shape));
            given.push(Local::new(id, shape));
        }
        let mut cx = LocalCx {
            builder: &mut builder,
            setting,
            signature,
            inputs: given.clone(),
            placements: placements.iter().collect(),
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
        from: &Placement,
        to: &Placement,
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
        let mut work = Work { is_light: true, ..Work::default() };
        self.add(setting, &program.block, 1, hidden, &mut work);
        work
    }

    /// Adds a block that runs so many times.
    fn add(
        &self,
        setting: &Setting<'_>,
        block: &Block,
        times: u64,
        hidden: &[ValueId],
        work: &mut Work,
    ) {
        let count = times as f64;
        for step in &block.steps {
            if let Form::Loop(form) = &step.form {
                work.is_light = false;
                self.add(setting, &form.body, times * form.expected() as u64, &[], work);
                continue;
            }
            work.is_light &= is_light(step);
            let cost = cost(block, step, setting.mesh);
            work.cost += cost.times(times);
            if let Some(axes) = step.axes() {
                let members = setting.mesh.group_size(axes);
                let seconds = self.exchange(&step.form, axes, members, cost.sent as f64);
                work.exchanges.push(Exchanged {
                    form: step.form.name(),
                    axes: setting.mesh.list(axes),
                    count: times,
                    bytes: cost.sent * times,
                    seconds: seconds * count,
                });
                continue;
            }
            let within = step.values().filter(|value| hidden.contains(value));
            let within: u64 = within.map(|value| block.value(value).bytes() as u64).sum();
            let bytes = cost.bytes.saturating_sub(within);
            let (flops, machine) = (cost.flops, self.machine());
            let [arithmetic, traffic] = [(flops, 0), (0, bytes)]
                .map(|(flops, bytes)| machine.seconds(dtype(block, step), flops, bytes));
            match arithmetic >= traffic {
                true => work.compute += arithmetic * count,
                false => work.memory += traffic * count,
            }
            // A step whose out stays in registers is a part of the step that takes it.
            let fused = step.outs.iter().any(|out| hidden.contains(out));
            if cost != Cost::default() && !fused {
                work.memory += machine.begin * count;
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

/// Whether a step is elementwise, or makes equal elements.
fn is_light(step: &Step) -> bool {
    match &step.form {
        Form::Map(_) => true,
        Form::Generate(form) => matches!(form.generator, Generator::Fill(_)),
        _ => false,
    }
}

/// What a step computes in.
fn dtype(block: &Block, step: &Step) -> DType {
    let mut values = step.values().map(|value| block.value(value).dtype);
    values.find(|dtype| dtype.is_float()).unwrap_or_default()
}

//! Sums of reduced partial sums become the reduction of one sum of partials:
//! `reduce(a) + reduce(b) = reduce(a + b)`, one collective instead of two.
//!
//! A map is merged if its body adds, subtracts and negates only, its inputs are two or more results
//! of sums over the same axes (and, scattered, along the same dim), whole, unbroadcast and used by
//! nothing else. One scan in order merges chains and trees of such maps into one collective, since
//! a map's inputs have been merged when it is met. Sums are associated anew, so floats may round
//! differently.

use super::compact;
use super::uses::Uses;
use crate::names::{AxisList, DType, ReduceKind};
use crate::program::forms::{AllReduce, ReduceScatter};
use crate::program::{
    Block, Body, FoldOrder, Form, Instr, Operand, Owners, Prim, Step, Value, ValueId,
};

pub(super) fn run(block: &mut Block) {
    let mut sums = Sums {
        uses: Uses::new(block),
        owner: vec![None; block.values.len()],
        steps: Vec::with_capacity(block.steps.len()),
    };
    for step in std::mem::take(&mut block.steps) {
        match sums.mergeable(block, &step) {
            Some((inputs, promise)) => sums.merge(block, step, &inputs, promise),
            None => sums.push(step),
        }
    }
    block.steps = sums.steps.into_iter().flatten().collect();
    compact(block);
}

/// How partial values are summed.
#[derive(Clone, PartialEq)]
struct Promise {
    owners: Owners,
    axes: AxisList,
    /// `None` if every member gets the whole.
    dim: Option<u8>,
}

struct Sums {
    uses: Uses,
    /// Per value, the position in `steps` of the sum that defines it.
    owner: Vec<Option<usize>>,
    /// The new program; `None` for collectives that were merged away.
    steps: Vec<Option<Step>>,
}

impl Sums {
    fn push(&mut self, step: Step) {
        if promise(&step).is_some() {
            let at = self.steps.len();
            step.outs.iter().for_each(|out| self.owner[out.index()] = Some(at));
        }
        self.steps.push(Some(step));
    }

    /// How the sum that defines a value is made.
    fn promised(&self, value: ValueId) -> Option<Promise> {
        let owner = self.owner.get(value.index()).copied().flatten()?;
        self.steps[owner].as_ref().and_then(promise)
    }

    /// The distinct inputs of a map that can be merged, and how all of them are summed.
    fn mergeable(&self, block: &Block, step: &Step) -> Option<(Vec<ValueId>, Promise)> {
        let (Form::Map(map), &[out]) = (&step.form, &step.outs[..]) else { return None };
        let Value { dtype, extents, .. } = block.value(out);
        let whole = |input: &Operand| input.is_whole() && input.dims.len() == extents.len();
        let all = map.reads_all() && step.inputs.iter().all(whole);
        if !adds_only(&map.body, *dtype) || !all {
            return None;
        }
        let mut distinct: Vec<_> = step.reads().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let promised = self.promised(*distinct.first()?)?;
        let fits = distinct.iter().all(|&value| {
            self.uses.has_one_reader(value) && self.promised(value).as_ref() == Some(&promised)
        });
        (fits && distinct.len() > 1).then_some((distinct, promised))
    }

    fn merge(&mut self, block: &mut Block, mut map: Step, sums: &[ValueId], promise: Promise) {
        let partials: Vec<_> = sums.iter().filter_map(|&sum| self.take_partial(sum)).collect();
        let Some(&first) = partials.first() else { return };
        let Value { dtype, extents, .. } = block.value(first).clone();
        let input = Operand::whole(first, extents.len());
        let partial = block.define(Value::new(dtype, extents));
        for operand in &mut map.inputs {
            let position = sums.iter().position(|&sum| sum == operand.value);
            operand.value = position.map_or(operand.value, |position| partials[position]);
        }
        let kind = ReduceKind::Sum;
        let Promise { owners, axes, dim } = promise;
        let form: Form = match dim {
            None => AllReduce { kind, order: FoldOrder::Group, axes }.into(),
            Some(dim) => ReduceScatter { kind, axes, dim }.into(),
        };
        map.owners = owners;
        let sum = map.instead(form, [Operand { value: partial, ..input }], &map.outs);
        map.outs[0] = partial;
        self.push(map);
        self.push(sum);
    }

    /// Takes a sum out of the program and gives the partial value that it summed.
    fn take_partial(&mut self, sum: ValueId) -> Option<ValueId> {
        let owner = self.owner[sum.index()].take()?;
        let step = self.steps[owner].as_mut()?;
        let pair = step.outs.iter().position(|&out| out == sum)?;
        step.outs.remove(pair);
        let partial = step.inputs.remove(pair).value;
        if step.outs.is_empty() {
            self.steps[owner] = None;
        }
        Some(partial)
    }
}

fn promise(step: &Step) -> Option<Promise> {
    let owners = step.owners.clone();
    match &step.form {
        Form::AllReduce(AllReduce { kind: ReduceKind::Sum, axes, .. }) => {
            Some(Promise { owners, axes: axes.clone(), dim: None })
        }
        Form::ReduceScatter(ReduceScatter { kind: ReduceKind::Sum, axes, dim }) => {
            Some(Promise { owners, axes: axes.clone(), dim: Some(*dim) })
        }
        _ => None,
    }
}

/// Whether a body of one result is jointly additive in its inputs, throughout in a dtype that sums
/// are held in.
fn adds_only(body: &Body, dtype: DType) -> bool {
    let additive = |instr: &Instr| match instr {
        Instr::Input(_) => true,
        Instr::Apply(prim, _) => matches!(prim, Prim::Add | Prim::Sub | Prim::Neg),
        Instr::Const(_) => false,
    };
    matches!(dtype, DType::F32 | DType::F64 | DType::I32)
        && body.code.iter().all(|(instr, register)| additive(instr) && *register == dtype)
}

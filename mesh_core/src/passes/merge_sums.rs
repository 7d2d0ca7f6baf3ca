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
use crate::names::{AxisList, DType, Mesh, ReduceKind};
use crate::program::{
    Body, FoldOrder, Instr, Node, Operand, Owners, Prim, Program, Step, Value, ValueId,
};
use smallvec::smallvec;

pub(super) fn run(program: &mut Program, _mesh: &Mesh) {
    let mut sums = Sums {
        uses: Uses::new(program),
        owner: vec![None; program.values.len()],
        steps: Vec::with_capacity(program.steps.len()),
    };
    for node in std::mem::take(&mut program.steps) {
        let Some((inputs, promise)) = sums.mergeable(program, &node.step) else {
            sums.push(node);
            continue;
        };
        sums.merge(program, node, &inputs, promise);
    }
    program.steps = sums.steps.into_iter().flatten().collect();
    compact(program);
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
    steps: Vec<Option<Node>>,
}

impl Sums {
    fn push(&mut self, node: Node) {
        if promise(&node).is_some() {
            node.step
                .outs()
                .iter()
                .for_each(|out| self.owner[out.index()] = Some(self.steps.len()));
        }
        self.steps.push(Some(node));
    }

    /// How the sum that defines a value is made.
    fn promised(&self, value: ValueId) -> Option<Promise> {
        let owner = self.owner.get(value.index()).copied().flatten()?;
        self.steps[owner].as_ref().and_then(promise)
    }

    /// The distinct inputs of a map that can be merged, and how all of them are summed.
    fn mergeable(&self, program: &Program, step: &Step) -> Option<(Vec<ValueId>, Promise)> {
        let Step::Map { body, inputs, outs } = step else { return None };
        let out = program.value(*outs.first()?);
        let whole = |operand: &Operand| {
            operand.dims.len() == out.extents.len()
                && operand.dims.iter().enumerate().all(|(i, &label)| i == usize::from(label))
        };
        if outs.len() != 1 || !adds_only(body, out.dtype) || !inputs.iter().all(whole) {
            return None;
        }
        let mut distinct: Vec<_> = inputs.iter().map(|operand| operand.value).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let promised = self.promised(*distinct.first()?)?;
        let fits = distinct.iter().all(|&value| {
            self.uses.has_one_reader(value) && self.promised(value).as_ref() == Some(&promised)
        });
        (fits && distinct.len() > 1).then_some((distinct, promised))
    }

    fn merge(&mut self, program: &mut Program, node: Node, sums: &[ValueId], promise: Promise) {
        let Node { step: Step::Map { body, mut inputs, outs }, origin, .. } = node else { return };
        let partials: Vec<_> = sums.iter().filter_map(|&sum| self.take_partial(sum)).collect();
        let Some(&first) = partials.first() else { return };
        let Value { dtype, extents, .. } = program.value(first).clone();
        let partial = ValueId(program.values.len() as u32);
        program.values.push(Value::new(dtype, extents));
        for operand in &mut inputs {
            let position = sums.iter().position(|&sum| sum == operand.value);
            operand.value = position.map_or(operand.value, |position| partials[position]);
        }
        let map = Step::Map { body, inputs, outs: smallvec![partial] };
        let kind = ReduceKind::Sum;
        let Promise { owners, axes, dim } = promise;
        let sum = match dim {
            None => {
                let (order, inputs) = (FoldOrder::Group, smallvec![partial]);
                Step::AllReduce { kind, order, axes, inputs, outs }
            }
            Some(dim) => Step::ReduceScatter { kind, axes, dim, input: partial, out: outs[0] },
        };
        self.push(Node { step: map, origin, owners: owners.clone() });
        self.push(Node { step: sum, origin, owners });
    }

    /// Takes a sum out of the program and gives the partial value that it summed.
    fn take_partial(&mut self, sum: ValueId) -> Option<ValueId> {
        let owner = self.owner[sum.index()].take()?;
        let (partial, last) = match &mut self.steps[owner].as_mut()?.step {
            Step::AllReduce { inputs, outs, .. } => {
                let pair = outs.iter().position(|&out| out == sum)?;
                outs.remove(pair);
                (inputs.remove(pair), outs.is_empty())
            }
            Step::ReduceScatter { input, .. } => (*input, true),
            _ => return None,
        };
        if last {
            self.steps[owner] = None;
        }
        Some(partial)
    }
}

fn promise(node: &Node) -> Option<Promise> {
    let owners = node.owners.clone();
    match &node.step {
        Step::AllReduce { kind: ReduceKind::Sum, axes, .. } => {
            Some(Promise { owners, axes: axes.clone(), dim: None })
        }
        Step::ReduceScatter { kind: ReduceKind::Sum, axes, dim, .. } => {
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

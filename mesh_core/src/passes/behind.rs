//! Products that a loop adds up over its iterations are one product behind it, if their factors are kept anyway.
//!
//! The gradient of weights that all iterations read is such a sum: each iteration adds a product of what it was
//! given and a gradient, over few examples. A factor is kept if it is a slice or is stacked. What the iterations
//! write of the sum has to be more than what is read once more of the factors.

use super::dead;
use super::onto::folds;
use super::uses::Uses;
use crate::names::{DType, ReduceKind};
use crate::program::forms::Loop;
use crate::program::{Block, Form, Instr, Operand, Reg, Step, ValueId};

pub(super) fn run(block: &mut Block) {
    for mut step in std::mem::take(&mut block.steps) {
        let mut behind = Vec::new();
        if let Form::Loop(form) = &step.form
            && !form.conditional
        {
            let sums: Vec<Sum> =
                (0..form.carried).rev().filter_map(|i| Sum::of(block, &step, form, i)).collect();
            for sum in sums {
                behind.extend(sum.leave(block, &mut step));
            }
        }
        block.steps.push(step);
        block.steps.extend(behind);
    }
    dead::run(block);
}

/// A product that a loop adds to what it carries.
struct Sum {
    /// Which of what is carried it is.
    carried: usize,
    /// The step of the body that makes the product.
    product: Step,
    /// Where its factors are kept, one dim more.
    factors: [ValueId; 2],
    /// The step that adds it, of which this input is the product.
    add: Step,
    input: usize,
}

impl Sum {
    /// What the loop carries at a position, if that is such a sum.
    fn of(block: &Block, step: &Step, form: &Loop, carried: usize) -> Option<Self> {
        let body = &*form.body;
        let uses = Uses::new(body);
        let (param, result) = (body.params[carried], body.results[carried]);
        let is_once = body.results.iter().filter(|id| **id == result).count() == 1;
        if !is_once || !uses.users[result.index()].is_empty() || !uses.has_one_reader(param) {
            return None;
        }
        let add = &body.steps[uses.maker[result.index()]?];
        let Form::Map(map) = &add.form else { return None };
        let (ReduceKind::Sum, regs) = folds(map)? else { return None };
        let read = |reg: Reg| match map.body.code[usize::from(reg.0)].0 {
            Instr::Input(input) => Some(usize::from(input)),
            _ => None,
        };
        let [one, other] = regs.map(read);
        let (one, other) = (one?, other?);
        let input = match [one, other].map(|i| add.inputs[i].value == param) {
            [true, false] => other,
            [false, true] => one,
            _ => return None,
        };
        let made = add.inputs[input].value;
        let sum = body.value(result);
        let is_wide = matches!(sum.dtype, DType::F32 | DType::F64 | DType::I32);
        let is_alike = add.inputs.iter().all(|of| of.is_whole() && body.value(of.value) == sum);
        if !is_wide || !is_alike || !uses.has_one_reader(made) {
            return None;
        }
        let product = &body.steps[uses.maker[made.index()]?];
        let (Form::Contract(_), [lhs, rhs]) = (&product.form, &product.inputs[..]) else {
            return None;
        };
        let factors = [kept(step, form, lhs.value)?, kept(step, form, rhs.value)?];
        let bytes = |id: ValueId| body.value(id).bytes();
        let pays = 2 * sum.bytes() > bytes(lhs.value) + bytes(rhs.value);
        let is_same = |id: ValueId| block.value(id).order == block.value(step.outs[carried]).order;
        let theirs = [&product.owners, &add.owners].iter().all(|owners| **owners == step.owners);
        let whole = is_same(step.inputs[carried].value) && step.inputs[carried].is_whole();
        (pays && theirs && whole && form.count > 1).then(|| Self {
            carried,
            product: product.clone(),
            factors,
            add: add.clone(),
            input,
        })
    }

    /// The steps that make the sum of all iterations, behind a loop that no longer carries it.
    fn leave(self, block: &mut Block, step: &mut Step) -> [Step; 2] {
        let Self { carried, mut product, factors, mut add, input } = self;
        let begin = step.inputs.remove(carried);
        let out = step.outs.remove(carried);
        if let Form::Loop(form) = &mut step.form {
            form.body.params.remove(carried);
            form.body.results.remove(carried);
            form.carried -= 1;
        }
        let labels = product.inputs.iter().flat_map(|factor| &factor.dims);
        let iteration = labels.max().map_or(0, |most| most + 1);
        for (factor, kept) in product.inputs.iter_mut().zip(factors) {
            let dims = std::iter::once(iteration).chain(factor.dims.iter().copied()).collect();
            *factor = Operand { value: kept, dims };
        }
        let made = block.define(block.value(out).clone());
        product.outs[0] = made;
        for (i, operand) in add.inputs.iter_mut().enumerate() {
            operand.value = if i == input { made } else { begin.value };
        }
        add.outs[0] = out;
        [product, add]
    }
}

/// Where the loop has all of what an iteration is given as a slice, or stacks.
fn kept(step: &Step, form: &Loop, value: ValueId) -> Option<ValueId> {
    let slice = form.slices().find(|&i| form.body.params[i] == value);
    let whole = |i: usize| step.inputs[i].is_whole().then_some(step.inputs[i].value);
    let stack = || form.stacks().find(|&i| form.body.results[i] == value).map(|i| step.outs[i]);
    slice.and_then(whole).or_else(stack)
}

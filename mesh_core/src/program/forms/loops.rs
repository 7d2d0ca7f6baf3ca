use super::{FormRules, Legal, StepCx, ensure};
use crate::names::DType;
use crate::program::meaning::{Numbers, reshaped};
use crate::program::stablehlo::{Element, Is, Spell, Tensor, Writer};
use crate::program::verify::verify_body;
use crate::program::{Block, Cost, Extents, Operand, Step, Value, ValueId, cost};
use ndarray::Slice;
use serde::{Deserialize, Serialize};
use std::iter::zip;
use std::ops::Range;

/// Runs a block again and again (StableHLO's while): in each iteration, once.
///
/// Inputs, in this order: what the first iteration *carries*; *sliced* values, which are `count` slices
/// one after the other ([`is_stack`]); *captured* values, the same in all iterations; and if the loop is
/// conditional a bool, whether there is a first iteration. Outs: what the last iteration leaves to carry,
/// then what is *stacked* (see [`is_stack`]); zeros where no iteration came.
///
/// The body's parameters are what is carried, a slice of each sliced value, what is captured, and the
/// iteration's position, an i32. Its results are what the next iteration carries, what is stacked, and
/// in a conditional loop whether there is a next iteration, a bool. Each has the type of what it stands
/// for; parameters may be results, each in any place and any number of times.
///
/// There is at least one iteration, or may be. The body is legal and neither reads nor writes variables.
/// A conditional loop slices and stacks nothing. A loop that only some processors run is theirs with all
/// that is in its body.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Loop {
    /// What an iteration does.
    pub body: Box<Block>,
    /// Number of iterations; of a conditional loop the most.
    pub count: usize,
    /// Positions fall from `count - 1` to 0 instead of rising from 0.
    pub reverse: bool,
    /// Whether iterations end when the body says so.
    pub conditional: bool,
    /// How many of the inputs are carried.
    pub carried: usize,
    /// How many of the inputs are sliced.
    pub sliced: usize,
}

/// The inputs of a loop, by what becomes of them.
#[derive(Clone, Copy, Debug)]
pub struct LoopInputs<'a> {
    /// What the first iteration carries.
    pub carried: &'a [Operand],
    /// Values of which each iteration has a slice.
    pub sliced: &'a [Operand],
    /// The same in all iterations.
    pub captured: &'a [Operand],
    /// Whether there is a first iteration.
    pub condition: Option<ValueId>,
}

impl Loop {
    /// The inputs of a step of this form.
    pub fn inputs<'a>(&self, step: &'a Step) -> LoopInputs<'a> {
        let (carried, rest) = step.inputs.split_at(self.carried.min(step.inputs.len()));
        let (sliced, rest) = rest.split_at(self.sliced.min(rest.len()));
        let (captured, last) = rest.split_at(rest.len().saturating_sub(self.conditional.into()));
        let condition = last.first().map(|condition| condition.value);
        LoopInputs { carried, sliced, captured, condition }
    }

    /// The positions of sliced values among inputs and parameters.
    pub fn slices(&self) -> Range<usize> {
        self.carried..self.carried + self.sliced
    }

    /// The positions of stacked values among outs and results.
    pub fn stacks(&self) -> Range<usize> {
        let flag = usize::from(self.conditional);
        self.carried..self.body.results.len().saturating_sub(flag).max(self.carried)
    }

    /// The body's parameter that is the iteration's position.
    pub fn position(&self) -> Option<ValueId> {
        self.body.params.last().copied()
    }

    /// The body's result that says whether there is a next iteration.
    pub fn again(&self) -> Option<ValueId> {
        self.body.results.last().copied().filter(|_| self.conditional)
    }

    /// Number of iterations for estimates of cost; of a conditional loop nobody knows it, so one.
    pub fn expected(&self) -> usize {
        if self.conditional { 1 } else { self.count }
    }

    /// The types of the outs.
    pub(crate) fn out_types(&self) -> Vec<(DType, Extents)> {
        let results = self.body.results.iter().enumerate().take(self.stacks().end);
        let types = results.map(|(i, &result)| {
            let Value { dtype, extents, .. } = self.body.value(result);
            let count = (i >= self.carried).then_some(self.count);
            (*dtype, count.into_iter().chain(extents.iter().copied()).collect())
        });
        types.collect()
    }
}

impl FormRules for Loop {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn in_place(&self, _: &[Operand], out: usize, input: usize) -> bool {
        let moves = self.slices().contains(&input) && self.stacks().contains(&out);
        match (self.body.params.get(input), self.body.results.get(out)) {
            (Some(&param), Some(&result)) if moves => self.body.gives_way(param, result),
            _ => out == input && input < self.carried,
        }
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        ensure!(self.count > 0, "there are no iterations");
        verify_body(&self.body, step.mesh, &step.step.owners).map_err(|problems| {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            format!("in its body: {}", problems.join("; "))
        })?;
        let (inputs, outs) = (self.inputs(step.step), &step.step.outs);
        let flag = usize::from(self.conditional);
        let enough = inputs.carried.len() == self.carried && inputs.sliced.len() == self.sliced;
        ensure!(enough, "{} inputs are too few", step.step.inputs.len());
        ensure!(inputs.condition.is_some() == self.conditional, "it has no condition");
        let (found, given) = (self.body.params.len(), step.step.inputs.len() - flag + 1);
        ensure!(found == given, "its body has {found} parameters, not {given}");
        let (found, left) = (self.body.results.len(), outs.len() + flag);
        ensure!(found == left, "its body has {found} results, not {left}");
        ensure!(outs.len() >= self.carried, "not all that is carried has an out");
        self.check_types(step)
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let once: Cost =
            self.body.steps.iter().map(|inner| cost(&self.body, inner, step.mesh)).sum();
        // Slices and stacks are read and written where they lie; what is carried is copied in.
        let carried = self.inputs(step.step).carried.iter();
        let moved = 2 * carried.map(|input| step.value(input.value).bytes() as u64).sum::<u64>();
        once.times(self.expected() as u64) + Cost { bytes: moved, ..Cost::default() }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let order = if self.reverse { ", last first" } else { "" };
        match self.inputs(step.step).condition {
            Some(condition) => format!("while {condition:?}"),
            None => format!("{} iterations{order}", self.count),
        }
    }
}

impl Loop {
    /// Whether the body's parameters and results have the types of what they stand for.
    fn check_types(&self, step: &StepCx<'_>) -> Legal {
        let (body, count) = (&*self.body, self.count);
        let scalar = |value: &Value, dtype| value.dtype == dtype && value.extents.is_empty();
        let position = self.position().map(|id| body.value(id));
        ensure!(position.is_some_and(|p| scalar(p, DType::I32)), "a position is an i32");
        if let Some(condition) = self.inputs(step.step).condition {
            ensure!(scalar(step.value(condition), DType::Bool), "its condition is not a bool");
            ensure!(self.sliced == 0, "a conditional loop slices nothing");
            ensure!(self.stacks().is_empty(), "a conditional loop stacks nothing");
        }
        for (i, (given, &param)) in
            zip(step.step.reads(), &body.params[..body.params.len() - 1]).enumerate()
        {
            let slices = self.slices().contains(&i).then_some(count);
            same(step.value(given), body.value(param), slices)?;
        }
        for (i, (&out, &result)) in zip(&step.step.outs, &body.results).enumerate() {
            let slices = self.stacks().contains(&i).then_some(count);
            same(step.value(out), body.value(result), slices)?;
        }
        let again = self.again().map(|id| body.value(id));
        ensure!(again.is_none_or(|a| scalar(a, DType::Bool)), "whether to go on is not a bool");
        Ok(())
    }
}

/// Whether values are of one type, or one is so many of the other. They lie in the same order, since
/// they are copied as bytes.
fn same(outer: &Value, inner: &Value, slices: Option<usize>) -> Legal {
    let fits = match slices {
        Some(count) => is_stack(outer, inner, count),
        None => outer == inner,
    };
    ensure!(fits, "{outer} does not fit {inner} of its body");
    Ok(())
}

/// Whether a value is `count` slices like `slice`, one after the other. The slice either lacks the
/// first dim, of size `count`; or it is a tile: as dims lie in memory, of size 1 along the outermost
/// ones, an equal part of the next, and whole along the rest. Both lie in the same order, since slices
/// are stretches of memory.
pub fn is_stack(value: &Value, slice: &Value, count: usize) -> bool {
    let fits = if value.order.len() == slice.order.len() {
        value.order == slice.order && is_tile(value, slice) && value.len() == count * slice.len()
    } else {
        let behind = value.order.iter().skip(1).map(|&dim| dim.wrapping_sub(1));
        value.order.first() == Some(&0)
            && behind.eq(slice.order.iter().copied())
            && value.extents[0] == count
            && value.extents[1..] == slice.extents[..]
    };
    fits && value.dtype == slice.dtype
}

/// Where slice number `position` lies in a stack of them: a range per dim of the stack.
fn stretch(stack: &Value, slice: &Value, position: usize) -> Vec<Slice> {
    let lacks_first = stack.extents.len() - slice.extents.len();
    let extent = |dim: usize| dim.checked_sub(lacks_first).map_or(1, |dim| slice.extents[dim]);
    let (mut rest, mut begin) = (position, vec![0; stack.extents.len()]);
    for &dim in stack.order.iter().rev() {
        let dim = usize::from(dim);
        let parts = stack.extents[dim] / extent(dim);
        begin[dim] = rest % parts * extent(dim);
        rest /= parts;
    }
    begin.into_iter().enumerate().map(|(dim, b)| Slice::from(b..b + extent(dim))).collect()
}

/// Slice number `position` of a stack.
pub(crate) fn slice_of(
    stack: &Value,
    slice: &Value,
    position: usize,
    numbers: &Numbers,
) -> Numbers {
    let stretch = stretch(stack, slice, position);
    let part = numbers.slice_each_axis(|axis| stretch[axis.axis.index()]);
    reshaped(part, &slice.extents)
}

/// Puts slice number `position` on a stack.
pub(crate) fn put_slice(
    stack: &Value,
    slice: &Value,
    position: usize,
    numbers: &Numbers,
    onto: &mut Numbers,
) {
    let stretch = stretch(stack, slice, position);
    let part = onto.slice_each_axis_mut(|axis| stretch[axis.axis.index()]);
    zip(part, numbers).for_each(|(onto, &x)| *onto = x);
}

/// Whether a slice of the same rank and order is a tile.
fn is_tile(value: &Value, slice: &Value) -> bool {
    let lies = |value: &Value| -> Extents {
        value.order.iter().map(|&dim| value.extents[usize::from(dim)]).collect()
    };
    let (whole, part) = (lies(value), lies(slice));
    let ones = part.iter().take_while(|&&extent| extent == 1).count();
    let cut = (ones + 1).min(part.len());
    let fits = whole[..cut].iter().zip(&part).all(|(all, part)| all % part == 0);
    fits && whole[cut..] == part[cut..]
}

impl Spell for Loop {
    /// What goes from iteration to iteration is their count so far, what is carried, the stacks, and whether
    /// to go on. The rest is seen from outside.
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (flag, count) = (usize::from(self.conditional), self.count as f64);
        let (carried, rest) = inputs.split_at(self.carried);
        let (sliced, rest) = rest.split_at(self.sliced);
        let (captured, condition) = rest.split_at(rest.len() - flag);
        let mut first = vec![to.fill(Element::I32, &[], 0.0)];
        first.extend(carried.iter().cloned());
        for i in self.stacks() {
            let Value { dtype, extents, .. } = step.out(i);
            first.push(to.fill((*dtype).into(), extents, 0.0));
        }
        first.extend(condition.iter().cloned());
        let goes_on = |to: &mut Writer<'_>, state: &[Tensor]| {
            let below = to.compare_with(&state[0], Is::Less, count);
            let again = state.last().filter(|_| self.conditional);
            again.map_or(below.clone(), |again| to.binary("and", &below, again))
        };
        let left = to.repeated(&first, goes_on, |to, state| {
            let position = if self.reverse {
                let last = to.fill(Element::I32, &[], count - 1.0);
                to.binary("subtract", &last, &state[0])
            } else {
                state[0].clone()
            };
            let mut params = state[1..1 + self.carried].to_vec();
            for (i, x) in self.slices().zip(sliced) {
                let (stack, slice) = (step.input(i), self.body.value(self.body.params[i]));
                let (begin, extents) = place(to, stack, slice, &position);
                let part = to.sliced_at(x, &begin, &extents);
                params.push(to.reshaped(&part, &slice.extents));
            }
            params.extend(captured.iter().cloned());
            params.push(position.clone());
            let mut results = to.block(&self.body, &params)?;
            for i in self.stacks() {
                let (stack, slice) = (step.out(i), self.body.value(self.body.results[i]));
                let (begin, extents) = place(to, stack, slice, &position);
                let part = to.reshaped(&results[i], &extents);
                results[i] = to.replaced(&state[1 + i], &part, &begin);
            }
            let next = to.with("add", &state[0], 1.0);
            Ok(std::iter::once(next).chain(results).collect())
        })?;
        Ok(left[1..left.len() - flag].to_vec())
    }
}

/// Where slice number `position`, a scalar of i32, begins in a stack of them, and the slice's extents
/// there: what [`stretch`] says, spelled.
fn place(
    to: &mut Writer<'_>,
    stack: &Value,
    slice: &Value,
    position: &Tensor,
) -> (Vec<Tensor>, Vec<usize>) {
    let lacks_first = stack.extents.len() - slice.extents.len();
    let extent = |dim: usize| dim.checked_sub(lacks_first).map_or(1, |dim| slice.extents[dim]);
    let extents: Vec<usize> = (0..stack.extents.len()).map(extent).collect();
    let zero = to.fill(Element::I32, &[], 0.0);
    let mut begin = vec![zero; extents.len()];
    let (mut rest, mut slices) = (position.clone(), stack.len() / slice.len());
    for dim in stack.order.iter().rev().map(|&dim| usize::from(dim)) {
        let parts = stack.extents[dim] / extents[dim];
        if parts == 1 {
            continue;
        }
        let within =
            if parts == slices { rest.clone() } else { to.with("remainder", &rest, parts as f64) };
        begin[dim] = if extents[dim] == 1 {
            within
        } else {
            to.with("multiply", &within, extents[dim] as f64)
        };
        slices /= parts;
        if slices > 1 {
            rest = to.with("divide", &rest, parts as f64);
        }
    }
    (begin, extents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::sketch::{looped, square};
    use crate::program::{Form, Scalar, verify};

    /// What is wrong with a loop that has been tampered with.
    fn problems(spoil: impl FnOnce(&mut Loop, &mut Step)) -> String {
        let mesh = square();
        let mut program = looped(&mesh);
        let step = &mut program.block.steps[1];
        let Form::Loop(mut form) = step.form.clone() else { panic!("no loop") };
        spoil(&mut form, step);
        step.form = form.into();
        match verify(&program, &mesh, &[]) {
            Ok(()) => String::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_loop_and_its_body_fit() {
        assert_eq!(problems(|_, _| {}), "");
        type Spoil = fn(&mut Loop, &mut Step);
        let table: [(Spoil, &str); 10] = [
            (|l, _| l.count = 0, "there are no iterations"),
            (|l, _| l.count = 2, "does not fit"),
            (|_, s| drop(s.inputs.pop()), "its body has 4 parameters, not 3"),
            (|_, s| s.inputs.clear(), "0 inputs are too few"),
            (|_, s| s.outs.truncate(1), "its body has 2 results, not 1"),
            (|l, _| l.body.values[0] = Value::new(DType::F32, [5]), "in its body"),
            (|l, _| l.conditional = true, "its body has 4 parameters, not 3"),
            (|_, s| s.inputs[1].value = s.inputs[2].value, "has 1 dims, but 2 labels"),
            (|_, s| s.inputs[1] = s.inputs[2].clone(), "does not fit"),
            (
                |l, _| {
                    let scalar = Scalar::new(DType::F32, 1.0);
                    l.body.values[3] = Value::new(scalar.dtype(), []);
                },
                "a position is an i32",
            ),
        ];
        for (spoil, expected) in table {
            let found = problems(spoil);
            assert!(found.contains(expected), "{found} instead of {expected}");
        }
    }
}

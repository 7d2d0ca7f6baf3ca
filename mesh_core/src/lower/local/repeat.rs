//! Loops of an op's own: blocks of large values one after the other, some of them left out.

use super::dims::fault;
use super::{Local, LocalCx, extents};
use crate::graph::OpError;
use crate::names::{DType, Dimension, Shape};
use crate::program::{Block, Form, Scalar, ValueId, forms};

/// What a loop or a guard of an op's body is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalGiven<'a> {
    /// What one iteration hands to the next; of the first, these.
    pub carried: &'a [Local],
    /// Values whose first dim counts the iterations: each iteration has its slice.
    pub sliced: &'a [Local],
    /// The same in all iterations.
    pub captured: &'a [Local],
}

/// What one iteration has.
#[derive(Clone, Debug)]
pub struct LocalIteration {
    /// What is carried so far.
    pub carried: Vec<Local>,
    /// A slice of each of the sliced values, without their first dim.
    pub sliced: Vec<Local>,
    /// What is the same in all iterations.
    pub captured: Vec<Local>,
}

/// What an iteration leaves.
#[derive(Clone, Debug, Default)]
pub struct LocalLeft {
    /// For the next iteration, as many as are carried and of their types.
    pub carried: Vec<Local>,
    /// Put side by side along the loop's dim, which comes first.
    pub stacked: Vec<Local>,
}

impl LocalCx<'_, '_> {
    /// Runs a body once for each position along a dim, one after the other: `over` has the name that
    /// stacked values are given it under, and as many positions as this processor has slices. Gives what
    /// the last iteration carries, and what is stacked.
    ///
    /// The body works on what it is given in [`LocalIteration`] and on nothing else; values from outside
    /// are none of its own. All processors run as many iterations, so it may meet others.
    ///
    /// # Errors
    ///
    /// A sliced value whose first dim is not as long, values left that are not as many as those carried or
    /// of other types, and what the body refuses.
    pub fn repeat(
        &mut self,
        over: Dimension,
        given: LocalGiven<'_>,
        body: impl FnOnce(&mut Self, LocalIteration) -> Result<LocalLeft, OpError>,
    ) -> Result<LocalLeft, OpError> {
        self.run(over, false, None, given, body)
    }

    /// As [`repeat`](Self::repeat), from the last position down to the first; slices and what is stacked stay at
    /// their positions.
    ///
    /// # Errors
    ///
    /// As [`repeat`](Self::repeat).
    pub fn repeat_reverse(
        &mut self,
        over: Dimension,
        given: LocalGiven<'_>,
        body: impl FnOnce(&mut Self, LocalIteration) -> Result<LocalLeft, OpError>,
    ) -> Result<LocalLeft, OpError> {
        self.run(over, true, None, given, body)
    }

    /// Runs a body if a condition, a bool without dims, is true; gives what it leaves of what is carried,
    /// or that itself. Processors may differ in the condition.
    ///
    /// The body works on what it is given, as in [`repeat`](Self::repeat), slices nothing and stacks
    /// nothing. It meets no other processor, which may not be there.
    ///
    /// # Errors
    ///
    /// As there; and a condition that is no bool without dims.
    pub fn guard(
        &mut self,
        condition: &Local,
        given: LocalGiven<'_>,
        body: impl FnOnce(&mut Self, LocalIteration) -> Result<Vec<Local>, OpError>,
    ) -> Result<Vec<Local>, OpError> {
        if !condition.shape.is_scalar() || self.dtype(condition) != DType::Bool {
            return Err(fault("guard", "its condition is no bool without dims"));
        }
        let once = Dimension::new("once", 1);
        let left = self.run(once, false, Some(condition), given, |cx, iteration| {
            let carried = body(cx, iteration)?;
            Ok(LocalLeft { carried, stacked: Vec::new() })
        })?;
        Ok(left.carried)
    }

    /// A loop of `over.size` iterations; with a condition of one at most.
    fn run(
        &mut self,
        over: Dimension,
        reverse: bool,
        condition: Option<&Local>,
        given: LocalGiven<'_>,
        body: impl FnOnce(&mut Self, LocalIteration) -> Result<LocalLeft, OpError>,
    ) -> Result<LocalLeft, OpError> {
        let LocalGiven { carried, sliced, captured } = given;
        let slices =
            sliced.iter().map(|whole| slice(whole, over)).collect::<Result<Vec<_>, _>>()?;
        let outside = self.builder.open();
        let inputs = std::mem::take(&mut self.inputs);
        let left = self.iteration(&outside, given, &slices).and_then(|it| body(self, it));
        let left = left.and_then(|left| self.leave(&outside, carried, left, condition.is_some()));
        self.inputs = inputs;
        let inner = self.builder.close(outside);
        let (left, stacks) = left?;
        if condition.is_some() && meets(&inner) {
            return Err(fault("guard", "its body meets other processors, which may not be there"));
        }
        let form = forms::Loop {
            body: Box::new(inner),
            count: over.size,
            reverse,
            conditional: condition.is_some(),
            carried: carried.len(),
            sliced: sliced.len(),
        };
        let given = carried.iter().chain(sliced).chain(captured).chain(condition);
        let given: Vec<ValueId> = given.map(|value| value.id).collect();
        let stack = |shape: Shape| Shape::new(std::iter::once(over).chain(&shape));
        let stacks = stacks.into_iter().map(stack).collect::<Result<Vec<_>, _>>()?;
        let shapes = left.into_iter().chain(stacks);
        let made = self.builder.repeat(form, &given).into_iter().zip(shapes);
        let mut made: Vec<_> = made.map(|(id, shape)| Local::new(id, shape)).collect();
        let stacked = made.split_off(carried.len());
        Ok(LocalLeft { carried: made, stacked })
    }

    /// The parameters of the body that is open.
    fn iteration(
        &mut self,
        outside: &Block,
        given: LocalGiven<'_>,
        slices: &[Shape],
    ) -> Result<LocalIteration, OpError> {
        let mut param = |value: &Local, shape: &Shape| {
            let dtype = outside.value(value.id).dtype;
            Local::new(self.builder.param(dtype, extents(shape)), shape.clone())
        };
        let carried = given.carried.iter().map(|value| param(value, &value.shape)).collect();
        let sliced = given.sliced.iter().zip(slices);
        let sliced = sliced.map(|(value, shape)| param(value, shape)).collect();
        let captured = given.captured.iter().map(|value| param(value, &value.shape)).collect();
        // The iteration's position.
        self.builder.param(DType::I32, extents(&Shape::scalar()));
        Ok(LocalIteration { carried, sliced, captured })
    }

    /// Makes what an iteration leaves the results of the body that is open; gives the shapes of what is
    /// carried, and of what is stacked without the dim of the iterations.
    fn leave(
        &mut self,
        outside: &Block,
        carried: &[Local],
        left: LocalLeft,
        guarded: bool,
    ) -> Result<(Vec<Shape>, Vec<Shape>), OpError> {
        if left.carried.len() != carried.len() {
            let (want, got) = (carried.len(), left.carried.len());
            return Err(fault("repeat", format!("{want} values are carried, {got} left")));
        }
        for (before, after) in carried.iter().zip(&left.carried) {
            let dtype = outside.value(before.id).dtype;
            if before.shape != after.shape || dtype != self.dtype(after) {
                let got = self.dtype(after);
                let message =
                    format!("{dtype}{} is carried, {got}{} left", before.shape, after.shape);
                return Err(fault("repeat", message));
            }
        }
        for value in left.carried.iter().chain(&left.stacked) {
            self.builder.result(value.id);
        }
        if guarded {
            let never = self.fill(Scalar::new(DType::Bool, 0.0), &Shape::scalar());
            self.builder.result(never.id);
        }
        let shapes = |values: Vec<Local>| values.into_iter().map(|value| value.shape).collect();
        Ok((shapes(left.carried), shapes(left.stacked)))
    }
}

/// Whether a block meets other processors, by itself or in a loop.
fn meets(block: &Block) -> bool {
    block.steps.iter().any(|step| match &step.form {
        Form::Loop(form) => meets(&form.body),
        _ => step.axes().is_some(),
    })
}

/// What an iteration has of a value.
fn slice(whole: &Local, over: Dimension) -> Result<Shape, OpError> {
    match whole.shape.dims().first() {
        Some(first) if first.size == over.size => Ok(whole.shape.without(&[first.name])),
        _ => Err(fault("repeat", format!("{} does not begin with {over}", whole.shape))),
    }
}

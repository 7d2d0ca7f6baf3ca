//! Optimizers around optimizers.
//!
//! | wrapper | what it does with the inner optimizer |
//! |---|---|
//! | [`Ema`] | keeps an average of the weights, to evaluate with |
//! | [`Lookahead`] | goes back a part of the way every so many steps |
//! | [`ScheduleFree`] | averages weights instead of letting the rate fall; trains at other weights than it evaluates |
//! | [`Sam`] | takes the gradient where the loss is largest nearby |
//! | [`SkipNotFinite`] | leaves out calls whose gradients are not finite |
//! | [`Accumulate`] | applies the gradients of several calls at once |
//!
//! A wrapper keeps the inner optimizer's slots and adds its own. What belongs to all variables of a call, as
//! a number of calls, is a slot without dims of the first variable that has a gradient. A wrapper is
//! generic over what it wraps, which may be a wrapper, `ByName`, or a `Box<dyn Optimizer>`.

mod accumulate;
mod ema;
mod lookahead;
mod sam;
mod schedule_free;
mod skip;

pub use accumulate::Accumulate;
pub use ema::Ema;
pub use lookahead::Lookahead;
pub use sam::Sam;
pub use schedule_free::ScheduleFree;
pub use skip::SkipNotFinite;

use crate::clip::Pair;
use mesh_core::graph::{Initializer, Key, Tensor, Update, Variable};
use mesh_core::names::{DType, Shape};
use mesh_ops::elementwise::{cast, equal, select};

/// The variable whose slots keep what belongs to the whole call.
fn keeper<'g>(grads: &[Pair<'g>]) -> Option<Variable<'g>> {
    grads.iter().find(|(grad, _)| grad.is_some()).map(|(_, variable)| *variable)
}

/// A slot that counts, from 0.
#[track_caller]
fn counter<'g>(variable: Variable<'g>, name: &str) -> Variable<'g> {
    variable.slot(name, Shape::scalar(), DType::I32, Initializer::ZEROS)
}

/// Adds one to a count.
#[track_caller]
fn count(counter: Variable<'_>) -> Update<'_> {
    counter.assign_add(counter.graph().scalar(1.0, DType::I32))
}

/// A slot of the variable's shape in full precision.
#[track_caller]
fn like<'g>(variable: Variable<'g>, name: &str) -> Variable<'g> {
    variable.slot(name, variable.shape(), wide(variable.dtype()), Initializer::ZEROS)
}

/// The dtype that weights are averaged in.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// A tensor of the variable in full precision, where its slots lie.
#[track_caller]
fn among_slots<'g>(tensor: Tensor<'g>, variable: Variable<'g>) -> Tensor<'g> {
    cast(tensor.relayout(variable.slots_key()), wide(variable.dtype()))
}

/// `first` while nothing has been counted, then `later`. So a slot begins with the value that its variable
/// has in the first update, wherever the variable got it from.
#[track_caller]
fn at_first<'g>(counter: Variable<'g>, first: Tensor<'g>, later: Tensor<'g>) -> Tensor<'g> {
    select(equal(counter.stored(), 0.0), first, later)
}

/// A value that lies among the slots, as the model would read it from the variable.
#[track_caller]
fn for_computing<'g>(value: Tensor<'g>, variable: Variable<'g>) -> Tensor<'g> {
    cast(value, variable.dtype()).relayout(Key::COMPUTE)
}

/// `updates` where `condition` holds; where not, their variables stay as they are.
#[track_caller]
fn only_if<'g>(condition: Tensor<'g>, updates: Vec<Update<'g>>) -> Vec<Update<'g>> {
    let kept = |update: Update<'g>| {
        let variable = update.variable();
        variable.assign(select(condition, update.value(), variable.stored()))
    };
    updates.into_iter().map(kept).collect()
}

/// The updates of an inner optimizer; instead of that of a trained variable, what `change` makes of it on
/// behalf of `note`.
#[track_caller]
fn changed<'g>(
    updates: Vec<Update<'g>>,
    grads: &[Pair<'g>],
    note: &str,
    change: impl Fn(Update<'g>) -> Vec<Update<'g>>,
) -> Vec<Update<'g>> {
    let mut all = Vec::new();
    for update in updates {
        let variable = update.variable();
        if grads.iter().any(|(_, trained)| trained.id() == variable.id()) {
            let note = format!("{note} of {}", variable.name());
            all.extend(variable.graph().on_behalf(&note, || change(update)));
        } else {
            all.push(update);
        }
    }
    all
}

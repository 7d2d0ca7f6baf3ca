//! What an op author implements, and sees of a gradient.

use super::data::{DynOp, GradCx, Tensor};
use super::error::OpError;
use super::types::{Signature, TensorType};
use crate::lower::{LocalCx, PlaceCx, PlacedCx, Placing, Shares};
use crate::split::SplitRule;
use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// What an operation *is*: an immutable description without tensors, only attributes.
///
/// Everything about the op stands in one room: its shape rule, its split rule, what one processor
/// does on its slices, and its gradient. Equality and hash are those of the description.
pub trait Op: Debug + Eq + Hash + Send + Sync + 'static {
    /// Kind of the op, as printed: `einsum`.
    fn name(&self) -> &'static str;

    /// Shape and dtype rule, the only place where wrong inputs are refused.
    ///
    /// # Errors
    ///
    /// Inputs that the op does not take; the error says which it does.
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError>;

    /// What may happen to each dim when it is split, and in which inputs the op is linear.
    fn split(&self, io: Signature<'_>) -> SplitRule;

    /// The work on one processor's slices, as program steps.
    ///
    /// # Errors
    ///
    /// What cannot be done on slices; the error comes with the user's line.
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError>;

    /// Cotangents of the inputs as graph ops, `None` for an input without one.
    ///
    /// The default refuses, naming the op.
    ///
    /// # Errors
    ///
    /// An op without a gradient, or whose gradient cannot be made of these inputs.
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        let _ = cx;
        Err(OpError::new(format!("{} has no gradient", self.name())))
    }

    /// Where inputs must lie and outputs will lie. Override only for ops whose meaning is to move
    /// data (reshape, relayout); the default reads [`split`](Self::split).
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        cx.by_rule(&self.split(cx.signature()))
    }

    /// How much of the work each processor does, for [`explain`](crate::lower::Module::explain): of an op
    /// whose processors do not all do the same. The default says nothing.
    fn shares(&self, cx: &PlacedCx<'_>) -> Option<Shares> {
        let _ = cx;
        None
    }
}

impl<T: Op> DynOp for T {
    fn name(&self) -> &'static str {
        Op::name(self)
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Op::outputs(self, inputs)
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        Op::split(self, io)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        Op::local(self, cx)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        Op::gradient(self, cx)
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        Op::place(self, cx)
    }
    fn shares(&self, cx: &PlacedCx<'_>) -> Option<Shares> {
        Op::shares(self, cx)
    }
    fn eq_dyn(&self, other: &dyn DynOp) -> bool {
        other.as_any().downcast_ref::<T>() == Some(self)
    }
    fn hash_dyn(&self, mut state: &mut dyn Hasher) {
        TypeId::of::<T>().hash(&mut state);
        self.hash(&mut state);
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl PartialEq for dyn DynOp {
    fn eq(&self, other: &Self) -> bool {
        self.eq_dyn(other)
    }
}

impl Eq for dyn DynOp {}

impl Hash for dyn DynOp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_dyn(state);
    }
}

impl<'g> GradCx<'g> {
    /// Input `i` of the operation.
    pub fn input(&self, i: usize) -> Tensor<'g> {
        self.inputs[i]
    }

    /// Whether the cotangent of input `i` leads to what gradients are asked for.
    pub fn needs(&self, i: usize) -> bool {
        self.needed[i]
    }

    /// As if the first inputs were none.
    pub(crate) fn behind(&self, first: usize) -> Self {
        Self {
            operation: self.operation,
            inputs: self.inputs[first..].to_vec(),
            outputs: self.outputs.clone(),
            dy: self.dy.clone(),
            needed: self.needed[first..].to_vec(),
        }
    }

    /// Number of inputs.
    pub fn arity(&self) -> usize {
        self.inputs.len()
    }

    /// Output `i` of the operation.
    pub fn output(&self, i: usize) -> Tensor<'g> {
        self.outputs[i]
    }

    /// Cotangent of the only output.
    pub fn dy(&self) -> Tensor<'g> {
        // The driver calls a rule only when some output has a cotangent.
        self.dy.iter().flatten().next().copied().unwrap_or(self.outputs[0])
    }

    /// Cotangent of output `i`, `None` where nothing depends on it.
    pub fn dy_of(&self, i: usize) -> Option<Tensor<'g>> {
        self.dy.get(i).copied().flatten()
    }
}

//! What an op author implements ([`Op`]) and what the graph stores ([`DynOp`]).

use super::{OpError, OperationId, Tensor};
use crate::lower::{LocalCx, PlaceCx, Placing};
use crate::names::{DType, Shape};
use crate::split::SplitRule;
use std::any::{Any, TypeId};
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};

/// Shape and element type of a tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TensorType {
    /// Named dims in declared order; global sizes.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

impl TensorType {
    /// A type.
    pub fn new(shape: Shape, dtype: DType) -> Self {
        Self { shape, dtype }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// Global types of an operation's inputs and outputs.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    /// In argument order.
    pub inputs: &'a [TensorType],
    /// In result order.
    pub outputs: &'a [TensorType],
}

/// What an operation *is*: an immutable description without tensors, only attributes.
///
/// Everything about the op stands in one room: its shape rule, its split rule, what one processor
/// does on its slices, and its gradient. Equality and hash are those of the description.
pub trait Op: Debug + Eq + Hash + Send + Sync + 'static {
    /// Kind of the op, as printed: `einsum`.
    fn name(&self) -> &'static str;

    /// Shape and dtype rule, the only place where wrong inputs are refused.
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError>;

    /// What may happen to each dim when it is split, and in which inputs the op is linear.
    fn split(&self, io: Signature<'_>) -> SplitRule;

    /// The work on one processor's slices, as program steps.
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError>;

    /// Cotangents of the inputs as graph ops, `None` for an input without one.
    ///
    /// The default refuses, naming the op.
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        let _ = cx;
        Err(OpError::new(format!("{} has no gradient", self.name())))
    }

    /// Where inputs must lie and outputs will lie. Override only for ops whose meaning is to move
    /// data (reshape, relayout); the default reads [`split`](Self::split).
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        cx.by_rule(&self.split(cx.signature()))
    }
}

/// [`Op`] made object safe; implemented for every op.
pub trait DynOp: Any + Debug + Send + Sync {
    /// See [`Op::name`].
    fn name(&self) -> &'static str;
    /// See [`Op::outputs`].
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError>;
    /// See [`Op::split`].
    fn split(&self, io: Signature<'_>) -> SplitRule;
    /// See [`Op::local`].
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError>;
    /// See [`Op::gradient`].
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError>;
    /// See [`Op::place`].
    fn place(&self, cx: &PlaceCx<'_>) -> Placing;
    /// Same op with the same attributes.
    fn eq_dyn(&self, other: &dyn DynOp) -> bool;
    /// Hash of type and attributes.
    fn hash_dyn(&self, state: &mut dyn Hasher);
    /// The op behind the box, for the room that made it.
    fn as_any(&self) -> &dyn Any;
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

/// What a gradient rule sees.
#[derive(Debug)]
pub struct GradCx<'g> {
    pub(crate) operation: OperationId,
    pub(crate) inputs: Vec<Tensor<'g>>,
    pub(crate) outputs: Vec<Tensor<'g>>,
    pub(crate) dy: Vec<Option<Tensor<'g>>>,
    /// Whether anybody asked for the cotangent of an input.
    pub(crate) needed: Vec<bool>,
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

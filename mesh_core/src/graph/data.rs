//! What a graph is made of. These types stand together because they refer to one another: a graph
//! holds operations, an operation does an op, an op's gradient makes tensors, and a tensor belongs to
//! a graph.

use super::error::{Issue, OpError};
use super::ids::{GraphId, OperationId, RegionId, TensorId};
use super::names::Names;
use super::nodes::{
    Change, Fill, FunctionNode, Half, Loop, Region, Same, TensorNode, Updated, VariableNode,
};
use super::provenance::Provenance;
use super::types::{Signature, TensorType};
use crate::array::Array;
use crate::lower::{LocalCx, PlaceCx, PlacedCx, Placing, Shares};
use crate::names::Shape;
use crate::program::VariableId;
use crate::split::SplitRule;
use indexmap::{IndexMap, IndexSet};
use std::any::Any;
use std::cell::RefCell;
use std::fmt::Debug;
use std::hash::Hasher;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

/// A model: operations on named tensors, variables, functions.
///
/// `mesh_ops::graph()` makes an empty one. [`input`](Self::input) and [`variable`](Self::variable) make
/// tensors, operators and the methods of `mesh_ops::Ops` make others of them, [`function`](Self::function)
/// says what one call is fed, returns and updates, and [`lower`](Self::lower) makes a
/// [`Module`](crate::lower::Module) of all functions that are declared by then.
///
/// ```
/// # use mesh_core::{graph::{Graph, Initializer, Tensor}, names::{dim, DType::F32}};
/// # fn example(g: &Graph) -> Result<(), Box<dyn std::error::Error>> {
/// let (batch, width) = (dim("batch", 8), dim("width", 4));
/// let x = g.input("x", [batch, width], F32);
/// let w = g.variable("w", [width], F32, Initializer::ONES);
/// let f = g.function("f", [x], [halved(x) * w.value()], []);
/// let module = g.lower(&"all:2".parse()?, &"batch:all".parse()?)?;
///
/// // A part of a model is a function from tensors to tensors of the same graph, whose lifetime is `'g`.
/// fn halved<'g>(x: Tensor<'g>) -> Tensor<'g> {
///     x / 2
/// }
/// # Ok(())
/// # }
/// ```
///
/// With one tensor as an argument, `fn halved(x: Tensor) -> Tensor` is short for the signature above; with
/// several, `'g` has to be written: `fn block<'g>(x: Tensor<'g>, mask: Tensor<'g>) -> Tensor<'g>`. A closure
/// with a parameter of written type, `|x: Tensor| x / 2`, is refused by the compiler, which takes the
/// lifetimes of argument and result for two; write such a closure as a function, or as `|x| halved(x)`.
pub struct Graph {
    pub(super) id: GraphId,
    pub(super) data: RefCell<Data>,
    pub(super) algebra: &'static dyn Algebra,
}

/// A tensor of a graph: a handle, free to copy.
///
/// It has a [`shape`](Self::shape) of named dims and a [`dtype`](Self::dtype); its elements are known when a
/// function that needs them is called. Operators take tensors and numbers ([`Operand`](super::Operand));
/// other ops are methods of `mesh_ops::Ops`, which `use mesh_ops::prelude::*` brings.
#[derive(Clone, Copy)]
pub struct Tensor<'g> {
    pub(super) graph: &'g Graph,
    pub(super) id: TensorId,
}

/// Arithmetic on tensors with broadcasting by name: the few ops that operators and the gradient
/// driver need. `mesh_ops` implements it; core knows no mathematical op.
pub trait Algebra: Sync {
    /// `a + b`
    #[track_caller]
    fn add<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g>;
    /// `a - b`
    #[track_caller]
    fn sub<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g>;
    /// `a * b`
    #[track_caller]
    fn mul<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g>;
    /// `a / b`
    #[track_caller]
    fn div<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g>;
    /// `-a`
    #[track_caller]
    fn neg<'g>(&self, a: Tensor<'g>) -> Tensor<'g>;
    /// `a` repeated along the dims of `shape` that it lacks.
    #[track_caller]
    fn broadcast<'g>(&self, a: Tensor<'g>, shape: &Shape) -> Tensor<'g>;
}

/// What a graph holds.
#[derive(Default)]
pub(crate) struct Data {
    /// All of them, in the order in which they were made; each region lists its own.
    pub(crate) operations: Vec<Operation>,
    pub(crate) tensors: Vec<TensorNode>,
    pub(crate) regions: Vec<Region>,
    pub(crate) variables: Vec<VariableNode>,
    pub(crate) functions: IndexMap<String, FunctionNode>,
    pub(crate) inputs: IndexMap<String, TensorId>,
    pub(crate) issues: Vec<Issue>,
    pub(super) warnings: Vec<Issue>,
    /// Texts of warnings that have been reported.
    pub(super) reported: IndexSet<String>,
    /// Pairs of lines that ask for one slot as different things; each pair is reported once.
    pub(super) unfit: Vec<[&'static Location<'static>; 2]>,
    pub(super) names: Names,
    pub(super) context: Vec<Context>,
    /// How many phases there have been.
    pub(super) phases: u32,
    pub(super) step: Option<VariableId>,
    /// What the random numbers of operations that are made now depend on instead of the step.
    pub(super) salts: Vec<TensorId>,
    /// What counts as the step in operations that are made now; the last is in force.
    pub(super) steps: Vec<TensorId>,
    /// Bodies of loops under construction, the innermost last.
    pub(super) open: Vec<OpenRegion>,
}

/// A node: an op applied to tensors.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) op: OpKind,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    pub(crate) name: String,
    pub(crate) at: Provenance,
    /// Counts gradient passes and updates: what is gathered in one phase is not kept for another.
    pub(crate) phase: u32,
    /// Where it runs.
    pub(crate) region: RegionId,
}

/// What an operation does.
#[derive(Clone, Debug)]
pub(crate) enum OpKind {
    /// One of core's own ops.
    Structural(Arc<Structural>),
    /// An op of another crate.
    Open(Arc<dyn DynOp>),
}

impl Deref for OpKind {
    type Target = dyn DynOp;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Structural(op) => &**op,
            Self::Open(op) => &**op,
        }
    }
}

impl OpKind {
    /// The op, whoever's it is.
    pub(super) fn shared(&self) -> Arc<dyn DynOp> {
        match self {
            Self::Structural(op) => op.clone(),
            Self::Open(op) => op.clone(),
        }
    }
}

impl Operation {
    /// Which of core's own ops it does.
    pub(crate) fn structural(&self) -> Option<&Structural> {
        match &self.op {
            OpKind::Structural(op) => Some(op),
            OpKind::Open(_) => None,
        }
    }
}

/// Core's own ops: no mathematics among them. What they do stands in `structural.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Structural {
    /// A tensor that the caller of a function feeds.
    Input { name: String, ty: TensorType },
    /// Equal elements.
    Fill(Fill),
    /// Known elements. Two constants of equal elements are two constants.
    Constant { data: Same<Array>, shape: Shape },
    /// A variable as it was when the call started.
    Read { variable: VariableId, ty: TensorType },
    /// A variable's value with a change. Inputs: the value as it is stored, and the change. It is computed where the
    /// change lies, if that splits what is stored further: then the new value is gathered, and not the change.
    Changed(Change, Updated),
    /// What a call leaves in a variable. Without outputs.
    Update(Updated),
    /// The same tensor under other rules. It moves nothing itself: its output lies where its input
    /// lies, and each user demands what its own rules say. So a gather out of `params/` is made once
    /// per phase, and a pending gradient that meets a split demand becomes a reduce-scatter.
    Relayout,
    /// The same tensor, constant for the gradient driver.
    StopGradient,
    /// Its inputs as they are, once all of them have been computed, not to be merged with what was
    /// computed from them elsewhere.
    Barrier,
    /// The same tensor, shown to whoever watches the session.
    Probe { label: String },
    /// Tensors with a gradient of the user's own. Inputs: the results, which the outputs are, and then
    /// what they were computed from. Its gradient turns the outputs' cotangents into those of the
    /// latter.
    Custom { results: usize, gradient: Same<CustomGradient> },
    /// Tensors whose computation is repeated in the backward pass, so that nothing of it need be kept.
    /// Inputs: the results, which the outputs are, and then everything that the computation read.
    Recompute { results: usize, computation: Vec<OperationId> },
    /// The two results of reversible blocks, from whose values the backward pass computes theirs.
    /// Inputs: the results, which the outputs are, what the first block is given, and then everything
    /// else that blocks read.
    Reversible(Vec<Half>),
    /// Runs a region, iteration by iteration; placed and emitted with its region.
    Loop(Loop),
    /// What an iteration is given; it stands in no list of a region.
    Param { ty: TensorType },
}

/// From the inputs, outputs and cotangents to the cotangents of the inputs.
pub(crate) type CustomGradient =
    dyn for<'g> Fn(&GradCx<'g>) -> Vec<Option<Tensor<'g>>> + Send + Sync;

/// An op behind a pointer; implemented for every [`Op`](super::Op).
pub trait DynOp: Any + Debug + Send + Sync {
    /// See [`Op::name`](super::Op::name).
    fn name(&self) -> &'static str;
    /// See [`Op::outputs`](super::Op::outputs).
    ///
    /// # Errors
    ///
    /// As [`Op::outputs`](super::Op::outputs).
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError>;
    /// See [`Op::split`](super::Op::split).
    fn split(&self, io: Signature<'_>) -> SplitRule;
    /// See [`Op::local`](super::Op::local).
    ///
    /// # Errors
    ///
    /// As [`Op::local`](super::Op::local).
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError>;
    /// See [`Op::gradient`](super::Op::gradient).
    ///
    /// # Errors
    ///
    /// As [`Op::gradient`](super::Op::gradient).
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError>;
    /// See [`Op::place`](super::Op::place).
    fn place(&self, cx: &PlaceCx<'_>) -> Placing;
    /// See [`Op::shares`](super::Op::shares).
    fn shares(&self, cx: &PlacedCx<'_>) -> Option<Shares>;
    /// Same op with the same attributes.
    fn eq_dyn(&self, other: &dyn DynOp) -> bool;
    /// Hash of type and attributes.
    fn hash_dyn(&self, state: &mut dyn Hasher);
    /// The op behind the box, for the room that made it.
    fn as_any(&self) -> &dyn Any;
}

/// What a gradient rule sees.
#[derive(Debug)]
pub struct GradCx<'g> {
    pub(super) operation: OperationId,
    pub(super) inputs: Vec<Tensor<'g>>,
    pub(super) outputs: Vec<Tensor<'g>>,
    pub(super) dy: Vec<Option<Tensor<'g>>>,
    /// Whether anybody asked for the cotangent of an input.
    pub(super) needed: Vec<bool>,
}

/// Who asks for the operations that are being made, when that is not the direct caller.
pub(super) struct Context {
    /// `None` if each asks for itself.
    pub(super) at: Option<Provenance>,
    pub(super) phase: u32,
    /// The layer that the user called, if operations are made for one.
    pub(super) layer: Option<&'static str>,
}

/// The body of a loop under construction.
pub(super) struct OpenRegion {
    pub(super) id: RegionId,
    /// Who asked for the loop.
    pub(super) at: Provenance,
    /// The loop, and its body, whose iterations this region's run backwards.
    pub(super) undoes: Option<(OperationId, RegionId)>,
    /// What stands here for tensors of that body.
    pub(super) residuals: IndexMap<TensorId, TensorId>,
}

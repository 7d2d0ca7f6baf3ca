//! What proves an op, stated in its room: what it means, and the cases in which it is checked.

pub(crate) use super::reference::dense::{along, extent, moved, offsets, permuted, stride, wrap};
pub(crate) use super::{At, Case, Dense, Fill};
pub(crate) use crate::elementwise::Map;
pub(crate) use crate::prelude::*;

use mesh_core::graph::{DynOp, TensorType};

/// What a room states for its proof.
pub(crate) struct Proof {
    /// What each op of the room means; empty if it has compositions only.
    pub(crate) meanings: &'static [&'static dyn Means],
    /// Cases for each of its functions.
    pub(crate) cases: fn() -> Vec<Case>,
}

/// What ops of one type mean: from whole inputs to whole outputs of these types, without slices.
pub(crate) trait Means: Sync {
    /// Whether the op is of this type.
    fn knows(&self, op: &dyn DynOp) -> bool;
    /// `None` for an op of another type.
    fn outputs(
        &self,
        op: &dyn DynOp,
        inputs: &[&Dense],
        types: &[TensorType],
    ) -> Option<Vec<Dense>>;
}

/// What an op means, all its outputs.
pub(crate) struct Outputs<T>(pub(crate) fn(&T, &[&Dense], &[TensorType]) -> Vec<Dense>);

impl<T: 'static> Means for Outputs<T> {
    fn knows(&self, op: &dyn DynOp) -> bool {
        op.as_any().is::<T>()
    }

    fn outputs(
        &self,
        op: &dyn DynOp,
        inputs: &[&Dense],
        types: &[TensorType],
    ) -> Option<Vec<Dense>> {
        op.as_any().downcast_ref().map(|op| self.0(op, inputs, types))
    }
}

/// What an op means for one element of each input, given the dtype of the result; inputs are repeated
/// by name, and i32 wraps.
pub(crate) struct Elements<T>(pub(crate) fn(&T, &[f64], DType) -> f64);

impl<T: 'static> Means for Elements<T> {
    fn knows(&self, op: &dyn DynOp) -> bool {
        op.as_any().is::<T>()
    }

    fn outputs(
        &self,
        op: &dyn DynOp,
        inputs: &[&Dense],
        types: &[TensorType],
    ) -> Option<Vec<Dense>> {
        let op = op.as_any().downcast_ref()?;
        let mut out = Dense::zeros(types[0].clone());
        let at: Vec<_> = inputs.iter().map(|x| offsets(&x.ty.shape, &out.ty.shape)).collect();
        let mut arguments = vec![0.0; inputs.len()];
        for i in 0..out.data.len() {
            for (argument, (input, at)) in arguments.iter_mut().zip(inputs.iter().zip(&at)) {
                *argument = input.data[at[i]];
            }
            out.data[i] = self.0(op, &arguments, out.ty.dtype);
        }
        wrap(&mut out);
        Some(vec![out])
    }
}

/// What an op of this crate means: from whole inputs to whole outputs of these types. `None` for an
/// op of another crate.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::testing::{Dense, meaning};
/// # let g = mesh_ops::graph();
/// g.input("x", [dim("p", 2)], F32).square();
/// let operation = &g.operations()[1];
/// let ty = g.type_of(operation.outputs[0]);
/// let x = Dense { ty: ty.clone(), data: vec![2.0, 3.0] };
/// let squares = meaning(&*operation.op, &[&x], &[ty]);
/// assert_eq!(squares.map(|y| y[0].data.clone()), Some(vec![4.0, 9.0]));
/// ```
pub fn meaning(op: &dyn DynOp, inputs: &[&Dense], types: &[TensorType]) -> Option<Vec<Dense>> {
    let mut all = rooms().flat_map(|room| room.proof.meanings);
    all.find_map(|meaning| meaning.outputs(op, inputs, types))
}

/// A room with an op, or with a composition of ops.
pub struct Room {
    module: &'static str,
    exports: &'static [&'static str],
    proof: &'static Proof,
}

/// Every room but those of layers, in the order of docs/ops.md.
///
/// ```
/// assert!(mesh_ops::testing::rooms().any(|room| room.name() == "elementwise::relu"));
/// ```
pub fn rooms() -> impl Iterator<Item = &'static Room> {
    crate::elementwise::ROOMS.iter().chain(crate::ROOMS)
}

impl Room {
    pub(crate) const fn new(
        module: &'static str,
        exports: &'static [&'static str],
        proof: &'static Proof,
    ) -> Self {
        Self { module, exports, proof }
    }

    /// Where it lies in the crate: `elementwise::relu`.
    pub fn name(&self) -> &'static str {
        self.module.trim_start_matches("mesh_ops::")
    }

    /// What it exports to the room around it, types among it.
    pub fn exports(&self) -> &'static [&'static str] {
        self.exports
    }

    /// Whether it has ops of its own, no compositions only.
    pub fn has_ops(&self) -> bool {
        !self.proof.meanings.is_empty()
    }

    /// Whether an op is its own.
    pub fn has(&self, op: &dyn DynOp) -> bool {
        self.proof.meanings.iter().any(|meaning| meaning.knows(op))
    }

    /// The cases in which its functions are checked.
    pub fn cases(&self) -> Vec<Case> {
        (self.proof.cases)()
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A function of one tensor, as a closure: a function's own address knows no caller's line.
pub(crate) type Unary = for<'g> fn(Tensor<'g>) -> Tensor<'g>;
/// A function of two.
pub(crate) type Binary = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;

pub(crate) const MATRIX: &str = "p:8;q:12";

/// Few meshes, for ops whose roles are those of another in the room.
pub(crate) const FEW: &[&str] = &["a:2", "a:3", "a:2;b:2"];
/// For dims of 4 and 8.
pub(crate) const GRIDS: &[&str] = &["a:2", "a:4", "a:2;b:2"];
/// For spatial dims.
pub(crate) const LINES: &[&str] = FEW;

pub(crate) fn p() -> Dimension {
    dim("p", 8)
}

pub(crate) fn q() -> Dimension {
    dim("q", 12)
}

/// Dims as in `p:4;q:6`; none if they are not spelled so.
pub(crate) fn shape(dims: &str) -> Shape {
    dims.parse().unwrap_or_default()
}

/// The sum of terms by number.
pub(crate) fn total(count: usize, term: impl Fn(usize) -> f64) -> f64 {
    (0..count).map(term).sum()
}

/// The elements along a dim of the tensor of which this is a place.
pub(crate) fn line(x: &Dense, at: &At, dim: Dimension) -> Vec<f64> {
    (0..dim.size).map(|i| x.at(&at.with(dim.name.as_str(), i))).collect()
}

/// A case of an elementwise function of one tensor.
pub(crate) fn unary(name: &str, function: Unary, dtype: DType, fill: Fill) -> Case {
    Case::new(name, move |_, x| function(x[0])).input("x", "p:4;q:6", dtype, fill).meshes(FEW)
}

/// A case of an elementwise function of two tensors of i32.
pub(crate) fn of_integers(name: &str, function: Binary) -> Case {
    Case::new(name, move |_, x| function(x[0], x[1]))
        .input("x", "p:4;q:6", DType::I32, Fill::Integers(-9, 9))
        .integers("y", "q:6", DType::I32)
        .meshes(FEW)
}

/// A case that computes with whole numbers of f32.
pub(crate) fn exact(name: &str, function: Unary) -> Case {
    Case::new(name, move |_, x| function(x[0])).exact().integers("x", MATRIX, DType::F32)
}

/// The product of two numbers of a dtype; i32 wraps.
pub(crate) fn product(x: f64, y: f64, dtype: DType) -> f64 {
    match dtype {
        DType::I32 => f64::from((x as i32).wrapping_mul(y as i32)),
        _ => x * y,
    }
}

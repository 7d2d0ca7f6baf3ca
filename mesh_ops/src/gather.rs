//! `gather(x, indices, dim)`: the elements of x at positions along a dim that are computed.
//!
//! | shape | the dims of indices, then those of x but `dim` |
//! |---|---|
//! | split | `dim` reduced(select), others parallel |
//! | linear | moves x |
//! | gradient | scatter_add of dy |
//!
//! Over a split `dim` each processor finds what lies in its slice, and zeros elsewhere: a selection.
//! Nothing of x travels.

use crate::room::*;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Gather {
    /// The dim along which indices are positions.
    dim: DimName,
    /// The output's dims in another order than that of the indices, then of x.
    order: Option<Shape>,
}

/// `x` at the positions `indices` (i32) along `dim`: for every index, all of x that lies there. A
/// dim that both have is gone through side by side. An index outside `0..dim.size` finds zeros.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (words, width) = (dim("words", 1000), dim("width", 8));
/// let table = g.input("table", [words, width], F32);
/// let text = g.input("text", [dim("batch", 2), dim("length", 5)], I32);
/// let found = mesh_ops::gather(table, text, words);
/// assert_eq!(found.shape().to_string(), "[batch:2, length:5, width:8]");
/// ```
#[track_caller]
pub fn gather<'g>(x: Tensor<'g>, indices: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("gather", format!("{x:?} has no dim {dim}"));
        return x.poisoned();
    }
    x.graph().apply1(Gather { dim: dim.name, order: None }, &[x, indices])
}

/// As [`gather`], with the output's dims in the order of `shape`.
#[track_caller]
pub(crate) fn gather_onto<'g>(
    x: Tensor<'g>,
    indices: Tensor<'g>,
    dim: Dimension,
    shape: Shape,
) -> Tensor<'g> {
    x.graph().apply1(Gather { dim: dim.name, order: Some(shape) }, &[x, indices])
}

/// `x` with each position along `dim` taken from another, `from` (i32), which has a dim of that name of any
/// size; the dims of the output lie as in `shape`.
#[track_caller]
pub(crate) fn taken<'g>(
    x: Tensor<'g>,
    from: Tensor<'g>,
    dim: Dimension,
    shape: Shape,
) -> Tensor<'g> {
    let source = apart(&x.shape(), dim, "source");
    gather_onto(crate::rename(x, dim, source.name.as_str()), from, source, shape)
}

/// Refuses indices of another dtype than i32, and those that have the indexed dim themselves.
pub(crate) fn check_indices(op: &str, indices: &TensorType, dim: DimName) -> Result<(), OpError> {
    if indices.dtype != DType::I32 {
        let dtype = indices.dtype;
        return Err(OpError::new(format!("{op}: indices are i32, not {dtype}; cast them")));
    }
    if indices.shape.contains(dim) {
        return Err(OpError::new(format!(
            "{op}: the indices {indices} have the indexed dim {dim} themselves; rename it in one"
        )));
    }
    Ok(())
}

impl Op for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x, indices] = inputs(self.name(), types)?;
        dim_of(self.name(), x, self.dim)?;
        check_indices(self.name(), indices, self.dim)?;
        let shape = indices.shape.union(&x.shape.without(&[self.dim]))?;
        let shape = self.order.clone().unwrap_or(shape);
        Ok(vec![TensorType::new(shape, x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Reduced(ReduceKind::Select))
            .linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, indices, onto) = (cx.input(0)?, cx.input(1)?, cx.output_shape(0));
        let size = x.shape().get(self.dim).map_or(1, |d| d.size);
        let begin = cx.begin(self.dim, size)?;
        let found = cx.gather(&x, &indices, self.dim, begin, &onto)?;
        cx.finish(0, found)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let shape = cx.input(0).shape();
        let dim = dim_of(self.name(), &cx.input(0).tensor_type(), self.dim)?;
        Ok(vec![Some(crate::scatter_add(cx.dy(), cx.input(1), dim, shape)), None])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Gather>(|op, x, types| {
            let [x, indices] = [x[0], x[1]];
            let (mut out, over) = (Dense::zeros(types[0].clone()), &types[0].shape);
            let (from, at) = (offsets(&x.ty.shape, over), offsets(&indices.ty.shape, over));
            for i in 0..out.data.len() {
                let index = indices.data[at[i]];
                if index >= 0.0 && index < extent(&x.ty.shape, op.dim) as f64 {
                    out.data[i] = x.data[from[i] + index as usize * stride(&x.ty.shape, op.dim)];
                }
            }
            vec![out]
        })],
        cases: || {
            vec![
                Case::new("gather", |_, x| gather(x[0], x[1], vocab()))
                    .exact()
                    .integers("table", "vocab:12;width:4", F32)
                    .input("at", "batch:4;length:2", I32, OUTSIDE),
                Case::new("gather: batched", |_, x| gather(x[0], x[1], vocab()))
                    .normal("x", "batch:4;vocab:12;width:4", F32)
                    .input("at", "length:2;batch:4", I32, OUTSIDE),
                Case::new("gather: one of each line", |_, x| gather(x[0], x[1], vocab()))
                    .exact()
                    .integers("x", "batch:4;vocab:12", F64)
                    .indices("at", "batch:4", 12)
                    .meshes(FEW),
                Case::new("gather: one index", |_, x| gather(x[0], x[1], dim("width", 4)))
                    .exact()
                    .integers("x", "vocab:12;width:4", F32)
                    .indices("at", "", 4)
                    .meshes(FEW),
                Case::new("gather: bf16", |_, x| gather(x[0], x[1], vocab()))
                    .normal("table", "vocab:12;width:4", BF16)
                    .input("at", "batch:4", I32, OUTSIDE)
                    .meshes(FEW),
                Case::new("gather: i32", |_, x| gather(x[0], x[1], vocab()))
                    .integers("table", "vocab:12;width:4", I32)
                    .input("at", "batch:4", I32, OUTSIDE)
                    .meshes(FEW),
                Case::new("gather: bool", |_, x| gather(x[0], x[1], vocab()))
                    .bools("table", "vocab:12;width:4")
                    .input("at", "batch:4", I32, OUTSIDE)
                    .meshes(FEW),
            ]
        },
    };

    /// Indices of a `vocab`, some beyond its ends.
    pub(crate) const OUTSIDE: Fill = Fill::Integers(-3, 14);

    pub(crate) fn vocab() -> Dimension {
        dim("vocab", 12)
    }
}

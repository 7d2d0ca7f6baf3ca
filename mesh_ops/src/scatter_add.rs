//! `scatter_add(updates, indices, dim, shape)`: sums of updates by their positions along a dim.
//!
//! | shape | as given; the indexed dim and dims of updates |
//! |---|---|
//! | split | dims of updates that `shape` lacks reduced(sum), others parallel |
//! | linear | adds updates |
//! | gradient | gather of dy |
//!
//! Over a split `dim` each processor keeps the sums of its own positions.

use crate::gather::check_indices;
use crate::room::*;

#[derive(Debug, PartialEq, Eq, Hash)]
struct ScatterAdd {
    /// The dim of the result along which indices are positions.
    dim: DimName,
    /// The result's dims.
    shape: Shape,
}

/// A tensor with the dims of `shape` that holds, at each position along `dim`, the sum of all
/// `updates` whose index (i32) is that position. Dims of `updates` that `shape` lacks are summed;
/// `indices` has some of the dims of `updates`. An index outside `0..dim.size` adds nothing.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (words, width, length) = (dim("words", 1000), dim("width", 8), dim("length", 5));
/// let updates = g.input("updates", [length, width], F32);
/// let text = g.input("text", [length], I32);
/// let sums = mesh_ops::scatter_add(updates, text, words, [words, width]);
/// assert_eq!(sums.shape().to_string(), "[words:1000, width:8]");
/// ```
#[track_caller]
pub fn scatter_add<'g>(
    updates: Tensor<'g>,
    indices: Tensor<'g>,
    dim: Dimension,
    shape: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    let graph = updates.graph();
    match Shape::new(shape) {
        Ok(shape) if shape.get(dim.name) == Some(dim) => {
            graph.apply1(ScatterAdd { dim: dim.name, shape }, &[updates, indices])
        }
        Ok(shape) => {
            graph.record("scatter_add", format!("the result's dims {shape} lack {dim}"));
            updates.poisoned()
        }
        Err(error) => {
            graph.record("scatter_add", error.to_string());
            updates.poisoned()
        }
    }
}

impl Op for ScatterAdd {
    fn name(&self) -> &'static str {
        "scatter_add"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [updates, indices] = inputs(self.name(), types)?;
        check_indices(self.name(), indices, self.dim)?;
        if updates.dtype == DType::Bool {
            return Err(OpError::new("scatter_add needs numbers, not bool"));
        }
        if updates.shape.contains(self.dim) {
            return Err(OpError::new(format!(
                "scatter_add: the updates {updates} have the indexed dim {} themselves; rename it",
                self.dim
            )));
        }
        let lacks = |d: &Dimension| updates.shape.get(d.name) != Some(*d);
        let kept = self.shape.without(&[self.dim]);
        if let Some(dim) = kept.iter().chain(&indices.shape).find(lacks) {
            return Err(OpError::new(format!(
                "scatter_add: the updates {updates} have no dim {dim}; broadcast them"
            )));
        }
        Ok(vec![TensorType::new(self.shape.clone(), updates.dtype)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let summed = io.inputs.iter().flat_map(|t| t.shape.names());
        let summed = summed.filter(|&name| !self.shape.contains(name));
        SplitRule::parallel()
            .with(summed, Role::Reduced(ReduceKind::Sum))
            .linear(Linearity::Adds, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (updates, indices, onto) = (cx.input(0)?, cx.input(1)?, cx.output_shape(0));
        let begin = cx.begin(self.dim, onto.get(self.dim).map_or(1, |d| d.size))?;
        let dtype = cx.output_dtype(0);
        let out = cx.scatter(&updates, &indices, self.dim, begin, &onto, dtype)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let dim = dim_of(self.name(), &cx.output(0).tensor_type(), self.dim)?;
        let found = crate::gather(cx.dy(), cx.input(1), dim);
        Ok(vec![Some(crate::broadcast(found, &cx.input(0).shape())), None])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::gather::proof::{OUTSIDE, vocab};
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<ScatterAdd>(|op, x, types| {
            let [updates, indices] = [x[0], x[1]];
            let (mut out, onto, over) =
                (Dense::zeros(types[0].clone()), &types[0].shape, &updates.ty.shape);
            let (to, at) = (offsets(onto, over), offsets(&indices.ty.shape, over));
            for i in 0..updates.data.len() {
                let index = indices.data[at[i]];
                if index >= 0.0 && index < extent(onto, op.dim) as f64 {
                    out.data[to[i] + index as usize * stride(onto, op.dim)] += updates.data[i];
                }
            }
            wrap(&mut out);
            vec![out]
        })],
        cases: || {
            vec![
                Case::new("scatter_add", |_, x| {
                    scatter_add(x[0], x[1], vocab(), [dim("width", 4), vocab()])
                })
                .exact()
                .integers("updates", "batch:4;length:2;width:4", F32)
                .input("at", "batch:4;length:2", I32, OUTSIDE),
                Case::new("scatter_add: batched, a dim summed", |_, x| {
                    scatter_add(x[0], x[1], vocab(), [dim("batch", 4), vocab()])
                })
                .normal("updates", "length:2;batch:4;width:4", F32)
                .input("at", "batch:4;length:2", I32, OUTSIDE)
                .meshes(FEW),
                Case::new("scatter_add: bf16", |_, x| scatter_add(x[0], x[1], vocab(), [vocab()]))
                    .normal("updates", "batch:4", BF16)
                    .indices("at", "batch:4", 3)
                    .meshes(FEW),
                Case::new("scatter_add: i32", |_, x| scatter_add(x[0], x[1], vocab(), [vocab()]))
                    .integers("updates", "batch:4", I32)
                    .indices("at", "batch:4", 3)
                    .meshes(FEW),
            ]
        },
    };
}

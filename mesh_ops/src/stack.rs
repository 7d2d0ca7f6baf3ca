//! `stack(first, others, name)`: tensors one after another along a new dim.
//!
//! | shape | the new dim, then those of `first` |
//! |---|---|
//! | split | every dim parallel |
//! | linear | moves all inputs jointly |
//! | gradient | unstack |
//!
//! Where the new dim is split, each processor keeps its part of what all of them hold: nothing
//! travels.

use crate::room::*;
use mesh_core::lower::LocalPiece;
use mesh_core::program::{Offset, Scalar};

#[derive(Debug, PartialEq, Eq, Hash)]
struct Stack {
    /// The new dim.
    dim: DimName,
}

/// `first` and then `others` along a new dim called `name`, which stands first. All have the same
/// dims.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (x, y) = (dim("x", 3), dim("y", 2));
/// let (a, b) = (g.input("a", [x, y], F32), g.input("b", [y, x], F32));
/// assert_eq!(mesh_ops::stack(a, &[b], "layer").shape().to_string(), "[layer:2, x:3, y:2]");
/// ```
#[track_caller]
pub fn stack<'g>(first: Tensor<'g>, others: &[Tensor<'g>], name: impl Into<DimName>) -> Tensor<'g> {
    let mut all = vec![first];
    all.extend_from_slice(others);
    first.graph().apply1(Stack { dim: name.into() }, &all)
}

/// `dim` and then the dims of `shape`.
fn under(dim: Dimension, shape: &Shape) -> Result<Shape, OpError> {
    Ok(Shape::new(std::iter::once(dim).chain(shape.iter()))?)
}

impl Stack {
    fn of(&self, size: usize) -> Dimension {
        Dimension { name: self.dim, size }
    }
}

impl Op for Stack {
    fn name(&self) -> &'static str {
        "stack"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [first, ..] = types else {
            return Err(OpError::new("stack needs an input"));
        };
        let same =
            |ty: &&TensorType| ty.dtype == first.dtype && ty.shape.is_permutation_of(&first.shape);
        if let Some(other) = types.iter().find(|ty| !same(ty)) {
            return Err(OpError::new(format!(
                "{first} and {other} differ; what is stacked has the same dims and dtype"
            )));
        }
        Ok(vec![TensorType::new(under(self.of(types.len()), &first.shape)?, first.dtype)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let all: Vec<_> = (0..io.inputs.len()).collect();
        SplitRule::parallel().linear(Linearity::Moves, &[&all])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let inputs = cx.inputs();
        let rest = cx.output_shape(0).without(&[self.dim]);
        let order: Vec<_> = rest.names().collect();
        let (one, all) = (under(self.of(1), &rest)?, under(self.of(inputs.len()), &rest)?);
        let mut pieces = Vec::new();
        for (at, input) in inputs.iter().enumerate() {
            let row = cx.transpose(input, &order)?;
            let row = cx.reshape(&row, &one)?;
            pieces.push(LocalPiece { at: vec![(self.dim, at)], ..LocalPiece::whole(row) });
        }
        let zero = Scalar::new(cx.output_dtype(0), 0.0);
        let mut out = cx.assemble(&pieces, zero, &all)?;
        let axes = cx.axes(self.dim)?;
        if !axes.is_empty() {
            let size = inputs.len() / cx.parts(self.dim)?;
            out = cx.cut(&out, self.dim, Offset::sliced(&axes, size), size)?;
        }
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let parts = crate::unstack(cx.dy(), self.of(cx.arity()));
        let in_order = |(i, part)| Some(crate::transpose(part, cx.input(i).shape()));
        Ok(parts.into_iter().enumerate().map(in_order).collect())
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Stack>(|op, x, types| {
            let (mut out, shape) = (Dense::zeros(types[0].clone()), &types[0].shape);
            let rest = shape.without(&[op.dim]);
            for (i, x) in x.iter().enumerate() {
                let at = i * stride(shape, op.dim);
                for (write, read) in offsets(shape, &rest).iter().zip(offsets(&x.ty.shape, &rest)) {
                    out.data[write + at] = x.data[read];
                }
            }
            vec![out]
        })],
        cases: || {
            vec![
                Case::new("stack", |_, x| stack(x[0], &[x[1], x[2], x[3]], "s"))
                    .exact()
                    .integers("x", "p:4;q:6", F32)
                    .integers("y", "q:6;p:4", F32)
                    .integers("z", "p:4;q:6", F32)
                    .integers("w", "p:4;q:6", F32)
                    .meshes(&["a:2", "a:4", "a:3", "a:2;b:2"]),
                Case::new("stack: one", |_, x| stack(x[0], &[], "s"))
                    .exact()
                    .integers("x", "p:4", F32)
                    .meshes(FEW),
                Case::new("stack: bf16", |_, x| stack(x[0], &[x[1]], "s"))
                    .normal("x", "p:4", BF16)
                    .normal("y", "p:4", BF16)
                    .meshes(FEW),
                Case::new("stack of unstacked", |_, x| {
                    let each = crate::unstack(x[0], dim("q", 4));
                    stack(each[3], &[each[1], each[0], each[2]], "q")
                })
                .exact()
                .integers("x", "p:4;q:4", F32)
                .meshes(&["a:2", "a:4", "a:2;b:2"]),
            ]
        },
    };
}

//! `unstack(x, dim)`: the elements along a dim, each as a tensor; `pick(x, dim, index)`: one of
//! them.
//!
//! | shape | x without the dim |
//! |---|---|
//! | split | the dim reduced(select), others parallel |
//! | linear | moves x |
//! | gradient | zeros but at the index |
//!
//! Where the dim is split, one processor has the element and the others have zeros. Elements that
//! nobody uses cost nothing, nor do they in the gradient.

use crate::elementwise::select::Chosen;
use crate::elementwise::{equal, map};
use crate::room::*;
use mesh_core::program::Offset;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Pick {
    dim: DimName,
    index: usize,
}

/// The elements of `x` along `dim`, in order, without that dim.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (layer, x) = (dim("layer", 3), dim("x", 2));
/// let all = g.input("all", [x, layer], F32);
/// let each = mesh_ops::unstack(all, layer);
/// assert_eq!((each.len(), each[2].shape().to_string()), (3, "[x:2]".to_owned()));
/// ```
#[track_caller]
pub fn unstack<'g>(x: Tensor<'g>, dim: Dimension) -> Vec<Tensor<'g>> {
    let mut all = Vec::new();
    for index in 0..dim.size {
        all.push(pick(x, dim, index));
    }
    all
}

/// The element of `x` at `index` along `dim`, without that dim.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (time, x) = (dim("time", 3), dim("x", 2));
/// let last = mesh_ops::pick(g.input("all", [time, x], F32), time, 2);
/// assert_eq!(last.shape().to_string(), "[x:2]");
///
/// mesh_ops::pick(g.input("more", [time, x], F32), time, 3);
/// assert!(g.check().unwrap_err().to_string().contains("there is no element 3 along time:3"));
/// ```
#[track_caller]
pub fn pick<'g>(x: Tensor<'g>, dim: Dimension, index: usize) -> Tensor<'g> {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("pick", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return x.poisoned();
    }
    x.graph().apply1(Pick { dim: dim.name, index }, &[x])
}

impl Op for Pick {
    fn name(&self) -> &'static str {
        "pick"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        let dim = dim_of(self.name(), x, self.dim)?;
        if self.index >= dim.size {
            return Err(OpError::new(format!(
                "there is no element {} along {dim}, only 0 to {}",
                self.index,
                dim.size - 1
            )));
        }
        Ok(vec![TensorType::new(x.shape.without(&[self.dim]), x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Reduced(ReduceKind::Select))
            .linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, shape) = (cx.input(0)?, cx.output_shape(0));
        let dim = dim_of(self.name(), &cx.signature().inputs[0], self.dim)?;
        let out = if cx.parts(self.dim)? == 1 {
            let row = cx.cut(&x, self.dim, Offset::fixed(self.index), 1)?;
            cx.reshape(&row, &shape)?
        } else {
            let begin = cx.begin(self.dim, dim.size / cx.parts(self.dim)?)?;
            let index = cx.counted(dim.resized(1), Offset::fixed(self.index), dim.size)?;
            let index = cx.reshape(&index, &Shape::scalar())?;
            cx.gather(&x, &index, self.dim, begin, &shape)?
        };
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (x, dy) = (cx.input(0), cx.dy());
        let dim = dim_of(self.name(), &x.tensor_type(), self.dim)?;
        let positions = crate::range(dy.graph(), dim, DType::I32);
        let index = dy.graph().scalar(self.index as f64, DType::I32);
        Ok(vec![Some(map(Chosen { when: true }, &[equal(positions, index), dy]))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Pick>(|op, x, types| {
            let at = op.index * stride(&x[0].ty.shape, op.dim);
            let read = offsets(&x[0].ty.shape, &types[0].shape);
            let data = read.iter().map(|i| x[0].data[i + at]).collect();
            vec![Dense { ty: types[0].clone(), data }]
        })],
        cases: || {
            vec![
                exact("unstack: some used", |x| {
                    let each = unstack(x, p());
                    each[0] * 2.0 - each[5] + each[7]
                }),
                exact("pick", |x| pick(x, q(), 7)),
                Case::new("pick: bool", |_, x| pick(x[0], q(), 0)).bools("x", MATRIX).meshes(FEW),
                Case::new("pick: bf16", |_, x| pick(x[0], q(), 11))
                    .normal("x", MATRIX, BF16)
                    .meshes(FEW),
                Case::new("pick: i32", |_, x| pick(x[0], q(), 3))
                    .integers("x", MATRIX, I32)
                    .meshes(FEW),
                Case::new("pick: the only one", |_, x| pick(x[0], dim("q", 1), 0))
                    .exact()
                    .integers("x", "p:4;q:1", F32)
                    .meshes(FEW),
            ]
        },
    };
}

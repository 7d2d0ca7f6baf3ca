//! `unstack(x, dim)`: the elements along a dim, each as a tensor; `pick(x, dim, index)`: one of
//! them.
//!
//! | shape | x without the dim |
//! |---|---|
//! | split | the dim reduced(select), others parallel |
//! | linear | moves x |
//! | gradient | stack, or zeros but at the index |
//!
//! Where the dim is split, one processor has the element and the others have zeros. Elements that
//! nobody uses cost nothing, nor do they in the gradient.

use crate::elementwise::select::Chosen;
use crate::elementwise::{equal, map};
use crate::room::*;
use mesh_core::lower::Local;
use mesh_core::program::Offset;

/// So many neighbouring elements, each as a tensor.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Pick {
    dim: DimName,
    first: usize,
    count: usize,
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
    picked(x, dim, 0, dim.size)
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
    picked(x, dim, index, 1)[0]
}

#[track_caller]
fn picked<'g>(x: Tensor<'g>, dim: Dimension, first: usize, count: usize) -> Vec<Tensor<'g>> {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("pick", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return vec![x.poisoned(); count];
    }
    x.graph().apply(Pick { dim: dim.name, first, count }, &[x], count)
}

impl Pick {
    /// An element of a dim that is not split.
    fn element(&self, cx: &mut LocalCx<'_, '_>, x: &Local, index: usize) -> Result<Local, OpError> {
        let shape = x.shape().without(&[self.dim]);
        let after = x.shape().iter().skip_while(|dim| dim.name != self.dim).nth(1);
        let Some(after) = after else {
            let row = cx.cut(x, self.dim, Offset::fixed(index), 1)?;
            return cx.reshape(&row, &shape);
        };
        // The elements lie side by side along the dim after it, so that one is a slice, which need not be copied.
        let count = x.shape().iter().find(|dim| dim.name == self.dim).map_or(1, |dim| dim.size);
        let longer = |dim: Dimension| {
            if dim == after { dim.resized(count * after.size) } else { dim }
        };
        let all = cx.reshape(x, &Shape::new(shape.iter().map(longer))?)?;
        cx.cut(&all, after.name, Offset::fixed(index * after.size), after.size)
    }
}

impl Op for Pick {
    fn name(&self) -> &'static str {
        "pick"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        let dim = dim_of(self.name(), x, self.dim)?;
        if dim.size.checked_sub(self.count).is_none_or(|last| self.first > last) {
            return Err(OpError::new(format!(
                "there is no element {} along {dim}, only 0 to {}",
                self.first,
                dim.size - 1
            )));
        }
        Ok(vec![TensorType::new(x.shape.without(&[self.dim]), x.dtype); self.count])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Reduced(ReduceKind::Select))
            .linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, shape) = (cx.input(0)?, cx.output_shape(0));
        let dim = dim_of(self.name(), &cx.signature().inputs[0], self.dim)?;
        for i in 0..self.count {
            let index = self.first + i;
            let out = if cx.parts(self.dim)? == 1 {
                self.element(cx, &x, index)?
            } else {
                let begin = cx.begin(self.dim, dim.size / cx.parts(self.dim)?)?;
                let index = cx.counted(dim.resized(1), Offset::fixed(index), dim.size)?;
                let index = cx.reshape(&index, &Shape::scalar())?;
                cx.gather(&x, &index, self.dim, begin, &shape)?
            };
            cx.finish(i, out)?;
        }
        Ok(())
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let x = cx.input(0);
        let dim = dim_of(self.name(), &x.tensor_type(), self.dim)?;
        let dys: Vec<_> =
            (0..self.count).filter_map(|i| Some((self.first + i, cx.dy_of(i)?))).collect();
        if let [(_, first), others @ ..] = &dys[..]
            && dys.len() == dim.size
        {
            let others: Vec<_> = others.iter().map(|&(_, dy)| dy).collect();
            let all = crate::stack(*first, &others, dim.name);
            return Ok(vec![Some(crate::transpose(all, x.shape()))]);
        }
        let positions = crate::range(x.graph(), dim, DType::I32);
        let placed = dys.into_iter().map(|(index, dy)| {
            let index = x.graph().scalar(index as f64, DType::I32);
            map(Chosen { when: true }, &[equal(positions, index), dy])
        });
        Ok(vec![placed.reduce(|a, b| a + b)])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Pick>(|op, x, types| {
            let step = stride(&x[0].ty.shape, op.dim);
            let read = offsets(&x[0].ty.shape, &types[0].shape);
            let element = |(i, ty): (usize, &TensorType)| {
                let at = (op.first + i) * step;
                let data = read.iter().map(|i| x[0].data[i + at]).collect();
                Dense { ty: ty.clone(), data }
            };
            types.iter().enumerate().map(element).collect()
        })],
        cases: || {
            vec![
                exact("unstack: some used", |x| {
                    let each = unstack(x, p());
                    each[0] * 2.0 - each[5] + each[7]
                }),
                exact("unstack: all used", |x| {
                    let each = unstack(x, p()).into_iter().enumerate();
                    let weighed = each.map(|(i, x)| x * (i as f64 + 1.0)).reduce(|a, b| a + b);
                    weighed.unwrap_or(x)
                }),
                exact("unstack: the last dim", |x| {
                    unstack(x, q()).into_iter().reduce(|a, b| a * 2.0 + b).unwrap_or(x)
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

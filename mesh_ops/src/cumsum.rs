//! `cumsum(x, dim)`: the sum so far along a dim.
//!
//! | shape | that of x |
//! |---|---|
//! | split | the dim exchange(all-gather), others parallel |
//! | linear | adds x |
//! | gradient | cumsum of dy from the other end |
//!
//! Over a split dim each processor sums its slice, and only the slices' totals travel.

use crate::room::*;
use crate::slice::resized;
use mesh_core::program::Expr;
use mesh_core::split::Collective;

/// What a cumulative sum takes in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cumulative {
    /// Leaves out the position itself: the first sum is 0.
    pub exclusive: bool,
    /// Sums from the last position down.
    pub reverse: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Cumsum {
    /// The dim along which is summed.
    dim: DimName,
    /// From where, and how far.
    taken: Cumulative,
}

/// `out[i]` is the sum of `x[0]` to `x[i]` along `dim`; numbers.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// assert_eq!(mesh_ops::cumsum(x, time).shape(), x.shape());
/// ```
#[track_caller]
pub fn cumsum(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    cumsum_with(x, dim, Cumulative::default())
}

/// As [`cumsum`], without the position itself or from the last position down.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{Cumulative, cumsum_with};
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// let to_come = cumsum_with(x, time, Cumulative { exclusive: true, reverse: true });
/// assert_eq!(to_come.shape(), x.shape());
/// ```
#[track_caller]
pub fn cumsum_with(x: Tensor<'_>, dim: Dimension, taken: Cumulative) -> Tensor<'_> {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("cumsum", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return x.poisoned();
    }
    x.graph().apply1(Cumsum { dim: dim.name, taken }, &[x])
}

impl Op for Cumsum {
    fn name(&self) -> &'static str {
        "cumsum"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        dim_of(self.name(), x, self.dim)?;
        if x.dtype == DType::Bool {
            return Err(OpError::new("cumsum needs numbers, not bool"));
        }
        Ok(vec![x.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Exchange(&[Collective::AllGather]))
            .linear(Linearity::Adds, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (sum, Cumulative { exclusive, reverse }) = (ReduceKind::Sum, self.taken);
        let (dim, dtype) = (self.dim, cx.output_dtype(0));
        if cx.parts(dim)? == 1 {
            let x = cx.cast(&cx.input(0)?, dtype)?;
            let out = cx.scan(sum, &x, dim, exclusive, reverse)?;
            cx.finish(0, out)?;
            return Ok(());
        }
        let wide = dtype.reduction();
        let x = cx.cast(&cx.input(0)?, wide)?;
        let (shape, line) = (x.shape().clone(), x.shape().without(&[dim]));
        let within = cx.scan(sum, &x, dim, exclusive, reverse)?;
        let total = cx.reduce(sum, &x, &line)?;
        let total = cx.reshape(&total, &resized(&shape, Dimension::new(dim.as_str(), 1))?)?;
        let totals = cx.all_gather(dim, &total)?;
        let before = cx.scan(sum, &totals, dim, true, reverse)?;
        let before = cx.cut(&before, dim, cx.begin(dim, 1)?, 1)?;
        let before = cx.reshape(&before, &line)?;
        let expr = Expr::input(0) + Expr::input(1);
        let out = cx.map_over(&shape, &[before, within], &expr, wide)?;
        let out = cx.cast(&out, dtype)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let dim = dim_of(self.name(), &cx.input(0).tensor_type(), self.dim)?;
        let taken = Cumulative { reverse: !self.taken.reverse, ..self.taken };
        Ok(vec![Some(cumsum_with(cx.dy(), dim, taken))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Cumsum>(|op, x, types| {
            let mut out = Dense::zeros(types[0].clone());
            let (shape, line) = (&types[0].shape, types[0].shape.without(&[op.dim]));
            let (size, step) = (extent(shape, op.dim), stride(shape, op.dim));
            for line in offsets(shape, &line) {
                for i in 0..size {
                    let taken =
                        (0..size).filter(|&j| match (op.taken.exclusive, op.taken.reverse) {
                            (false, false) => j <= i,
                            (true, false) => j < i,
                            (false, true) => j >= i,
                            (true, true) => j > i,
                        });
                    out.data[line + i * step] = taken.map(|j| x[0].data[line + j * step]).sum();
                }
            }
            wrap(&mut out);
            vec![out]
        })],
        cases: || {
            vec![
                Case::new("cumsum", |_, x| cumsum(x[0], q())).exact().integers("x", MATRIX, F32),
                Case::new("cumsum: of floats, the outer dim", |_, x| cumsum(x[0], p()))
                    .normal("x", MATRIX, F32),
                Case::new("cumsum: exclusive", |_, x| cumsum_with(x[0], q(), taken(true, false)))
                    .shows("cumsum_with")
                    .exact()
                    .integers("x", MATRIX, F32)
                    .meshes(FEW),
                Case::new("cumsum: reverse", |_, x| cumsum_with(x[0], q(), taken(false, true)))
                    .shows("cumsum_with")
                    .exact()
                    .integers("x", "q:12;p:8", F64)
                    .meshes(FEW),
                Case::new("cumsum: both, i32", |_, x| cumsum_with(x[0], q(), taken(true, true)))
                    .shows("cumsum_with")
                    .integers("x", MATRIX, I32)
                    .meshes(FEW),
                Case::new("cumsum: bf16", |_, x| cumsum(x[0], q()))
                    .normal("x", "q:12", BF16)
                    .meshes(FEW),
                Case::new("cumsum: one position", |_, x| cumsum(x[0], dim("one", 1)))
                    .exact()
                    .integers("x", "p:8;one:1", F32)
                    .meshes(FEW),
            ]
        },
    };

    fn taken(exclusive: bool, reverse: bool) -> Cumulative {
        Cumulative { exclusive, reverse }
    }
}

//! `cumsum`, `cumprod`, `cummax`, `cummin` `(x, dim)`: the sum, product, greatest or least element so far along a
//! dim. `logcumsumexp(x, dim)` is the sum of what x is the logarithm of.
//!
//! | shape | that of x |
//! |---|---|
//! | split | the dim exchange(all-gather), others parallel |
//! | linear | adds x for cumsum, else none |
//! | gradient | cumsum: that of dy from the other end; cumprod, cummax, cummin: a linear recurrence from the other end |
//!
//! Over a split dim each processor folds its slice, and only the slices' totals travel. The gradient of `cumprod`
//! is right also where elements are 0. Of equal elements the latest has the gradient of `cummax` and `cummin`, as
//! in PyTorch. `logcumsumexp` is a composition, an associative scan of `logaddexp`.

use crate::elementwise::{cast, equal, logaddexp, select};
use crate::placed::resized;
use crate::room::*;
use crate::{AssociativeScan, associative_scan, linear_recurrence};
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
struct Cumulate {
    /// How elements are folded.
    kind: ReduceKind,
    /// The dim along which they are.
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
    cumulate(ReduceKind::Sum, x, dim, taken)
}

/// `out[i]` is the product of `x[0]` to `x[i]` along `dim`; numbers, i32 wraps.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// assert_eq!(mesh_ops::cumprod(x, time).shape(), x.shape());
/// ```
#[track_caller]
pub fn cumprod(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    cumulate(ReduceKind::Prod, x, dim, Cumulative::default())
}

/// `out[i]` is the greatest of `x[0]` to `x[i]` along `dim`, and NaN from the first NaN on; numbers.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// assert_eq!(mesh_ops::cummax(x, time).shape(), x.shape());
/// ```
#[track_caller]
pub fn cummax(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    cumulate(ReduceKind::Max, x, dim, Cumulative::default())
}

/// `out[i]` is the least of `x[0]` to `x[i]` along `dim`, and NaN from the first NaN on; numbers.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// assert_eq!(mesh_ops::cummin(x, time).shape(), x.shape());
/// ```
#[track_caller]
pub fn cummin(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    cumulate(ReduceKind::Min, x, dim, Cumulative::default())
}

/// `out[i]` is the logarithm of the sum of `exp(x[0])` to `exp(x[i])` along `dim`, without the powers, which
/// might overflow; floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// assert_eq!(mesh_ops::logcumsumexp(x, time).shape(), x.shape());
/// ```
#[track_caller]
pub fn logcumsumexp(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    let [sums] = associative_scan([x], dim, |[a], [b]| [logaddexp(a, b)]);
    sums
}

#[track_caller]
fn cumulate(kind: ReduceKind, x: Tensor<'_>, dim: Dimension, taken: Cumulative) -> Tensor<'_> {
    if let Some(problem) = lacking(x, dim) {
        x.graph().record(name(kind), problem);
        return x.poisoned();
    }
    x.graph().apply1(Cumulate { kind, dim: dim.name, taken }, &[x])
}

fn name(kind: ReduceKind) -> &'static str {
    match kind {
        ReduceKind::Prod => "cumprod",
        ReduceKind::Max => "cummax",
        ReduceKind::Min => "cummin",
        _ => "cumsum",
    }
}

impl Op for Cumulate {
    fn name(&self) -> &'static str {
        name(self.kind)
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        dim_of(self.name(), x, self.dim)?;
        if x.dtype == DType::Bool {
            return Err(OpError::new(format!("{} needs numbers, not bool", self.name())));
        }
        Ok(vec![x.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let rule = SplitRule::parallel().with([self.dim], Role::Exchange(&[Collective::AllGather]));
        if self.kind == ReduceKind::Sum { rule.linear(Linearity::Adds, &[&[0]]) } else { rule }
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (kind, Cumulative { exclusive, reverse }) = (self.kind, self.taken);
        let (dim, dtype) = (self.dim, cx.output_dtype(0));
        if cx.parts(dim)? == 1 {
            let x = cx.cast(&cx.input(0)?, dtype)?;
            let out = cx.scan(kind, &x, dim, exclusive, reverse)?;
            cx.finish(0, out)?;
            return Ok(());
        }
        let wide = dtype.reduction();
        let x = cx.cast(&cx.input(0)?, wide)?;
        let (shape, line) = (x.shape().clone(), x.shape().without(&[dim]));
        let within = cx.scan(kind, &x, dim, exclusive, reverse)?;
        let total = cx.reduce(kind, &x, &line)?;
        let total = cx.reshape(&total, &resized(&shape, Dimension::new(dim.as_str(), 1))?)?;
        let totals = cx.all_gather(dim, &total)?;
        let before = cx.scan(kind, &totals, dim, true, reverse)?;
        let before = cx.cut(&before, dim, cx.begin(dim, 1)?, 1)?;
        let before = cx.reshape(&before, &line)?;
        let [a, b] = [0, 1].map(Expr::input);
        let expr = match kind {
            ReduceKind::Prod => a * b,
            ReduceKind::Max => a.max(b),
            ReduceKind::Min => a.min(b),
            _ => a + b,
        };
        let out = cx.map_over(&shape, &[before, within], &expr, wide)?;
        let out = cx.cast(&out, dtype)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (x, y, dy) = (cx.input(0), cx.output(0), cx.dy());
        let dim = dim_of(self.name(), &x.tensor_type(), self.dim)?;
        let back = AssociativeScan { reverse: true, blocks: None };
        let dx = match self.kind {
            ReduceKind::Sum => {
                let taken = Cumulative { reverse: !self.taken.reverse, ..self.taken };
                cumsum_with(dy, dim, taken)
            }
            // With s[i] the sum of dy[j] x[i + 1] ... x[j]: the product before i times s[i].
            ReduceKind::Prod => {
                let first = equal(crate::range(x.graph(), dim, DType::I32), 0);
                let before = select(first, 1, crate::shift(y, dim, 1, false));
                let next = crate::shift(x, dim, -1, false);
                before * linear_recurrence(next, dy, dim, back)
            }
            // The sum of dy from where x is the extreme to before where the next one is.
            _ => {
                let attained = equal(x, y);
                let goes_on = 1.0 - crate::shift(cast(attained, x.dtype()), dim, -1, false);
                select(attained, linear_recurrence(goes_on, dy, dim, back), 0)
            }
        };
        Ok(vec![Some(crate::transpose(dx, x.shape()))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::reduce::proof::greater;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Cumulate>(|op, x, types| {
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
                    let taken = taken.map(|j| x[0].data[line + j * step]);
                    out.data[line + i * step] = match op.kind {
                        ReduceKind::Prod => taken.fold(1.0, |a, b| product(a, b, types[0].dtype)),
                        ReduceKind::Max => taken.fold(f64::NEG_INFINITY, greater),
                        ReduceKind::Min => taken.fold(f64::INFINITY, |a, b| -greater(-a, -b)),
                        _ => taken.sum(),
                    };
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
                Case::new("cumprod", |_, x| cumprod(x[0], q()))
                    .input("x", "p:2;q:12", F64, Fill::Between(0.5, 1.5))
                    .meshes(FEW),
                Case::new("cumprod: zeros", |_, x| cumprod(x[0], dim("q", 6)))
                    .input(
                        "x",
                        "p:2;q:6",
                        F64,
                        Fill::Values(vec![1.5, 0.0, -2.0, 3.0, 0.0, 0.5, 2.0]),
                    )
                    .meshes(FEW),
                Case::new("cumprod: i32", |_, x| cumprod(x[0], q()))
                    .integers("x", "p:2;q:12", I32)
                    .meshes(FEW),
                Case::new("cummax", |_, x| cummax(x[0], q()))
                    .input("x", "p:2;q:12", F32, Fill::Distinct)
                    .meshes(FEW),
                Case::new("cummin", |_, x| cummin(x[0], q()))
                    .input("x", "p:2;q:12", F32, Fill::Distinct)
                    .meshes(FEW),
                Case::new("cummax: NaN", |_, x| cummax(x[0], q()))
                    .without_gradient()
                    .input("x", "p:2;q:12", F32, Fill::Values(vec![2.0, 1.0, f64::NAN, 4.0, 2.0]))
                    .meshes(FEW),
                Case::new("logcumsumexp", |_, x| logcumsumexp(x[0], dim("q", 6)))
                    .composed()
                    .computes(|x, ty| {
                        let so_far = |at: &At| {
                            let line = line(x[0], at, dim("q", 6));
                            line[..=at.along("q")].iter().map(|x| x.exp()).sum::<f64>().ln()
                        };
                        Dense::each(ty, so_far)
                    })
                    .normal("x", "p:2;q:6", F32)
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

//! `linear_recurrence(a, b, dim)`: `h -> a h + b` along a dim, what state-space models run.
//!
//! | shape | that of b |
//! |---|---|
//! | split | the dim exchange(all-gather), others parallel |
//! | linear | multiplies b |
//! | gradient | b: the recurrence of dy from the other end, g; a: g times the state before |
//!
//! A processor goes through its positions one after the other. Over a split dim it does so twice: first for what its
//! slice makes of any state before it, a factor and a sum, which alone travel; then from the state before its slice
//! on. In blocks it is an associative scan, for machines that do much at once.

use crate::associative_scan::{AssociativeScan, associative_scan_with};
use crate::placed::resized;
use crate::room::*;
use mesh_core::lower::{Local, LocalGiven, LocalIteration, LocalLeft, LocalPiece};
use mesh_core::program::{Expr, Scalar};
use mesh_core::split::Collective;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Recur {
    /// The dim along which states follow each other.
    dim: Dimension,
    /// From the last position down.
    reverse: bool,
}

/// `h[i] = a[i] h[i - 1] + b[i]` along `dim`, from `h[0] = b[0]` on; floats. What state-space models run.
///
/// Positions go one after the other; if `how` names blocks, and for whole numbers, by an associative scan, in fewer and
/// larger steps.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{AssociativeScan, linear_recurrence};
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let (decay, x) = (g.input("decay", [time], F32), g.input("x", [time, dim("d", 2)], F32));
/// let state = linear_recurrence(decay, x, time, AssociativeScan::default());
/// assert_eq!(state.shape(), x.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn linear_recurrence<'g>(
    a: Tensor<'g>,
    b: Tensor<'g>,
    dim: Dimension,
    how: AssociativeScan,
) -> Tensor<'g> {
    let graph = a.graph();
    let _caller = graph.for_caller();
    if how.blocks.is_some() || !b.dtype().is_float() {
        let both = associative_scan_with(&[a, b], dim, how, |before, x| {
            vec![before[0] * x[0], before[1] * x[0] + x[1]]
        });
        return both[1];
    }
    if let Some(problem) = lacking(a, dim).or(lacking(b, dim)) {
        graph.record("linear_recurrence", problem);
        return b.poisoned();
    }
    graph.apply1(Recur { dim, reverse: how.reverse }, &[a, b])
}

impl Op for Recur {
    fn name(&self) -> &'static str {
        "linear_recurrence"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [a, b] = inputs(self.name(), types)?;
        if !b.dtype.is_float() || a.dtype != b.dtype {
            return Err(OpError::new(format!(
                "linear_recurrence needs floats alike, not {a}, {b}"
            )));
        }
        if let Some(more) = a.shape.iter().find(|d| b.shape.get(d.name) != Some(*d)) {
            return Err(OpError::new(format!("linear_recurrence: {b} lacks {more} of {a}")));
        }
        for ty in [a, b] {
            dim_of(self.name(), ty, self.dim.name)?;
        }
        Ok(vec![b.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let exchange = Role::Exchange(&[Collective::AllGather]);
        SplitRule::parallel().with([self.dim.name], exchange).linear(Linearity::Multiplies, &[&[1]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let (shape, dtype) = (b.shape().clone(), cx.output_dtype(0));
        let [a, b] = [self.foremost(cx, &a)?, self.foremost(cx, &b)?];
        let before = match cx.parts(self.dim.name)? {
            1 => cx.fill(Scalar::new(dtype.reduction(), 0.0), &b.shape().without(&[self.dim.name])),
            parts => self.before(cx, &a, &b, parts)?,
        };
        // Nothing stands before the first position of all.
        let first = if self.reverse { self.dim.size - 1 } else { 0 };
        let given = [a, b, cx.positions(self.dim)?];
        let over = given[1].shape().dims()[0];
        let left = self.repeat(cx, over, &[before], &given, |cx, it| {
            let state = next(cx, &it.sliced, &it.carried[0], first)?;
            let stacked = vec![cx.cast(&state, dtype)?];
            Ok(LocalLeft { carried: vec![state], stacked })
        })?;
        let states = cx.transpose(&left.stacked[0], &shape.names().collect::<Vec<_>>())?;
        cx.finish(0, states)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (a, b, y, dy) = (cx.input(0), cx.input(1), cx.output(0), cx.dy());
        let back = AssociativeScan { reverse: !self.reverse, blocks: None };
        let places = if self.reverse { -1 } else { 1 };
        let after = crate::shift(a, self.dim, -places, false);
        let db = linear_recurrence(after, dy, self.dim, back);
        let da = cx.needs(0).then(|| {
            let before = crate::shift(y, self.dim, places, false);
            crate::reduce::sum_onto(db * before, &a.shape())
        });
        Ok(vec![da, Some(crate::transpose(db, b.shape()))])
    }
}

impl Recur {
    /// With the dim first.
    fn foremost(&self, cx: &mut LocalCx<'_, '_>, x: &Local) -> Result<Local, OpError> {
        let rest = x.shape().names().filter(|name| *name != self.dim.name);
        let order: Vec<_> = std::iter::once(self.dim.name).chain(rest).collect();
        cx.transpose(x, &order)
    }

    fn repeat(
        &self,
        cx: &mut LocalCx<'_, '_>,
        over: Dimension,
        carried: &[Local],
        sliced: &[Local],
        body: impl FnOnce(&mut LocalCx<'_, '_>, LocalIteration) -> Result<LocalLeft, OpError>,
    ) -> Result<LocalLeft, OpError> {
        let given = LocalGiven { carried, sliced, captured: &[] };
        if self.reverse {
            cx.repeat_reverse(over, given, |cx, it| body(cx, it))
        } else {
            cx.repeat(over, given, |cx, it| body(cx, it))
        }
    }

    /// The state before this processor's positions.
    fn before(
        &self,
        cx: &mut LocalCx<'_, '_>,
        a: &Local,
        b: &Local,
        parts: usize,
    ) -> Result<Local, OpError> {
        let (dim, wide) = (self.dim.name, cx.output_dtype(0).reduction());
        let here = b.shape().dims()[0];
        let lines = [a, b].map(|x| x.shape().without(&[dim]));
        let (one, none) = (Scalar::new(wide, 1.0), Scalar::new(wide, 0.0));
        let start = [cx.fill(one, &lines[0]), cx.fill(none, &lines[1])];
        let given = [a.clone(), b.clone(), self.marks(cx, here)?];
        let left = self.repeat(cx, here, &start, &given, |cx, it| {
            let factor = Expr::input(0) * Expr::input(1);
            let factors = [cx.cast(&it.sliced[0], wide)?, it.carried[0].clone()];
            let factor = cx.map_over(&lines[0], &factors, &factor, wide)?;
            let sum = next(cx, &it.sliced, &it.carried[1], 1)?;
            Ok(LocalLeft { carried: vec![factor, sum], stacked: Vec::new() })
        })?;
        let mut totals = Vec::new();
        for (total, like) in left.carried.iter().zip([a, b]) {
            let one = resized(like.shape(), Dimension::new(dim.as_str(), 1))?;
            let total = cx.reshape(total, &one)?;
            totals.push(cx.all_gather(dim, &total)?);
        }
        let over = Dimension::new(dim.as_str(), parts);
        totals.push(self.marks(cx, over)?);
        let none = [cx.fill(none, &lines[1])];
        let left = self.repeat(cx, over, &none, &totals, |cx, it| {
            let state = next(cx, &it.sliced, &it.carried[0], 1)?;
            Ok(LocalLeft { carried: vec![state], stacked: it.carried })
        })?;
        let begin = cx.begin(dim, 1)?;
        let before = cx.cut(&left.stacked[0], dim, begin, 1)?;
        cx.reshape(&before, &lines[1])
    }

    /// 1 at the first of so many positions, else 0.
    fn marks(&self, cx: &mut LocalCx<'_, '_>, over: Dimension) -> Result<Local, OpError> {
        let at = if self.reverse { over.size - 1 } else { 0 };
        let mark = cx.fill(Scalar::new(DType::I32, 1.0), &Shape::new([over.resized(1)])?);
        let mark = LocalPiece { at: vec![(over.name, at)], ..LocalPiece::whole(mark) };
        cx.assemble(&[mark], Scalar::new(DType::I32, 0.0), &Shape::new([over])?)
    }
}

/// The state after one position, of which `here` has factor, summand and mark; the mark `first` says that there is no
/// state before, whatever the factor.
fn next(
    cx: &mut LocalCx<'_, '_>,
    here: &[Local],
    state: &Local,
    first: usize,
) -> Result<Local, OpError> {
    let [a, b, mark] = here else {
        return Err(OpError::new("internal error: linear_recurrence lost a slice"));
    };
    let wide = cx.dtype(state);
    let terms = [cx.cast(a, wide)?, state.clone(), cx.cast(b, wide)?, mark.clone()];
    let [a, state_before, b, mark] = [0, 1, 2, 3].map(Expr::input);
    let factor = mark.equal(first as f64).select(0.0, a);
    cx.map_over(&state.shape().clone(), &terms, &(factor * state_before + b), wide)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::associative_scan::proof::so_far;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Recur>(|op, x, types| {
            let mut out = Dense::zeros(types[0].clone());
            let (name, size) = (op.dim.name.as_str(), op.dim.size);
            for step in 0..size {
                let here = if op.reverse { size - 1 - step } else { step };
                let state = Dense::each(&types[0], |at| {
                    let before = if op.reverse { here + 1 } else { here.wrapping_sub(1) };
                    let carried = match step {
                        0 => 0.0,
                        _ => x[0].at(&at.with(name, here)) * out.at(&at.with(name, before)),
                    };
                    let is_here = at.along(name) == here;
                    if is_here { carried + x[1].at(at) } else { out.at(at) }
                });
                out = state;
            }
            vec![out]
        })],
        cases: || {
            vec![
                recurrence("linear_recurrence", false, F64),
                recurrence("linear_recurrence: reverse", true, F64),
                recurrence("linear_recurrence: bf16", false, BF16).without_gradient(),
                Case::new("linear_recurrence: the inner dim, of a matrix", |_, x| {
                    linear_recurrence(x[0], x[1], q(), AssociativeScan::default())
                })
                .normal("a", "p:4;q:12", F64)
                .normal("b", "p:4;q:12", F64)
                .meshes(FEW),
                Case::new("linear_recurrence: in blocks", |_, x| {
                    let how = AssociativeScan { reverse: false, blocks: Some(4) };
                    linear_recurrence(x[0], x[1], q(), how)
                })
                .composed()
                .computes(|x, ty| so_far(x, ty, false, |h, x| h * x[0] + x[1], 0.0))
                .normal("a", "q:12", F64)
                .normal("b", "p:2;q:12", F64)
                .meshes(FEW),
                // What stands at the first position has no part in it.
                Case::new("linear_recurrence: NaN first", |_, x| {
                    linear_recurrence(x[0], x[1], q(), AssociativeScan::default())
                })
                .without_gradient()
                .input("a", "q:12", F32, Fill::Values(first_is_nan()))
                .normal("b", "p:2;q:12", F32)
                .meshes(FEW),
            ]
        },
    };

    fn first_is_nan() -> Vec<f64> {
        (0..12).map(|i| if i == 0 { f64::NAN } else { 0.5 }).collect()
    }

    fn recurrence(name: &str, reverse: bool, dtype: DType) -> Case {
        let how = AssociativeScan { reverse, blocks: None };
        Case::new(name, move |_, x| linear_recurrence(x[0], x[1], q(), how))
            .normal("a", "q:12", dtype)
            .normal("b", "p:2;q:12", dtype)
            .meshes(FEW)
    }
}

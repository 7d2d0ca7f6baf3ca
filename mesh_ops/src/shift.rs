//! `shift(x, dim, offset, wrap)`: moves elements along a dim, also one that is split.
//!
//! | shape | that of x |
//! |---|---|
//! | split | the dim exchange(permute), others parallel |
//! | linear | moves x |
//! | gradient | shift back |
//!
//! Over a split dim whole slices travel along the processors that share it. An offset that is no
//! multiple of the slice takes rows of two neighbours; only those rows travel.

use crate::room::*;
use mesh_core::lower::{Local, LocalPiece};
use mesh_core::program::{Offset, Scalar};
use mesh_core::split::Collective;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    /// The dim along which elements move.
    dim: DimName,
    /// How far: `out[i] = x[i - offset]`.
    offset: i64,
    /// Whether what leaves at one end comes in at the other; else zeros come in.
    wrap: bool,
}

/// `out[i] = x[i - offset]` along `dim`. Where `i - offset` is outside `x` there is zero, or with
/// `wrap` the element at that position modulo the size.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// let before = mesh_ops::shift(x, time, 1, false);
/// assert_eq!(before.shape(), x.shape());
/// ```
#[track_caller]
pub fn shift(x: Tensor<'_>, dim: Dimension, offset: i64, wrap: bool) -> Tensor<'_> {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("shift", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return x.poisoned();
    }
    let size = dim.size as i64;
    let offset = if wrap { offset.rem_euclid(size.max(1)) } else { offset.clamp(-size, size) };
    if offset == 0 {
        return x;
    }
    x.graph().apply1(Shift { dim: dim.name, offset, wrap }, &[x])
}

impl Op for Shift {
    fn name(&self) -> &'static str {
        "shift"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        dim_of(self.name(), x, self.dim)?;
        Ok(vec![x.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Exchange(&[Collective::Permute]))
            .linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let x = cx.input(0)?;
        let shape = x.shape().clone();
        let block = shape.get(self.dim).map_or(1, |d| d.size);
        // Row j is row j - rest of the slice `slices` places before, or of the one before that.
        let slices = self.offset.div_euclid(block as i64);
        let rest = self.offset.rem_euclid(block as i64) as usize;
        let mut pieces = Vec::new();
        pieces.extend(self.rows(cx, &x, slices, 0..block - rest, rest)?);
        if rest > 0 {
            pieces.extend(self.rows(cx, &x, slices + 1, block - rest..block, 0)?);
        }
        let zero = Scalar::new(cx.dtype(&x), 0.0);
        let out = match &pieces[..] {
            [all] if rest == 0 => all.input.clone(),
            _ => cx.assemble(&pieces, zero, &shape)?,
        };
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let dim = dim_of(self.name(), &cx.input(0).tensor_type(), self.dim)?;
        Ok(vec![Some(shift(cx.dy(), dim, -self.offset, self.wrap))])
    }
}

impl Shift {
    /// These rows of the slice `distance` places before this processor's, to be written from row
    /// `at` on; `None` where on every processor zeros come instead.
    fn rows(
        &self,
        cx: &mut LocalCx<'_, '_>,
        x: &Local,
        distance: i64,
        rows: std::ops::Range<usize>,
        at: usize,
    ) -> Result<Option<LocalPiece>, OpError> {
        let parts = cx.parts(self.dim)? as i64;
        let distance = if self.wrap { distance.rem_euclid(parts) } else { distance };
        if distance.abs() >= parts {
            return Ok(None);
        }
        let begin = Offset::fixed(rows.start);
        let mut piece = LocalPiece::whole(x.clone());
        piece.at.push((self.dim, at));
        if distance == 0 {
            piece.begin.push((self.dim, begin));
            piece.size.push((self.dim, rows.len()));
        } else {
            let whole = x.shape().get(self.dim).is_some_and(|d| d.size == rows.len());
            let sent = if whole { x.clone() } else { cx.cut(x, self.dim, begin, rows.len())? };
            piece.input = cx.permute(self.dim, distance, self.wrap, &sent)?;
        }
        Ok(Some(piece))
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Shift>(|op, x, types| {
            let size = extent(&types[0].shape, op.dim) as i64;
            let from =
                |i| if op.wrap { i64::rem_euclid(i - op.offset, size) } else { i - op.offset };
            vec![moved(x[0], &types[0], op.dim, from)]
        })],
        cases: || {
            vec![
                exact("shift by one", |x| shift(x, q(), 1, false)).shows("shift"),
                exact("shift back by five", |x| shift(x, q(), -5, false)),
                exact("shift round by one", |x| shift(x, q(), 1, true)),
                exact("shift round by seven", |x| shift(x, q(), 7, true)),
                exact("shift beyond the end", |x| shift(x, q(), 12, false)),
            ]
        },
    };
}

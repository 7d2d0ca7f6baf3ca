//! The op under pooling and its gradients: what is seen folded to windows, or windows to what they see.

use crate::placed::resized;
use crate::room::*;
use crate::share::{MARGINS, Share, extended};
use mesh_core::lower::{Local, LocalPiece, LocalReach};
use mesh_core::program::{Expr, Offset, PoolKind, Scalar};
use std::ops::Range;

/// Windows along a dim.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Along {
    /// The dim.
    pub(super) dim: DimName,
    /// Its positions before pooling.
    pub(super) seen: usize,
    /// Windows: its positions after pooling.
    pub(super) count: usize,
    /// Positions of a window, of which at least one is seen.
    pub(super) size: usize,
    /// Positions from one window to the next.
    pub(super) stride: usize,
    /// Positions of the first window before the first that is seen.
    pub(super) low: usize,
}

impl Along {
    /// What a window sees.
    pub(super) fn sees(&self, window: usize) -> Range<usize> {
        let begin = window * self.stride;
        let end = (begin + self.size).saturating_sub(self.low);
        begin.saturating_sub(self.low)..end.min(self.seen)
    }

    /// Whether no window reaches beyond the ends.
    pub(super) fn is_inside(&self) -> bool {
        let end = (self.count - 1) * self.stride + self.size;
        self.low == 0 && end <= self.seen
    }

    /// The part of the dim that a processor has.
    fn share(&self, cx: &LocalCx<'_, '_>) -> Result<Share, OpError> {
        let parts = cx.parts(self.dim)?;
        Ok(Share {
            dim: self.dim,
            parts,
            image: self.seen / parts,
            output: self.count / parts,
            stride: self.stride,
            reach: self.size,
            low: self.low,
        })
    }
}

/// A fold over windows. `Max` and `Sum` read one tensor; `Count` and `Ties` what windows see and an element
/// for each window, and `Ties` what is added up where these are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pooling {
    /// What is folded.
    pub(super) kind: PoolKind,
    /// At least one.
    pub(super) windows: Vec<Along>,
    /// Whether the result has what windows see, not windows.
    pub(super) spreads: bool,
}

impl Pooling {
    /// The windows of what is seen.
    #[track_caller]
    pub(super) fn of<'g>(kind: PoolKind, windows: Vec<Along>, x: &[Tensor<'g>]) -> Tensor<'g> {
        x[0].graph().apply1(Self { kind, windows, spreads: false }, x)
    }

    #[track_caller]
    fn turned<'g>(&self, x: &[Tensor<'g>]) -> Tensor<'g> {
        x[0].graph().apply1(Self { spreads: !self.spreads, ..self.clone() }, x)
    }

    /// Whether input `i` has windows.
    fn counts(&self, i: usize) -> bool {
        match (self.kind, i) {
            (PoolKind::Count | PoolKind::Ties, 0) => false,
            (PoolKind::Count | PoolKind::Ties, 1) => true,
            _ => self.spreads,
        }
    }

    /// The shape of the result, from that of the one input.
    fn other(&self, shape: &Shape) -> Result<Shape, OpError> {
        let size = |along: &Along| if self.spreads { along.seen } else { along.count };
        let along = |d: &Dimension| self.windows.iter().find(|along| along.dim == d.name);
        Ok(Shape::new(shape.iter().map(|d| along(&d).map_or(d, |along| d.resized(size(along)))))?)
    }

    /// Input `i` as the fold needs it along a dim, of which it has windows (or not).
    fn operand(
        &self,
        cx: &mut LocalCx<'_, '_>,
        (i, x): (usize, &Local),
        along: &Along,
        share: &Share,
    ) -> Result<Local, OpError> {
        let spread = share.spread();
        match (self.counts(i), self.spreads) {
            _ if share.parts == 1 => Ok(x.clone()),
            (false, false) => {
                let seen = share.seen(cx, x)?;
                let beyond = match self.kind {
                    PoolKind::Max => f64::NEG_INFINITY,
                    // Equal to nothing.
                    PoolKind::Count | PoolKind::Ties if i == 0 => f64::NAN,
                    _ => return Ok(seen),
                };
                if along.is_inside() { Ok(seen) } else { masked(cx, share, &seen, along, beyond) }
            }
            (true, false) => Ok(x.clone()),
            (true, true) => extended(cx, x, along.dim, spread.margins),
            (false, true) => placed(cx, share, x),
        }
    }
}

/// What a processor's windows see, with another number beyond the ends.
fn masked(
    cx: &mut LocalCx<'_, '_>,
    share: &Share,
    rows: &Local,
    along: &Along,
    beyond: f64,
) -> Result<Local, OpError> {
    let Some(dim) = rows.shape().get(share.dim) else { return Ok(rows.clone()) };
    let step = share.stride * share.output;
    let begin = Offset::sliced(&cx.axes(share.dim)?, step);
    let positions = cx.counted(dim, begin, (share.parts - 1) * step + dim.size)?;
    let position = || Expr::input(1);
    let end = (share.low + along.seen) as f64;
    let inside = position().greater_equal(share.low as f64).and(position().less(end));
    let (shape, dtype) = (rows.shape().clone(), cx.dtype(rows));
    cx.map_over(&shape, &[rows.clone(), positions], &inside.select(Expr::input(0), beyond), dtype)
}

/// A processor's own part where a [`Spread`](crate::share::Spread) has it, zeros around it.
fn placed(cx: &mut LocalCx<'_, '_>, share: &Share, own: &Local) -> Result<Local, OpError> {
    let spread = share.spread();
    let (base, scale) = spread.begin;
    if scale == 0 {
        return Ok(own.clone());
    }
    let last = (base as i64 + scale * (share.parts as i64 - 1)) as usize;
    let (before, least) = (base.max(last), base.min(last));
    let size = before + spread.size - least;
    let shape = resized(own.shape(), Dimension { name: share.dim, size })?;
    let piece = LocalPiece { at: vec![(share.dim, before)], ..LocalPiece::whole(own.clone()) };
    let zero = Scalar::new(cx.dtype(own), 0.0);
    let wide = cx.assemble(&[piece], zero, &shape)?;
    let begin = Offset { base: before - base, axes: cx.axes(share.dim)?, scale: -scale };
    cx.cut(&wide, share.dim, begin, spread.size)
}

impl Op for Pooling {
    fn name(&self) -> &'static str {
        match (self.kind, self.spreads) {
            (PoolKind::Max, _) => "max_pool",
            (PoolKind::Sum, false) => "avg_pool",
            (PoolKind::Sum, true) => "avg_pool_gradient",
            (PoolKind::Count, _) => "max_pool_count",
            (PoolKind::Ties, false) => "max_pool_ties",
            (PoolKind::Ties, true) => "max_pool_gradient",
        }
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let shape = match self.kind {
            PoolKind::Max | PoolKind::Sum => self.other(&types[0].shape)?,
            PoolKind::Count | PoolKind::Ties => types[usize::from(!self.spreads)].shape.clone(),
        };
        Ok(vec![TensorType::new(shape, types[0].dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let dims = self.windows.iter().map(|along| along.dim);
        let rule = SplitRule::parallel().with(dims, Role::Exchange(MARGINS));
        match self.kind {
            PoolKind::Sum => rule.linear(Linearity::Adds, &[&[0]]),
            PoolKind::Ties => rule.linear(Linearity::Adds, &[&[2]]),
            PoolKind::Max | PoolKind::Count => rule,
        }
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let mut inputs =
            (0..self.kind.inputs()).map(|i| cx.input(i)).collect::<Result<Vec<_>, _>>()?;
        let mut onto = cx.output_shape(0);
        let (mut reaches, mut shares) = (Vec::new(), Vec::new());
        let names = onto.names().collect::<Vec<_>>();
        for along in &self.windows {
            let share = along.share(cx)?;
            for (i, input) in inputs.iter_mut().enumerate() {
                *input = self.operand(cx, (i, input), along, &share)?;
            }
            let spread = share.spread();
            let pad = match (share.parts > 1, self.spreads) {
                (false, _) => along.low,
                (true, false) => 0,
                (true, true) => {
                    onto = resized(&onto, Dimension { name: along.dim, size: spread.size })?;
                    spread.pad
                }
            };
            let (input, output) = (along.dim, unlike(along.dim, &names));
            let Along { size, stride, .. } = *along;
            reaches.push(LocalReach { input, output, size, stride, pad });
            shares.push(share);
        }
        for (i, input) in inputs.iter_mut().enumerate() {
            if self.counts(i) {
                *input = cx.renamed(input, windowed(input.shape(), &reaches)?)?;
            }
        }
        let inputs: Vec<_> = inputs.iter().collect();
        let mut out = if self.spreads {
            cx.pool(self.kind, &inputs, &reaches, &onto)?
        } else {
            let made = cx.pool(self.kind, &inputs, &reaches, &windowed(&onto, &reaches)?)?;
            cx.renamed(&made, onto)?
        };
        if self.spreads {
            for share in shares {
                out = share.own(cx, &out)?;
            }
        }
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (x, dy) = (cx.input(0), cx.dy());
        let ordered = |dx, like: Tensor<'g>| Some(crate::transpose(dx, like.shape()));
        Ok(match self.kind {
            PoolKind::Max => {
                let y = cx.output(0);
                let of = |kind| Self { kind, ..self.clone() };
                let count = x.graph().apply1(of(PoolKind::Count), &[x, y]);
                vec![Some(of(PoolKind::Ties).turned(&[x, y, dy / count]))]
            }
            PoolKind::Sum => vec![ordered(self.turned(&[dy]), x)],
            PoolKind::Ties => {
                let y = cx.input(1);
                vec![None, None, ordered(self.turned(&[x, y, dy]), cx.input(2))]
            }
            PoolKind::Count => vec![None, None],
        })
    }
}

/// A shape whose pooled dims have the names of windows.
fn windowed(shape: &Shape, reaches: &[LocalReach]) -> Result<Shape, OpError> {
    let named = |d: Dimension| {
        let reach = reaches.iter().find(|reach| reach.input == d.name);
        reach.map_or(d, |reach| d.renamed(reach.output.as_str()))
    };
    Ok(Shape::new(shape.iter().map(named))?)
}

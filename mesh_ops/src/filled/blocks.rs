//! One processor's positions, block by block.

use crate::room::*;
use mesh_core::lower::{Local, LocalGiven, LocalLeft};
use mesh_core::program::{Expr, Scalar};

/// How one processor goes through its positions.
pub(super) struct Frame {
    /// Dims of the long factor that are gone through one by one.
    outer: Vec<Dimension>,
    /// The dim, and what it is cut into.
    pub(super) whole: Dimension,
    pub(super) blocks: Dimension,
    rows: Dimension,
    /// What the product has.
    pub(super) onto: Shape,
    pub(super) dtype: DType,
}

/// Positions of a block: the greatest number up to `most` that divides all; all of them, if that is too few
/// for a block to be worth its guard.
fn rows_of(size: usize, most: usize) -> usize {
    let fits = (1..=most.min(size)).rev().find(|rows| size.is_multiple_of(*rows)).unwrap_or(1);
    if fits * 8 < most.min(size) { size } else { fits }
}

impl Frame {
    /// Of a processor's slices of the factors, of which the long one has the dim.
    pub(super) fn new(
        cx: &LocalCx<'_, '_>,
        [short, long]: [&Local; 2],
        dim: DimName,
        block: usize,
    ) -> Result<Self, OpError> {
        let (onto, dtype) = (cx.output_shape(0), cx.output_dtype(0).reduction());
        let missing = || OpError::new(format!("einsum_filled: {} has no {dim}", long.shape()));
        let whole = long.shape().get(dim).ok_or_else(missing)?;
        let shared = |d: &Dimension| onto.contains(d.name) && short.shape().contains(d.name);
        let before = long.shape().iter().take_while(|d| d.name != dim);
        let outer = before.take_while(shared).collect();
        let taken: Vec<_> = short.shape().union(long.shape())?.names().collect();
        let named = |what: &str, size| {
            let name = DimName::new(&format!("{dim}_{what}"));
            Dimension::new(unlike(name, &taken).as_str(), size)
        };
        let rows = rows_of(whole.size, block);
        let (blocks, rows) = (named("blocks", whole.size / rows), named("in_block", rows));
        Ok(Self { outer, whole, blocks, rows, onto, dtype })
    }

    /// The product, block by block; a block that begins beyond what is filled is skipped.
    pub(super) fn guarded(
        &self,
        cx: &mut LocalCx<'_, '_>,
        [short, long, filled]: [&Local; 3],
        positions: &Local,
    ) -> Result<Local, OpError> {
        // The most of all that is not gone through one by one.
        let outer = Shape::new(self.outer.iter().copied())?;
        let counted = Shape::new(outer.iter().filter(|d| filled.shape().contains(d.name)))?;
        let filled = cx.reduce(ReduceKind::Max, filled, &counted)?;
        let cut = Shape::new([self.blocks, self.rows])?;
        let positions = cx.reshape(positions, &cut)?;
        let first = cx.reduce(ReduceKind::Min, &positions, &Shape::new([self.blocks])?)?;
        let of_blocks = Shape::new(counted.iter().chain([self.blocks]))?;
        let begins = Expr::input(0).less(Expr::input(1));
        let meets = cx.map_over(&of_blocks, &[first, filled], &begins, DType::Bool)?;
        let [short, long] = [self.arranged(cx, short)?, self.arranged(cx, long)?];
        let inner = self.onto.without(&outer.names().collect::<Vec<_>>());
        let made = along(cx, &self.outer, &[short, long, meets], &mut |cx, values| {
            if inner.contains(self.whole.name) {
                self.side_by_side(cx, values, &inner)
            } else {
                self.summed(cx, values, &inner)
            }
        })?;
        match inner.contains(self.whole.name) {
            true => {
                let rest = inner.iter().filter(|d| *d != self.whole);
                cx.reshape(&made, &Shape::new(outer.iter().chain([self.whole]).chain(rest))?)
            }
            false => Ok(made),
        }
    }

    /// A factor with the dims first that are gone through, in blocks.
    fn arranged(&self, cx: &mut LocalCx<'_, '_>, x: &Local) -> Result<Local, OpError> {
        let dims: Vec<_> = x.shape().iter().collect();
        let has = dims.contains(&self.whole);
        let first: Vec<_> = self.outer.iter().copied().filter(|d| dims.contains(d)).collect();
        let rest = |d: &&Dimension| **d != self.whole && !first.contains(d);
        let rest: Vec<_> = dims.iter().filter(rest).copied().collect();
        let whole = has.then_some(self.whole);
        let order = first.iter().copied().chain(whole).chain(rest.iter().copied());
        let x = cx.transpose(x, &order.map(|d| d.name).collect::<Vec<_>>())?;
        let cut = has.then_some([self.blocks, self.rows]).into_iter().flatten();
        cx.reshape(&x, &Shape::new(first.into_iter().chain(cut).chain(rest))?)
    }

    /// A result that has the dim: blocks side by side, zeros where one is skipped.
    fn side_by_side(
        &self,
        cx: &mut LocalCx<'_, '_>,
        values: &[Local],
        inner: &Shape,
    ) -> Result<Local, OpError> {
        let rest = inner.iter().filter(|d| *d != self.whole);
        let shape = Shape::new([self.rows].into_iter().chain(rest))?;
        along(cx, &[self.blocks], values, &mut |cx, values| {
            let [short, long, meets] = three(values)?;
            let nothing = cx.fill(Scalar::new(self.dtype, 0.0), &shape);
            let given = LocalGiven {
                carried: &[nothing],
                captured: &[short.clone(), long.clone()],
                ..LocalGiven::default()
            };
            let left = cx.guard(meets, given, |cx, it| {
                Ok(vec![cx.contract(&it.captured[0], &it.captured[1], &shape, self.dtype)?])
            })?;
            one(left)
        })
    }

    /// A result that lacks the dim: the sum over blocks.
    fn summed(
        &self,
        cx: &mut LocalCx<'_, '_>,
        values: &[Local],
        inner: &Shape,
    ) -> Result<Local, OpError> {
        let nothing = [cx.fill(Scalar::new(self.dtype, 0.0), inner)];
        let (sliced, captured) = by(values, self.blocks);
        let given = LocalGiven { carried: &nothing, sliced: &sliced, captured: &captured };
        let left = cx.repeat(self.blocks, given, |cx, it| {
            let values = joined(values, self.blocks, it.sliced, it.captured)?;
            let [short, long, meets] = three(&values)?;
            let captured = [short.clone(), long.clone()];
            let given =
                LocalGiven { carried: &it.carried, captured: &captured, ..LocalGiven::default() };
            let carried = cx.guard(meets, given, |cx, it| {
                let more = cx.contract(&it.captured[0], &it.captured[1], inner, self.dtype)?;
                let sum = Expr::input(0) + Expr::input(1);
                Ok(vec![cx.map_over(inner, &[it.carried[0].clone(), more], &sum, self.dtype)?])
            })?;
            Ok(LocalLeft { carried, stacked: Vec::new() })
        })?;
        one(left.carried)
    }
}

type Body<'b> = dyn FnMut(&mut LocalCx<'_, '_>, &[Local]) -> Result<Local, OpError> + 'b;

/// Runs a body for each position along all of some dims, the first outermost, on slices of the values that
/// have them first; what it makes lies side by side.
fn along(
    cx: &mut LocalCx<'_, '_>,
    over: &[Dimension],
    values: &[Local],
    body: &mut Body<'_>,
) -> Result<Local, OpError> {
    let Some((&dim, rest)) = over.split_first() else { return body(cx, values) };
    let (sliced, captured) = by(values, dim);
    let given = LocalGiven { carried: &[], sliced: &sliced, captured: &captured };
    let left = cx.repeat(dim, given, |cx, it| {
        let values = joined(values, dim, it.sliced, it.captured)?;
        let stacked = vec![along(cx, rest, &values, body)?];
        Ok(LocalLeft { carried: Vec::new(), stacked })
    })?;
    one(left.stacked)
}

/// Values that have a dim, and those that have not.
fn by(values: &[Local], dim: Dimension) -> (Vec<Local>, Vec<Local>) {
    values.iter().cloned().partition(|value| value.shape().contains(dim.name))
}

/// What an iteration has of values, in their order.
fn joined(
    values: &[Local],
    dim: Dimension,
    sliced: Vec<Local>,
    captured: Vec<Local>,
) -> Result<Vec<Local>, OpError> {
    let (mut sliced, mut captured) = (sliced.into_iter(), captured.into_iter());
    let of = |value: &Local| match value.shape().contains(dim.name) {
        true => sliced.next(),
        false => captured.next(),
    };
    values.iter().map(of).collect::<Option<_>>().ok_or_else(lost)
}

fn three(values: &[Local]) -> Result<&[Local; 3], OpError> {
    values.try_into().map_err(|_| lost())
}

fn one(values: Vec<Local>) -> Result<Local, OpError> {
    values.into_iter().next().ok_or_else(lost)
}

fn lost() -> OpError {
    OpError::new("internal error: einsum_filled lost a value on its way through a loop")
}

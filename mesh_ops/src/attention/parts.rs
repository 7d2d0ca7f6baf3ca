//! What one processor has of an attention's inputs, and how it goes through them block by block.

use crate::room::*;
use mesh_core::lower::{Local, LocalGiven, LocalIteration, LocalLeft, LocalPiece};
use mesh_core::program::{Expr, Offset, Scalar};

/// Queries, or what they look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Queries,
    Memory,
}

/// What rules are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Label {
    Position,
    Segment,
    /// The end of what a query sees whatever else it may.
    Prefix,
    /// The number of a position of the memory.
    Index,
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Query,
    Key,
    Value,
    Bias,
    /// Bools: where queries may attend.
    Allowed,
    /// One number for each position.
    Each(Label, Side),
    /// The least of a block.
    Least(Label, Side),
    /// The greatest of a block.
    Greatest(Label, Side),
    /// The gradient of the output.
    OutputGradient,
    /// Of a query's scores.
    LogSumExp,
    /// The mean of a query's gradients of scores, weighted by probability.
    Mean,
}

/// Values with what they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts(Vec<(Part, Local)>);

impl Parts {
    pub(super) fn push(&mut self, part: Part, value: Local) {
        self.0.push((part, value));
    }

    pub(super) fn get(&self, part: Part) -> Option<&Local> {
        self.0.iter().find(|(own, _)| *own == part).map(|(_, value)| value)
    }

    pub(super) fn want(&self, part: Part) -> Result<&Local, OpError> {
        let missing = || OpError::new(format!("internal error: attention lacks {part:?}"));
        self.get(part).ok_or_else(missing)
    }

    fn values(&self) -> Vec<Local> {
        self.0.iter().map(|(_, value)| value.clone()).collect()
    }

    /// The same parts of other values.
    fn of(&self, values: impl IntoIterator<Item = Local>) -> Self {
        Self(self.0.iter().map(|(part, _)| *part).zip(values).collect())
    }

    /// Those that have a dim, and those that have not.
    fn by(&self, dim: DimName) -> (Self, Self) {
        let (with, without) = self.0.iter().cloned().partition(|(_, x)| x.shape().contains(dim));
        (Self(with), Self(without))
    }

    fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Runs a body for each position along a dim on what is carried, and on slices of the parts that
    /// have the dim and of `sliced`.
    pub(super) fn each(
        &self,
        cx: &mut LocalCx<'_, '_>,
        over: Dimension,
        carried: &[Local],
        sliced: &[Local],
        body: impl FnOnce(&mut LocalCx<'_, '_>, Self, LocalIteration) -> Result<LocalLeft, OpError>,
    ) -> Result<LocalLeft, OpError> {
        let (with, without) = self.by(over.name);
        let captured = without.values();
        let all: Vec<_> = sliced.iter().cloned().chain(with.values()).collect();
        let given = LocalGiven { carried, sliced: &all, captured: &captured };
        cx.repeat(over, given, |cx, mut iteration| {
            let own = iteration.sliced.split_off(sliced.len());
            let parts = with.of(own).and(without.of(std::mem::take(&mut iteration.captured)));
            body(cx, parts, iteration)
        })
    }

    /// Runs a body on what is carried if a condition is true.
    pub(super) fn guard(
        &self,
        cx: &mut LocalCx<'_, '_>,
        condition: &Local,
        carried: &[Local],
        body: impl FnOnce(&mut LocalCx<'_, '_>, &Self, &[Local]) -> Result<Vec<Local>, OpError>,
    ) -> Result<Vec<Local>, OpError> {
        let captured = self.values();
        let given = LocalGiven { carried, captured: &captured, ..LocalGiven::default() };
        cx.guard(condition, given, |cx, LocalIteration { carried, captured, .. }| {
            body(cx, &self.of(captured), &carried)
        })
    }
}

/// Inputs of an expression.
#[derive(Default)]
pub(super) struct Terms(Vec<Local>);

impl Terms {
    pub(super) fn of(&mut self, value: &Local) -> Expr {
        let known = self.0.iter().position(|own| own == value);
        let index = known.unwrap_or_else(|| {
            self.0.push(value.clone());
            self.0.len() - 1
        });
        Expr::input(index as u8)
    }

    /// The labels of queries and of the memory.
    pub(super) fn both(&mut self, parts: &Parts, label: Label) -> Result<[Expr; 2], OpError> {
        let of = |side| parts.want(Part::Each(label, side));
        Ok([self.of(of(Side::Queries)?), self.of(of(Side::Memory)?)])
    }

    pub(super) fn map(
        &self,
        cx: &mut LocalCx<'_, '_>,
        shape: &Shape,
        expr: &Expr,
        dtype: DType,
    ) -> Result<Local, OpError> {
        cx.map_over(shape, &self.0, expr, dtype)
    }
}

/// A dim in blocks of equal size; the last may reach beyond the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) whole: Dimension,
    pub(super) blocks: Dimension,
    pub(super) rows: Dimension,
}

impl Cut {
    /// Into as few blocks of at most so many rows as can be, which are then as even as can be.
    fn new(whole: Dimension, most: usize, taken: &[DimName]) -> Self {
        let count = whole.size.div_ceil(most.max(1)).max(1);
        let rows = whole.size.div_ceil(count).max(1);
        let named = |what: &str, size| {
            let name = DimName::new(&format!("{}_{what}", whole.name));
            Dimension::new(unlike(name, taken).as_str(), size)
        };
        let blocks = named("blocks", whole.size.div_ceil(rows));
        Self { whole, blocks, rows: named("in_block", rows) }
    }

    fn padded(self) -> Dimension {
        self.whole.resized(self.blocks.size * self.rows.size)
    }

    /// How many positions there are, if the blocks have more.
    pub(super) fn real(self) -> Option<usize> {
        (self.padded() != self.whole).then_some(self.whole.size)
    }
}

/// The dims of one processor's values, in the order in which they are gone through.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Dims of queries, one position at a time.
    pub(super) outer: Vec<Dimension>,
    pub(super) queries: Cut,
    pub(super) memory: Cut,
    /// Which side's blocks are gone through first.
    pub(super) first: Side,
}

impl Frame {
    /// Of the dims of queries but for the one that is summed.
    pub(super) fn new(
        rows: &Shape,
        [length, memory]: [Dimension; 2],
        most: [usize; 2],
        first: Side,
    ) -> Self {
        let taken: Vec<_> = rows.names().chain([memory.name]).collect();
        Self {
            outer: rows.iter().filter(|d| d.name != length.name).collect(),
            queries: Cut::new(length, most[0], &taken),
            memory: Cut::new(memory, most[1], &taken),
            first,
        }
    }

    /// The cuts, the one that is gone through first before the other.
    fn cuts(&self) -> [Cut; 2] {
        match self.first {
            Side::Queries => [self.queries, self.memory],
            Side::Memory => [self.memory, self.queries],
        }
    }

    /// The dims of a value as blocks: those gone through, then those of a block.
    pub(super) fn in_blocks(&self, shape: &Shape) -> Result<Shape, OpError> {
        let has = |cut: &Cut| shape.contains(cut.whole.name);
        let cuts = self.cuts().into_iter().filter(has);
        let outer = self.outer.iter().copied().filter(|d| shape.contains(d.name));
        let blocks = cuts.map(|cut| cut.blocks);
        let rows = [self.queries, self.memory].into_iter().filter(has).map(|cut| cut.rows);
        Ok(Shape::new(outer.chain(blocks).chain(rows).chain(self.rest(shape)))?)
    }

    /// Dims that are not gone through.
    fn rest<'s>(&'s self, shape: &'s Shape) -> impl Iterator<Item = Dimension> + 's {
        let known = |d: &Dimension| {
            let mut cuts = [self.queries, self.memory].into_iter();
            self.outer.iter().any(|o| o.name == d.name) || cuts.any(|c| c.whole.name == d.name)
        };
        shape.iter().filter(move |d| !known(d))
    }

    /// Dims in order, with those that are cut whole and as long as their blocks, or as blocks.
    fn flat(&self, shape: &Shape, cut: impl Fn(Cut) -> Vec<Dimension>) -> Result<Shape, OpError> {
        let outer = self.outer.iter().copied().filter(|d| shape.contains(d.name));
        let cuts = self.cuts().into_iter().filter(|cut| shape.contains(cut.whole.name));
        Ok(Shape::new(outer.chain(cuts.flat_map(cut)).chain(self.rest(shape)))?)
    }

    /// A value in blocks; `fill` beyond the ends.
    pub(super) fn arranged(
        &self,
        cx: &mut LocalCx<'_, '_>,
        x: &Local,
        fill: f64,
    ) -> Result<Local, OpError> {
        let shape = x.shape().clone();
        let flat = self.flat(&shape, |cut| vec![cut.padded()])?;
        let long = if flat.size() == shape.size() {
            cx.transpose(x, &flat.names().collect::<Vec<_>>())?
        } else {
            let fill = Scalar::new(cx.dtype(x), fill);
            cx.assemble(&[LocalPiece::whole(x.clone())], fill, &flat)?
        };
        let blocks = self.flat(&shape, |cut| vec![cut.blocks, cut.rows])?;
        let blocks = cx.reshape(&long, &blocks)?;
        cx.transpose(&blocks, &self.in_blocks(&shape)?.names().collect::<Vec<_>>())
    }

    /// The value of this shape that lies in blocks.
    pub(super) fn restored(
        &self,
        cx: &mut LocalCx<'_, '_>,
        blocks: &Local,
        shape: &Shape,
    ) -> Result<Local, OpError> {
        let apart = self.flat(shape, |cut| vec![cut.blocks, cut.rows])?;
        let apart = cx.transpose(blocks, &apart.names().collect::<Vec<_>>())?;
        let long = cx.reshape(&apart, &self.flat(shape, |cut| vec![cut.padded()])?)?;
        self.cuts().into_iter().filter(|cut| shape.contains(cut.whole.name)).try_fold(
            long,
            |long, cut| match cut.real() {
                Some(size) => cx.cut(&long, cut.whole.name, Offset::default(), size),
                None => Ok(long),
            },
        )
    }

    /// The least and the greatest of the labels of each block, as parts.
    pub(super) fn bounds(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &mut Parts,
        (label, side): (Label, Side),
        x: &Local,
    ) -> Result<(), OpError> {
        let cut = if side == Side::Queries { self.queries } else { self.memory };
        let least = (Part::Least(label, side), ReduceKind::Min, f64::from(i32::MAX));
        let greatest = (Part::Greatest(label, side), ReduceKind::Max, f64::from(i32::MIN));
        for (part, kind, fill) in [least, greatest] {
            let mut bound = self.arranged(cx, x, fill)?;
            if bound.shape().contains(cut.rows.name) {
                let onto = bound.shape().without(&[cut.rows.name]);
                bound = cx.reduce(kind, &bound, &onto)?;
            }
            parts.push(part, bound);
        }
        Ok(())
    }
}

/// A result of all iterations: the shape in which it lies in blocks, and its dtype.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub(super) shape: Shape,
    pub(super) dtype: DType,
}

type Inner<'f> =
    dyn FnMut(&mut LocalCx<'_, '_>, &Parts, Vec<Option<Local>>) -> Result<Vec<Local>, OpError> + 'f;

/// Runs a body for each position along all of some dims, the first outermost. The body is given what
/// there is so far of each result (nothing where it is alone in its place) and leaves what there is
/// then: along dims that a result has its slices lie side by side, along others it is handed on.
pub(super) fn nest(
    cx: &mut LocalCx<'_, '_>,
    over: &[Dimension],
    parts: &Parts,
    sums: &[Sum],
    so_far: Vec<Option<Local>>,
    inner: &mut Inner<'_>,
) -> Result<Vec<Local>, OpError> {
    let Some((&dim, rest)) = over.split_first() else { return inner(cx, parts, so_far) };
    let has = |sum: &Sum| sum.shape.contains(dim.name);
    let (mut carried, mut sliced) = (Vec::new(), Vec::new());
    let begun: Vec<bool> = so_far.iter().map(Option::is_some).collect();
    for (sum, so_far) in sums.iter().zip(so_far) {
        if has(sum) {
            sliced.extend(so_far);
        } else {
            let zeros = || cx.fill(Scalar::new(sum.dtype, 0.0), &sum.shape);
            carried.push(so_far.unwrap_or_else(zeros));
        }
    }
    let inside = |sum: &Sum| Sum { shape: sum.shape.without(&[dim.name]), ..sum.clone() };
    let of_one: Vec<Sum> = sums.iter().map(inside).collect();
    let left = parts.each(cx, dim, &carried, &sliced, |cx, parts, iteration| {
        let mut carried = iteration.carried.into_iter();
        let mut sliced = iteration.sliced.into_iter();
        let of = |(sum, &begun): (&Sum, &bool)| match (has(sum), begun) {
            (true, true) => sliced.next(),
            (true, false) => None,
            (false, _) => carried.next(),
        };
        let so_far = sums.iter().zip(&begun).map(of).collect();
        let left = nest(cx, rest, &parts, &of_one, so_far, inner)?;
        let (stacked, carried): (Vec<_>, Vec<_>) =
            left.into_iter().zip(sums).partition(|(_, sum)| has(sum));
        let values = |list: Vec<(Local, &Sum)>| list.into_iter().map(|(value, _)| value).collect();
        Ok(LocalLeft { carried: values(carried), stacked: values(stacked) })
    })?;
    let (mut carried, mut stacked) = (left.carried.into_iter(), left.stacked.into_iter());
    let of = |sum: &Sum| if has(sum) { stacked.next() } else { carried.next() };
    let all: Option<Vec<_>> = sums.iter().map(of).collect();
    all.ok_or_else(|| OpError::new("internal error: a loop leaves too little"))
}

//! One processor's values cut into blocks, in the order in which they are gone through.

use super::parts::{Label, Part, Parts, Side};
use crate::room::*;
use mesh_core::lower::{Local, LocalPiece};
use mesh_core::program::{Offset, Scalar};

/// A dim in blocks of equal size; the last may reach beyond the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) whole: Dimension,
    pub(super) blocks: Dimension,
    pub(super) rows: Dimension,
}

impl Cut {
    /// Into as few blocks of at most so many rows as can be, which are then as even as can be.
    pub(super) fn new(whole: Dimension, most: usize, taken: &[DimName]) -> Self {
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
    /// Where the memory goes round: whose block of it, of all that share it. Blocks of the memory come
    /// before it then, and all else after it.
    pub(super) turn: Option<Dimension>,
}

impl Frame {
    /// Of the dims of queries but for the one that is summed.
    pub(super) fn new(
        rows: &Shape,
        [length, memory]: [Dimension; 2],
        most: [usize; 2],
        first: Side,
        turn: Option<Dimension>,
    ) -> Self {
        let taken: Vec<_> = rows.names().chain([memory.name]).collect();
        Self {
            outer: rows.iter().filter(|d| d.name != length.name).collect(),
            queries: Cut::new(length, most[0], &taken),
            memory: Cut::new(memory, most[1], &taken),
            first,
            turn,
        }
    }

    /// Dims gone through one position at a time.
    fn single(&self) -> impl Iterator<Item = Dimension> + '_ {
        self.turn.into_iter().chain(self.outer.iter().copied())
    }

    /// All dims in the order in which they are gone through.
    fn order(&self) -> Vec<Dimension> {
        let blocks = self.cuts().map(|cut| cut.blocks);
        match self.turn {
            None => self.outer.iter().copied().chain(blocks).collect(),
            Some(_) => {
                let first = std::iter::once(self.memory.blocks);
                first.chain(self.single()).chain([self.queries.blocks]).collect()
            }
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
        let has = |name| shape.contains(name);
        let of_blocks = |dim: &Dimension| {
            let cut = self.cuts().into_iter().find(|cut| cut.blocks == *dim);
            has(cut.map_or(dim.name, |cut| cut.whole.name))
        };
        let order = self.order().into_iter().filter(of_blocks);
        let cuts = [self.queries, self.memory].into_iter();
        let rows = cuts.filter(|cut| has(cut.whole.name)).map(|cut| cut.rows);
        Ok(Shape::new(order.chain(rows).chain(self.rest(shape)))?)
    }

    /// Dims that are not gone through.
    fn rest<'s>(&'s self, shape: &'s Shape) -> impl Iterator<Item = Dimension> + 's {
        let known = |d: &Dimension| {
            let mut cuts = [self.queries, self.memory].into_iter();
            self.single().any(|o| o.name == d.name) || cuts.any(|c| c.whole.name == d.name)
        };
        shape.iter().filter(move |d| !known(d))
    }

    /// Dims in order, with those that are cut whole and as long as their blocks, or as blocks.
    fn flat(&self, shape: &Shape, cut: impl Fn(Cut) -> Vec<Dimension>) -> Result<Shape, OpError> {
        let outer = self.single().filter(|d| shape.contains(d.name));
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

    /// A value of the memory in blocks of it, all else as it was: without a copy if dims before the memory's
    /// have one position.
    pub(super) fn by_blocks(&self, cx: &mut LocalCx<'_, '_>, x: &Local) -> Result<Local, OpError> {
        let (cut, shape) = (self.memory, x.shape().clone());
        let padded = |d: Dimension| if d == cut.whole { cut.padded() } else { d };
        let long = Shape::new(shape.iter().map(padded))?;
        let mut x = x.clone();
        if long != shape {
            let zero = Scalar::new(cx.dtype(&x), 0.0);
            x = cx.assemble(&[LocalPiece::whole(x)], zero, &long)?;
        }
        let rest = long.without(&[cut.whole.name]);
        let before = long.iter().take_while(|d| d.name != cut.whole.name);
        if before.map(|d| d.size).product::<usize>() != 1 {
            let order: Vec<_> = std::iter::once(cut.whole.name).chain(rest.names()).collect();
            x = cx.transpose(&x, &order)?;
        }
        cx.reshape(&x, &Shape::new([cut.blocks, cut.rows].into_iter().chain(&rest))?)
    }

    /// One of these blocks as it is gone through.
    pub(super) fn of_block(&self, cx: &mut LocalCx<'_, '_>, x: &Local) -> Result<Local, OpError> {
        let shape = x.shape().clone();
        let outer = self.outer.iter().map(|d| d.name).filter(|name| shape.contains(*name));
        let first: Vec<_> = outer.chain([self.memory.rows.name]).collect();
        let rest = shape.names().filter(|name| !first.contains(name));
        cx.transpose(x, &first.iter().copied().chain(rest).collect::<Vec<_>>())
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
        let least = (Part::Least(label, side), ReduceKind::Min, f64::from(i32::MAX));
        let greatest = (Part::Greatest(label, side), ReduceKind::Max, f64::from(i32::MIN));
        for (part, kind, fill) in [least, greatest] {
            let bound = self.bound(cx, side, kind, fill, x)?;
            parts.push(part, bound);
        }
        Ok(())
    }

    /// The fold of each block of a side's numbers; `fill` beyond the ends.
    pub(super) fn bound(
        &self,
        cx: &mut LocalCx<'_, '_>,
        side: Side,
        kind: ReduceKind,
        fill: f64,
        x: &Local,
    ) -> Result<Local, OpError> {
        let cut = if side == Side::Queries { self.queries } else { self.memory };
        let numbers = self.arranged(cx, x, fill)?;
        if !numbers.shape().contains(cut.rows.name) {
            return Ok(numbers);
        }
        let onto = numbers.shape().without(&[cut.rows.name]);
        cx.reduce(kind, &numbers, &onto)
    }
}

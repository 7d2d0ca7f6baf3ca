//! Keys and values that go round: each processor works on those of all processors, one after the other.
//!
//! Each sends what it has to the processor before it, so that it works on its own block of the memory, then on
//! that of the processor after it, and so on (Liu, Zaharia, Abbeel 2023, arXiv 2310.01889). The next block is
//! under way while this one is worked on. What is summed for a block of the memory, as the gradients of keys and
//! values are, goes round with it, and is back where it belongs at the end. A block is a part of what a processor has,
//! so that little more than that is held.

use super::frame::Frame;
use super::nest::Sum;
use super::parts::{Part, Parts};
use crate::room::*;
use mesh_core::lower::{Local, LocalLeft, LocalPiece};
use mesh_core::program::{Offset, Scalar};
use std::ops::Range;

/// What goes round.
pub(super) struct Ring<'a> {
    pub(super) frame: &'a Frame,
    /// The dim whose slices the processors have.
    pub(super) along: DimName,
    /// Whose block it is.
    pub(super) turn: Dimension,
    /// Which of the results go round with keys and values.
    pub(super) travelling: Range<usize>,
}

type Inner<'f> =
    dyn FnMut(&mut LocalCx<'_, '_>, &Parts, Vec<Option<Local>>) -> Result<Vec<Local>, OpError> + 'f;

/// What a processor has after some turns.
struct State {
    /// Keys and values.
    block: Vec<Local>,
    /// Results that have no dim of turns, in order.
    handed: Vec<Local>,
}

impl Ring<'_> {
    /// Runs a body for the block of each processor. As [`nest`](super::nest::nest) along the dim of turns, of
    /// parts of which keys and values are this processor's block.
    pub(super) fn round(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        sums: &[Sum],
        so_far: Vec<Option<Local>>,
        inner: &mut Inner<'_>,
    ) -> Result<Vec<Local>, OpError> {
        let (moving, staying) =
            parts.clone().divided(|part| matches!(part, Part::Key | Part::Value));
        let (turned, same) = staying.by(self.turn.name);
        let mut handed = Vec::new();
        for (sum, so_far) in sums.iter().zip(so_far).filter(|(sum, _)| !self.turns(sum)) {
            let zeros = || cx.fill(Scalar::new(sum.dtype, 0.0), &sum.shape);
            handed.push(so_far.unwrap_or_else(zeros));
        }
        let block = moving.values();
        let (blocks, before) = (block.len(), self.turn.resized(self.turn.size - 1));
        let carried: Vec<_> = block.into_iter().chain(handed).collect();
        // All turns but the last, after which nobody needs another block.
        let most = self.cut(cx, &turned, 0, before.size)?.and(same.clone());
        let left = most.each(cx, before, &carried, &[], |cx, parts, mut given| {
            let handed = given.carried.split_off(blocks);
            let next = given.carried.iter().map(|x| self.passed(cx, x));
            let next = next.collect::<Result<Vec<_>, _>>()?;
            let state = State { block: given.carried, handed };
            let (handed, stacked) = self.one(cx, parts, &moving, state, sums, inner)?;
            Ok(LocalLeft { carried: next.into_iter().chain(handed).collect(), stacked })
        })?;
        let LocalLeft { mut carried, stacked } = left;
        let handed = carried.split_off(blocks);
        let mut parts = same;
        for (part, x) in self.cut(cx, &turned, before.size, 1)?.pairs() {
            let one = x.shape().without(&[self.turn.name]);
            let x = cx.reshape(&x, &one)?;
            parts.push(part, x);
        }
        let state = State { block: carried, handed };
        let (handed, last) = self.one(cx, parts, &moving, state, sums, inner)?;
        let (mut handed, mut stacks) = (handed.into_iter(), stacked.into_iter().zip(last));
        let mut made = Vec::new();
        for sum in sums {
            let one = match self.turns(sum) {
                true => stacks.next().map(|stacks| self.joined(cx, stacks, sum)).transpose()?,
                false => handed.next(),
            };
            made.push(one.ok_or_else(|| OpError::new("internal error: a turn leaves too little"))?);
        }
        Ok(made)
    }

    /// Whether a result has a slice for each turn.
    fn turns(&self, sum: &Sum) -> bool {
        sum.shape.contains(self.turn.name)
    }

    /// To the processor before this one, of that after it.
    fn passed(&self, cx: &mut LocalCx<'_, '_>, x: &Local) -> Result<Local, OpError> {
        cx.permute(self.along, -1, true, x)
    }

    /// What a turn leaves: what is handed on, and slices.
    fn one(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: Parts,
        moving: &Parts,
        state: State,
        sums: &[Sum],
        inner: &mut Inner<'_>,
    ) -> Result<(Vec<Local>, Vec<Local>), OpError> {
        let block = state.block.iter().map(|x| self.frame.of_block(cx, x));
        let parts = parts.and(moving.of(block.collect::<Result<Vec<_>, _>>()?));
        let mut handed = state.handed.into_iter();
        let so_far = sums.iter().map(|sum| if self.turns(sum) { None } else { handed.next() });
        let so_far = so_far.collect();
        let made = inner(cx, &parts, so_far)?;
        let (mut handed, mut slices) = (Vec::new(), Vec::new());
        for (i, (sum, one)) in sums.iter().zip(made).enumerate() {
            match (self.turns(sum), self.travelling.contains(&i)) {
                (true, _) => slices.push(one),
                (false, true) => handed.push(self.passed(cx, &one)?),
                (false, false) => handed.push(one),
            }
        }
        Ok((handed, slices))
    }

    /// Some of the turns of parts.
    fn cut(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        begin: usize,
        size: usize,
    ) -> Result<Parts, OpError> {
        let mut some = Parts::default();
        for (part, x) in parts.clone().pairs() {
            let x = cx.cut(&x, self.turn.name, Offset::fixed(begin), size)?;
            some.push(part, x);
        }
        Ok(some)
    }

    /// The slices of all turns from those of all but the last, and that of the last.
    fn joined(
        &self,
        cx: &mut LocalCx<'_, '_>,
        (stacked, last): (Local, Local),
        sum: &Sum,
    ) -> Result<Local, OpError> {
        let one = Shape::new(std::iter::once(self.turn.resized(1)).chain(last.shape()))?;
        let last = cx.reshape(&last, &one)?;
        let shape = Shape::new(
            std::iter::once(self.turn).chain(sum.shape.iter().filter(|d| *d != self.turn)),
        )?;
        let at = vec![(self.turn.name, self.turn.size - 1)];
        let last = LocalPiece { at, ..LocalPiece::whole(last) };
        let zero = Scalar::new(sum.dtype, 0.0);
        cx.assemble(&[LocalPiece::whole(stacked), last], zero, &shape)
    }
}

//! From products of queries and keys to scores, in one block.

use super::frame::Frame;
use super::parts::{Label, Part, Parts, Side, Terms};
use super::{Attention, Dims};
use crate::room::*;
use mesh_core::lower::Local;
use mesh_core::program::{Expr, Offset};

/// What is done where blocks meet: given what is carried, and whether the rules are to be looked at, it gives
/// what is carried on.
type Body<'a> =
    &'a dyn Fn(&mut LocalCx<'_, '_>, &Parts, &[Local], bool) -> Result<Vec<Local>, OpError>;

impl Attention {
    /// The inputs as they are given, in blocks.
    pub(super) fn parts(
        &self,
        cx: &mut LocalCx<'_, '_>,
        frame: &Frame,
        given: &[Local],
    ) -> Result<Parts, OpError> {
        let mut parts = Parts::default();
        for (part, input) in self.inputs().into_iter().zip(given) {
            let goes_round = frame.turn.is_some() && matches!(part, Part::Key | Part::Value);
            let value = match goes_round {
                true => frame.by_blocks(cx, input)?,
                false => frame.arranged(cx, input, 0.0)?,
            };
            parts.push(part, value);
            if let Part::Each(label, side) = part {
                frame.bounds(cx, &mut parts, (label, side), input)?;
            }
        }
        if frame.memory.real().is_some() {
            let long =
                frame.memory.whole.resized(frame.memory.blocks.size * frame.memory.rows.size);
            let index = cx.counted(long, Offset::default(), long.size)?;
            let blocks = Shape::new([frame.memory.blocks, frame.memory.rows])?;
            let index = cx.reshape(&index, &blocks)?;
            let greatest =
                cx.reduce(ReduceKind::Max, &index, &Shape::new([frame.memory.blocks])?)?;
            parts.push(Part::Each(Label::Index, Side::Memory), index);
            parts.push(Part::Greatest(Label::Index, Side::Memory), greatest);
        }
        if self.dropped.is_some() {
            self.begins(cx, frame, &mut parts)?;
        }
        Ok(parts)
    }

    /// The frame of what is given.
    pub(super) fn frame(
        &self,
        given: &[Local],
        first: Side,
        turn: Option<Dimension>,
    ) -> Result<(Dims, Frame), OpError> {
        let [q, k, v, ..] = given else { return Err(OpError::arity("attention", 3, given.len())) };
        let dims = self.dims([q.shape(), k.shape(), v.shape()])?;
        let most = self.blocks.of(self.rules, dims.memory.size, turn.is_some());
        let (cut, most) = ([dims.length, dims.memory], [most.queries, most.memory]);
        let frame = Frame::new(&dims.rows, cut, most, first, turn);
        Ok((dims, frame))
    }

    /// Scores from products, and what keeps them within the cap: `tanh(product / cap)`.
    pub(super) fn score(
        &self,
        parts: &Parts,
        product: Expr,
        terms: &mut Terms,
    ) -> (Expr, Option<Expr>) {
        let bent = self.cap.map(|cap| (product.clone() * (1.0 / cap.value())).tanh());
        let mut score = match (&bent, self.cap) {
            (Some(bent), Some(cap)) => bent.clone() * cap.value(),
            _ => product,
        };
        if let Some(bias) = parts.get(Part::Bias) {
            score = score + terms.of(bias);
        }
        if let Some(allowed) = parts.get(Part::Allowed) {
            score = terms.of(allowed).select(score, f64::NEG_INFINITY);
        }
        (score, bent)
    }

    /// Runs a body on what is carried where the rules let blocks meet: told whether all meet, so that
    /// nobody need look at the rules again.
    pub(super) fn guarded(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        frame: &Frame,
        carried: Vec<Local>,
        body: Body<'_>,
    ) -> Result<Vec<Local>, OpError> {
        let mut terms = Terms::default();
        let meeting = self.rules.blocks(parts, frame.memory.real(), &mut terms)?;
        let Some(all) = meeting.all else { return body(cx, parts, &carried, false) };
        let and = |rule: Expr| meeting.any.clone().map_or(rule.clone(), |any| any.and(rule));
        let mut carried = carried;
        for (rule, masked) in [(all.clone(), false), (!all, true)] {
            let condition = terms.map(cx, &Shape::scalar(), &and(rule), DType::Bool)?;
            carried = parts.guard(cx, &condition, &carried, |cx, parts, carried| {
                body(cx, parts, carried, masked)
            })?;
        }
        Ok(carried)
    }
}

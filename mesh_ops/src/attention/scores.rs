//! From products of queries and keys to scores, in one block.

use super::parts::{Frame, Label, Part, Parts, Side, Terms};
use super::{Attention, Dims};
use crate::room::*;
use mesh_core::lower::Local;
use mesh_core::program::{Expr, Offset};

/// What is done where blocks meet: given what is carried, and whether the rules are to be looked at, it gives
/// what is carried on.
type Body<'a> =
    &'a dyn Fn(&mut LocalCx<'_, '_>, &Parts, &[Local], bool) -> Result<Vec<Local>, OpError>;

impl Attention {
    /// What this processor has of the inputs, in blocks.
    pub(super) fn parts(&self, cx: &mut LocalCx<'_, '_>, frame: &Frame) -> Result<Parts, OpError> {
        let mut parts = Parts::default();
        for (i, part) in self.inputs().into_iter().enumerate() {
            let input = cx.input(i)?;
            parts.push(part, frame.arranged(cx, &input, 0.0)?);
            if let Part::Each(label, side) = part {
                frame.bounds(cx, &mut parts, (label, side), &input)?;
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
        Ok(parts)
    }

    /// The frame of this processor's slices.
    pub(super) fn frame(
        &self,
        cx: &LocalCx<'_, '_>,
        first: Side,
    ) -> Result<(Dims, Frame), OpError> {
        let [q, k, v] = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
        let dims = self.dims([q.shape(), k.shape(), v.shape()])?;
        let most = [self.blocks.queries, self.blocks.memory];
        let frame = Frame::new(&dims.rows, [dims.length, dims.memory], most, first);
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

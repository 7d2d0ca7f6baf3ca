//! One processor's queries, block by block.

use super::Attention;
use super::parts::{Frame, Part, Parts, Side, Sum, Terms, nest};
use crate::room::*;
use mesh_core::lower::{Local, LocalLeft};
use mesh_core::program::{Expr, Scalar};

/// What there is of a block of queries: greatest scores, sums of exponentials, weighted values.
type Running = [Local; 3];

pub(super) fn run(op: &Attention, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
    let (dims, frame) = op.frame(cx, Side::Queries)?;
    let dtype = cx.dtype(&cx.input(0)?).reduction();
    let parts = op.parts(cx, &frame)?;
    let output = Shape::new(dims.rows.iter().chain([dims.value]))?;
    let whole = [&output, &dims.rows];
    let sum = |shape: &&Shape| Ok(Sum { shape: frame.in_blocks(shape)?, dtype });
    let sums = whole.iter().map(sum).collect::<Result<Vec<_>, OpError>>()?;
    let over: Vec<_> = frame.outer.iter().copied().chain([frame.queries.blocks]).collect();
    let block = Block { op, frame: &frame, value: dims.value, dtype };
    let made = nest(cx, &over, &parts, &sums, vec![None, None], &mut |cx, parts, _| {
        block.queries(cx, parts)
    })?;
    for (i, (blocks, shape)) in made.iter().zip(whole).enumerate() {
        let restored = frame.restored(cx, blocks, shape)?;
        let restored = cx.cast(&restored, cx.output_dtype(i))?;
        cx.finish(i, restored)?;
    }
    Ok(())
}

struct Block<'a> {
    op: &'a Attention,
    frame: &'a Frame,
    value: Dimension,
    /// In which scores and sums are computed.
    dtype: DType,
}

impl Block<'_> {
    /// Outputs and log-sum-exps of a block of queries.
    fn queries(&self, cx: &mut LocalCx<'_, '_>, parts: &Parts) -> Result<Vec<Local>, OpError> {
        let rows = Shape::new([self.frame.queries.rows])?;
        let output = Shape::new([self.frame.queries.rows, self.value])?;
        let fill = |number| Scalar::new(self.dtype, number);
        let lowest = cx.fill(fill(f64::NEG_INFINITY), &rows);
        let first = [lowest, cx.fill(fill(0.0), &rows), cx.fill(fill(0.0), &output)];
        let left = parts.each(cx, self.frame.memory.blocks, &first, &[], |cx, parts, given| {
            let body = |cx: &mut LocalCx<'_, '_>, parts: &Parts, running: &[Local], masked| {
                let running = running_of(running)?;
                Ok(self.memory(cx, parts, running, masked)?.to_vec())
            };
            let carried = self.op.guarded(cx, &parts, self.frame, given.carried, &body)?;
            Ok(LocalLeft { carried, stacked: Vec::new() })
        })?;
        let running = running_of(&left.carried)?;
        let (x, sum) = (Expr::input(0), Expr::input(1));
        let none = sum.clone().equal(0.0);
        let mean = none.clone().select(0.0, x.clone() / sum.clone());
        let [greatest, sums, weighted] = running;
        let mean = cx.map_over(&output, &[weighted, sums.clone()], &mean, self.dtype)?;
        let log = none.select(f64::NEG_INFINITY, x + sum.log());
        let log = cx.map_over(&rows, &[greatest, sums], &log, self.dtype)?;
        Ok(vec![mean, log])
    }

    /// With one more block of the memory.
    fn memory(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        [greatest, sums, weighted]: Running,
        masked: bool,
    ) -> Result<Running, OpError> {
        let Frame { queries, memory, .. } = self.frame;
        let (rows, scores) = (greatest.shape().clone(), Shape::new([queries.rows, memory.rows])?);
        let (q, k) = (parts.want(Part::Query)?, parts.want(Part::Key)?);
        let product = cx.contract(q, k, &scores, self.dtype)?;
        let mut terms = Terms::default();
        let product = terms.of(&product);
        let (mut score, _) = self.op.score(parts, product, &mut terms);
        if masked && let Some(rule) = self.op.rules.each(parts, memory.real(), &mut terms)? {
            score = rule.select(score, f64::NEG_INFINITY);
        }
        let score = terms.map(cx, &scores, &score, self.dtype)?;
        let top = cx.reduce(ReduceKind::Max, &score, &rows)?;
        let [x, y] = [0, 1].map(Expr::input);
        let top = cx.map(&[greatest.clone(), top], &x.clone().max(y.clone()), self.dtype)?;
        // What nothing has been seen of is -inf: its exponentials are 0, not NaN.
        let seen = x.clone().equal(f64::NEG_INFINITY).select(0.0, x.clone());
        let shift = cx.map(std::slice::from_ref(&top), &seen, self.dtype)?;
        let exp = (x.clone() - y.clone()).exp();
        let weights = cx.map_over(&scores, &[score, shift.clone()], &exp, self.dtype)?;
        let scale = cx.map(&[greatest, shift], &exp, self.dtype)?;
        let sum = cx.reduce(ReduceKind::Sum, &weights, &rows)?;
        let rescaled = x * Expr::input(2) + y;
        let sums = cx.map(&[sums, sum, scale.clone()], &rescaled, self.dtype)?;
        let onto = weighted.shape().clone();
        let more = cx.contract(&weights, parts.want(Part::Value)?, &onto, self.dtype)?;
        let weighted = cx.map_over(&onto, &[weighted, more, scale], &rescaled, self.dtype)?;
        Ok([top, sums, weighted])
    }
}

fn running_of(list: &[Local]) -> Result<Running, OpError> {
    let lost = |_| OpError::new("internal error: attention carries three values");
    list.to_vec().try_into().map_err(lost)
}

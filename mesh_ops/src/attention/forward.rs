//! One processor's queries, block by block.

use super::Attention;
use super::frame::Frame;
use super::nest::{Sum, nest};
use super::parts::{Part, Parts, Side, Terms};
use super::ring::Ring;
use crate::room::*;
use mesh_core::lower::{Local, LocalLeft};
use mesh_core::program::{Expr, Scalar};

/// What there is of a block of queries: greatest scores, sums of exponentials, weighted values.
type Running = [Local; 3];

pub(super) fn run(op: &Attention, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
    let turn = op.turn(cx)?;
    let given = op.given(cx, false, turn)?;
    let (dims, frame) = op.frame(&given, Side::Queries, turn)?;
    let dtype = cx.dtype(&cx.input(0)?).reduction();
    let parts = op.parts(cx, &frame, &given)?;
    let output = Shape::new(dims.rows.iter().chain([dims.value]))?;
    let block = Block { op, frame: &frame, value: dims.value, dtype };
    let whole = [&output, &dims.rows];
    let made = match turn {
        Some(turn) => block.around(cx, &parts, whole, turn)?,
        None => block.here(cx, &parts, whole)?,
    };
    let restored = |cx: &mut LocalCx<'_, '_>, i: usize| frame.restored(cx, &made[i], whole[i]);
    let parts = [restored(cx, 0)?, restored(cx, 1)?];
    for (i, whole) in op.merged(cx, parts)?.into_iter().enumerate() {
        let whole = cx.cast(&whole, cx.output_dtype(i))?;
        cx.finish(i, whole)?;
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
    /// Outputs and log-sum-exps, in blocks: each block of queries meets all of the memory.
    fn here(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        whole: [&Shape; 2],
    ) -> Result<Vec<Local>, OpError> {
        let frame = self.frame;
        let sum = |shape: &Shape| Ok(Sum { shape: frame.in_blocks(shape)?, dtype: self.dtype });
        let sums = whole.into_iter().map(sum).collect::<Result<Vec<_>, OpError>>()?;
        let over: Vec<_> = frame.outer.iter().copied().chain([frame.queries.blocks]).collect();
        nest(cx, &over, parts, &sums, vec![None, None], &mut |cx, parts, _| self.queries(cx, parts))
    }

    /// The same where the memory goes round: each of its blocks meets all queries, whose sums are kept.
    fn around(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        [output, rows]: [&Shape; 2],
        turn: Dimension,
    ) -> Result<Vec<Local>, OpError> {
        let (frame, along) = (self.frame, self.op.length);
        let shape = |shape: &Shape| frame.in_blocks(shape);
        let [rows, output] = [shape(rows)?, shape(output)?];
        let sums = [&rows, &rows, &output].map(|s| Sum { shape: s.clone(), dtype: self.dtype });
        let begun = self.begun(cx, &rows, &output).map(Some).to_vec();
        let ring = Ring { frame, along, turn, travelling: 0..0 };
        let over: Vec<_> = frame.outer.iter().copied().chain([frame.queries.blocks]).collect();
        let mut blocks = |cx: &mut LocalCx<'_, '_>, parts: &Parts, so_far: Vec<Option<Local>>| {
            let running = so_far.into_iter().flatten().collect();
            self.met(cx, parts, running)
        };
        let mut one = |cx: &mut LocalCx<'_, '_>, parts: &Parts, so_far: Vec<Option<Local>>| {
            nest(cx, &over, parts, &sums, so_far, &mut blocks)
        };
        let left =
            nest(cx, &[frame.memory.blocks], parts, &sums, begun, &mut |cx, parts, so_far| {
                ring.round(cx, parts, &sums, so_far, &mut one)
            })?;
        self.finished(cx, running_of(&left)?)
    }

    /// What there is of queries that have seen nothing.
    fn begun(&self, cx: &mut LocalCx<'_, '_>, rows: &Shape, output: &Shape) -> Running {
        let fill = |number| Scalar::new(self.dtype, number);
        let lowest = cx.fill(fill(f64::NEG_INFINITY), rows);
        [lowest, cx.fill(fill(0.0), rows), cx.fill(fill(0.0), output)]
    }

    /// Outputs and log-sum-exps of queries that have seen everything.
    fn finished(
        &self,
        cx: &mut LocalCx<'_, '_>,
        [greatest, sums, weighted]: Running,
    ) -> Result<Vec<Local>, OpError> {
        let (rows, output) = (greatest.shape().clone(), weighted.shape().clone());
        let (x, sum) = (Expr::input(0), Expr::input(1));
        let none = sum.clone().equal(0.0);
        let mean = none.clone().select(0.0, x.clone() / sum.clone());
        let mean = cx.map_over(&output, &[weighted, sums.clone()], &mean, self.dtype)?;
        let log = none.select(f64::NEG_INFINITY, x + sum.log());
        let log = cx.map_over(&rows, &[greatest, sums], &log, self.dtype)?;
        Ok(vec![mean, log])
    }

    /// Outputs and log-sum-exps of a block of queries.
    fn queries(&self, cx: &mut LocalCx<'_, '_>, parts: &Parts) -> Result<Vec<Local>, OpError> {
        let rows = Shape::new([self.frame.queries.rows])?;
        let output = Shape::new([self.frame.queries.rows, self.value])?;
        let first = self.begun(cx, &rows, &output);
        let left = parts.each(cx, self.frame.memory.blocks, &first, &[], |cx, parts, given| {
            let carried = self.met(cx, &parts, given.carried)?;
            Ok(LocalLeft { carried, stacked: Vec::new() })
        })?;
        self.finished(cx, running_of(&left.carried)?)
    }

    /// What there is of a block of queries with one more block of the memory, if they may meet.
    fn met(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        running: Vec<Local>,
    ) -> Result<Vec<Local>, OpError> {
        let body = |cx: &mut LocalCx<'_, '_>, parts: &Parts, running: &[Local], masked| {
            Ok(self.memory(cx, parts, running_of(running)?, masked)?.to_vec())
        };
        self.op.guarded(cx, parts, self.frame, running, &body)
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
        // What is dropped is in the sum all the same.
        let mut weights = weights;
        if let Some(drops) = self.op.drops(cx, parts, self.frame)? {
            let mut terms = Terms::default();
            let weight = terms.of(&weights);
            let kept = drops.kept(weight, &mut terms);
            weights = terms.map(cx, &scores, &kept, self.dtype)?;
        }
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

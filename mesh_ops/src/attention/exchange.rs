//! What the processors that share a dim give each other before blocks are gone through, and after.

use super::Attention;
use super::parts::Part;
use crate::room::*;
use mesh_core::lower::{Local, LocalPiece};
use mesh_core::program::{Expr, Offset, Scalar};

impl Attention {
    /// The inputs as blocks are made of them: whole along dims that are summed over, also those of values
    /// if `values`; keys, values and all that is said of the memory with the memory's dim, and with
    /// `turn` where the memory goes round.
    pub(super) fn given(
        &self,
        cx: &mut LocalCx<'_, '_>,
        values: bool,
        turn: Option<Dimension>,
    ) -> Result<Vec<Local>, OpError> {
        let mut all = Vec::new();
        for (i, part) in self.inputs().into_iter().enumerate() {
            let mut x = cx.input(i)?;
            match part {
                Part::Query => x = whole(cx, x, self.key)?,
                Part::Key => x = self.at_memory(cx, x, Some(self.key))?,
                Part::Value => x = self.at_memory(cx, x, values.then_some(self.value))?,
                _ if self.to_itself => {
                    x = whole(cx, x, self.memory)?;
                    if let Some(turn) = turn {
                        x = self.in_turns(cx, &x, turn)?;
                    }
                }
                _ => {}
            }
            all.push(x);
        }
        Ok(all)
    }

    /// Keys or values with the memory's dim, whole along one of their dims.
    fn at_memory(
        &self,
        cx: &mut LocalCx<'_, '_>,
        x: Local,
        along: Option<DimName>,
    ) -> Result<Local, OpError> {
        let x = along.map_or(Ok(x.clone()), |along| whole(cx, x, along))?;
        self.renamed(cx, &x, [self.length, self.memory])
    }

    /// Keys, values or their gradients with one of the two dims in place of the other, if they are of the
    /// queries' own tensor.
    pub(super) fn renamed(
        &self,
        cx: &LocalCx<'_, '_>,
        x: &Local,
        [from, to]: [DimName; 2],
    ) -> Result<Local, OpError> {
        if !self.to_itself {
            return Ok(x.clone());
        }
        let renamed = |d: Dimension| if d.name == from { d.renamed(to.as_str()) } else { d };
        cx.renamed(x, Shape::new(x.shape().iter().map(renamed))?)
    }

    /// Where keys and values go round, whose they are: of this processor first, then of those that follow
    /// it.
    pub(super) fn turn(&self, cx: &LocalCx<'_, '_>) -> Result<Option<Dimension>, OpError> {
        let [whole, own] = [&cx.signature().inputs[1].shape, cx.input(1)?.shape()]
            .map(|shape| shape.get(self.length).map_or(1, |d| d.size));
        let taken: Vec<_> = cx.signature().inputs.iter().flat_map(|ty| ty.shape.names()).collect();
        let name = unlike(DimName::new("turn"), &taken);
        Ok((own < whole).then(|| Dimension::new(name.as_str(), whole / own)))
    }

    /// What is said of all positions of the memory, with a dim for whose positions they are, this
    /// processor's first.
    pub(super) fn in_turns(
        &self,
        cx: &mut LocalCx<'_, '_>,
        x: &Local,
        turn: Dimension,
    ) -> Result<Local, OpError> {
        let Some(all) = x.shape().get(self.memory) else { return Ok(x.clone()) };
        let own = all.resized(all.size / turn.size);
        let begin = cx.begin(self.length, own.size)?;
        let x = rotated(cx, x, all, begin)?;
        let apart = |d: Dimension| if d == all { vec![turn, own] } else { vec![d] };
        cx.reshape(&x, &Shape::new(x.shape().iter().flat_map(apart))?)
    }

    /// The inverse of [`in_turns`](Self::in_turns).
    pub(super) fn in_place(
        &self,
        cx: &mut LocalCx<'_, '_>,
        x: &Local,
        turn: Dimension,
    ) -> Result<Local, OpError> {
        let Some(own) = x.shape().get(self.memory).filter(|_| x.shape().contains(turn.name)) else {
            return Ok(x.clone());
        };
        let all = own.resized(own.size * turn.size);
        let rest = x.shape().without(&[turn.name, own.name]);
        let order = [turn.name, own.name].into_iter().chain(rest.names()).collect::<Vec<_>>();
        let x = cx.transpose(x, &order)?;
        let x = cx.reshape(&x, &Shape::new(std::iter::once(all).chain(&rest))?)?;
        let mut begin = cx.begin(self.length, own.size)?;
        begin.base = all.size;
        begin.scale = -begin.scale;
        rotated(cx, &x, all, begin)
    }

    /// Outputs and log-sum-exps of the whole memory from those of each processor's part of it. Outputs
    /// are still to be summed.
    pub(super) fn merged(
        &self,
        cx: &mut LocalCx<'_, '_>,
        [mean, log]: [Local; 2],
    ) -> Result<[Local; 2], OpError> {
        if self.to_itself || cx.parts(self.memory)? == 1 {
            return Ok([mean, log]);
        }
        let (rows, dtype) = (log.shape().clone(), cx.dtype(&log));
        let one = Dimension::new(self.memory.as_str(), 1);
        let all = cx.reshape(&log, &Shape::new(std::iter::once(one).chain(&rows))?)?;
        let all = cx.all_gather(self.memory, &all)?;
        let greatest = cx.reduce(ReduceKind::Max, &all, &rows)?;
        let [x, y] = [0, 1].map(Expr::input);
        // Where nobody has seen anything: exp(-inf - 0).
        let seen = x.clone().equal(f64::NEG_INFINITY).select(0.0, x.clone());
        let shift = cx.map(&[greatest], &seen, dtype)?;
        let exp = (x.clone() - y.clone()).exp();
        let part = cx.map_over(&all.shape().clone(), &[all, shift.clone()], &exp, dtype)?;
        let sum = cx.reduce(ReduceKind::Sum, &part, &rows)?;
        let own = cx.map(&[log, shift.clone()], &exp, dtype)?;
        let nothing = y.clone().equal(0.0);
        let weighted = nothing.clone().select(0.0, x.clone() / y.clone());
        let weight = cx.map(&[own, sum.clone()], &weighted, dtype)?;
        let shape = mean.shape().clone();
        let mean = cx.map_over(&shape, &[mean, weight], &(x.clone() * y.clone()), dtype)?;
        let log = nothing.select(f64::NEG_INFINITY, x + y.log());
        let log = cx.map(&[shift, sum], &log, dtype)?;
        Ok([mean, log])
    }
}

/// All of a value along a dim that processors share.
pub(super) fn whole(cx: &mut LocalCx<'_, '_>, x: Local, dim: DimName) -> Result<Local, OpError> {
    let shared = x.shape().contains(dim) && cx.parts(dim)? > 1;
    if shared { cx.all_gather(dim, &x) } else { Ok(x) }
}

/// This processor's part of a value that is whole along a dim.
pub(super) fn own_part(cx: &mut LocalCx<'_, '_>, x: Local, onto: &Shape) -> Result<Local, OpError> {
    let mut x = x;
    for own in onto {
        if x.shape().get(own.name).is_some_and(|d| d.size != own.size) {
            let begin = cx.begin(own.name, own.size)?;
            x = cx.cut(&x, own.name, begin, own.size)?;
        }
    }
    Ok(x)
}

/// A value whose positions along a dim begin elsewhere; those before come last.
fn rotated(
    cx: &mut LocalCx<'_, '_>,
    x: &Local,
    dim: Dimension,
    begin: Offset,
) -> Result<Local, OpError> {
    let twice = |d: Dimension| if d == dim { d.resized(2 * d.size) } else { d };
    let twice = Shape::new(x.shape().iter().map(twice))?;
    let at = |at| LocalPiece { at: vec![(dim.name, at)], ..LocalPiece::whole(x.clone()) };
    let zero = Scalar::new(cx.dtype(x), 0.0);
    let twice = cx.assemble(&[at(0), at(dim.size)], zero, &twice)?;
    cx.cut(&twice, dim.name, begin, dim.size)
}

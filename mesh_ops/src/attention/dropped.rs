//! Dropout of weights, block by block: which weights count for nothing.
//!
//! The decision is that of [`dropout`](crate::random::dropout) of all weights: a number for each position of
//! [`scores`], of which a block draws its part, forward and backward. So blocks, layouts and turns of a ring
//! change nothing of it.

use super::Attention;
use super::frame::Frame;
use super::parts::{Part, Parts, Side, Terms};
use crate::room::*;
use mesh_core::lower::Local;
use mesh_core::program::{Expr, Generator, Offset, Scalar};

/// Which weights are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Dropped {
    /// Of the random numbers.
    pub(super) key: u64,
    /// The probability to be kept, of f64.
    pub(super) keep: Scalar,
    /// How many inputs are salts.
    pub(super) salts: usize,
}

impl Dropped {
    pub(super) fn parts(self) -> impl Iterator<Item = Part> {
        (0..self.salts).map(Part::Salt)
    }

    /// A number that stands where a weight has this noise: the weight's share of what it was.
    fn kept(self, number: Expr, noise: Expr) -> Expr {
        noise.less(self.keep.value()).select(number * (1.0 / self.keep.value()), 0.0)
    }
}

/// The dims of all scores in the order in which their random numbers are counted: those that queries and
/// keys share, those of queries alone, the memory's. `keys` has the memory's dim.
pub(crate) fn scores(queries: &Shape, keys: &Shape, key: DimName) -> Result<Shape, OpError> {
    let rows = || queries.iter().filter(|d| d.name != key);
    let shared = rows().filter(|d| keys.contains(d.name));
    let own = rows().filter(|d| !keys.contains(d.name));
    let memory = keys.iter().filter(|d| d.name != key && !queries.contains(d.name));
    Ok(Shape::new(shared.chain(own).chain(memory))?)
}

impl Attention {
    /// The dims of all scores of these queries and keys, whose random numbers are counted.
    pub(super) fn counted(&self, queries: &Shape, keys: &Shape) -> Result<Shape, OpError> {
        scores(queries, &self.at_memory_dim(keys)?, self.key)
    }

    /// Where blocks begin along each dim of all scores, as parts.
    pub(super) fn begins(
        &self,
        cx: &mut LocalCx<'_, '_>,
        frame: &Frame,
        parts: &mut Parts,
    ) -> Result<(), OpError> {
        let [q, k] = [0, 1].map(|i: usize| cx.signature().inputs[i].shape.clone());
        for (i, dim) in self.counted(&q, &k)?.iter().enumerate() {
            let begin = if dim.name == self.memory {
                let x = self.memory_positions(cx, frame, dim)?;
                frame.bound(cx, Side::Memory, ReduceKind::Min, f64::from(i32::MAX), &x)?
            } else {
                let x = cx.positions(dim)?;
                frame.bound(cx, Side::Queries, ReduceKind::Min, f64::from(i32::MAX), &x)?
            };
            parts.push(Part::Begin(i), begin);
        }
        Ok(())
    }

    /// Positions of the memory as this processor has it, or, where it goes round, as it comes by.
    fn memory_positions(
        &self,
        cx: &mut LocalCx<'_, '_>,
        frame: &Frame,
        whole: Dimension,
    ) -> Result<Local, OpError> {
        if !self.to_itself {
            return cx.positions(whole);
        }
        let all = cx.counted(whole, Offset::default(), whole.size)?;
        match frame.turn {
            Some(turn) => self.in_turns(cx, &all, turn),
            None => Ok(all),
        }
    }

    /// What makes of a block's weights, or of what they are multiplied with, what is left by dropout.
    pub(super) fn drops(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        frame: &Frame,
    ) -> Result<Option<Drops>, OpError> {
        let Some(dropped) = self.dropped else { return Ok(None) };
        let [q, k] = [0, 1].map(|i: usize| cx.signature().inputs[i].shape.clone());
        let whole = self.counted(&q, &k)?;
        let begin = whole.names().enumerate();
        let begin = begin.map(|(i, name)| Ok((name, parts.want(Part::Begin(i))?.clone())));
        let begin = begin.collect::<Result<Vec<_>, OpError>>()?;
        let salts = dropped.parts().map(|part| parts.want(part).cloned());
        let salts = salts.collect::<Result<Vec<_>, _>>()?;
        let block = [frame.queries, frame.memory].map(|cut| cut.whole.resized(cut.rows.size));
        let generator = Generator::Uniform { key: dropped.key, low: 0.0, high: 1.0 };
        let noise =
            cx.generate_part(generator, &salts, &whole, &begin, &Shape::new(block)?, DType::F32)?;
        let noise = cx.renamed(&noise, Shape::new([frame.queries.rows, frame.memory.rows])?)?;
        Ok(Some(Drops { dropped, noise }))
    }
}

/// What is dropped of a block's weights.
pub(super) struct Drops {
    dropped: Dropped,
    noise: Local,
}

impl Drops {
    /// A number for each weight, as it counts.
    pub(super) fn kept(&self, number: Expr, terms: &mut Terms) -> Expr {
        self.dropped.kept(number, terms.of(&self.noise))
    }
}

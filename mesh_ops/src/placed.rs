//! What slice, pad and concat do along a split dim: inputs placed in a result that is cut into as
//! many parts as they are, but elsewhere.
//!
//! A part of the result lies over parts of the inputs, most of which other processors have. Each of
//! those sends the positions that both share, and no others; what a processor has itself is not sent.
//! A processor may have to send to several others, and one may need several, but a permute gives each
//! processor one value. So there are rounds: in round `r` part `s` of an input goes to the part `t` of
//! the result for which `(s + t) mod rounds = r`. The parts that share positions with one part follow
//! each other, so if there are as many rounds as the most of these, no two meet in a round.

use crate::room::*;
use mesh_core::lower::{Local, LocalPiece};
use mesh_core::program::{Expr, Offset, Pairs, Scalar};
use mesh_core::split::Collective;
use std::ops::Range;

/// What is exchanged along the split dim.
pub(crate) const PIECES: &[Collective] = &[Collective::Permute];

/// Part of a value that one processor makes up from pieces of many: this output's slice, in which
/// position 0 of each input is position `at` of the global dim. What lies beyond the output is left
/// out, and what no input covers is zero. The inputs do not overlap.
pub(crate) fn placed(cx: &mut LocalCx<'_, '_>, dim: DimName, at: &[i64]) -> Result<Local, OpError> {
    let output = dim_of("placed", &cx.signature().outputs[0], dim)?;
    let parts = cx.parts(dim)?;
    let mut pieces = Pieces::new(cx, output)?;
    for (input, &at) in cx.inputs().iter().zip(at) {
        let size = input.shape().get(dim).map_or(1, |d| d.size);
        let overlap = Overlap { parts, input: size, output: output.size / parts, at };
        pieces.add(cx, input, &overlap)?;
    }
    pieces.joined(cx)
}

/// An input that is placed in a result: both are cut into `parts`.
#[derive(Clone, Copy, Debug)]
struct Overlap {
    parts: usize,
    /// Positions of a part of the input.
    input: usize,
    /// Positions of a part of the result.
    output: usize,
    /// The position of the result on which the input begins; below 0 if it begins before the result.
    at: i64,
}

impl Overlap {
    /// The positions of the result that part `from` of the input and part `to` of the result share.
    fn shared(&self, from: usize, to: usize) -> Range<i64> {
        let span = |part: usize, size: usize| (part * size) as i64..((part + 1) * size) as i64;
        let (input, output) = (span(from, self.input), span(to, self.output));
        (input.start + self.at).max(output.start)..(input.end + self.at).min(output.end)
    }

    /// The parts of the result that share positions with part `from` of the input.
    fn targets(&self, from: usize) -> Range<usize> {
        let size = self.output as i64;
        let begin = (from * self.input) as i64 + self.at;
        let end = begin + self.input as i64;
        let clamped = |part: i64| part.clamp(0, self.parts as i64) as usize;
        clamped(begin.div_euclid(size))..clamped((end - 1).div_euclid(size) + 1)
    }

    /// Every part of the input with each part of the result that it shares positions with.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.parts).flat_map(|from| self.targets(from).map(move |to| (from, to)))
    }

    /// See the module.
    fn rounds(&self) -> usize {
        let (mut sources, mut most) = (vec![0; self.parts], 1);
        for from in 0..self.parts {
            let targets = self.targets(from);
            most = most.max(targets.len());
            targets.for_each(|to| sources[to] += 1);
        }
        sources.into_iter().fold(most, usize::max)
    }

    /// What other processors receive in each round.
    fn sent(&self) -> Vec<Round> {
        let mut rounds = vec![Round::default(); self.rounds()];
        for (from, to) in self.pairs().filter(|(from, to)| from != to) {
            let (index, shared) = ((from + to) % rounds.len(), self.shared(from, to));
            let begin = (shared.start - self.at) as usize - from * self.input;
            let round = &mut rounds[index];
            round.size = round.size.max((shared.end - shared.start) as usize);
            round.begins.push(begin);
            round.pairs.push((from, to));
        }
        rounds
    }
}

/// What is sent in one round.
#[derive(Clone, Default, Debug)]
struct Round {
    /// Positions that each sends: as many as the largest piece has.
    size: usize,
    /// Each source with its target.
    pairs: Vec<(usize, usize)>,
    /// Where in the part of the source the piece of each pair begins.
    begins: Vec<usize>,
}

impl Round {
    /// Where all pieces begin, if that is one place and a piece of the round's size fits there.
    fn begin(&self, whole: usize) -> Option<usize> {
        let (&first, others) = self.begins.split_first()?;
        let alike = others.iter().all(|&begin| begin == first);
        (alike && first + self.size <= whole).then_some(first)
    }
}

/// The pieces that a processor has, one after another, and where in them it finds each position.
struct Pieces {
    /// The dim of the result.
    output: Dimension,
    /// That of the processor's positions, under a name of its own.
    own: Dimension,
    /// The processor's index along the dim.
    me: Local,
    /// The processor's positions in the result.
    positions: Local,
    list: Vec<LocalPiece>,
    /// How long they are together.
    size: usize,
    /// For each position where it lies in the pieces, as a function of the positions and of `me`.
    found: Expr,
}

impl Pieces {
    fn new(cx: &mut LocalCx<'_, '_>, output: Dimension) -> Result<Self, OpError> {
        let parts = cx.parts(output.name)?;
        let own = apart(&cx.output_shape(0), output.resized(output.size / parts), "placed");
        let begin = cx.begin(output.name, own.size)?;
        let positions = cx.counted(own, begin, output.size)?;
        let me = cx.begin(output.name, 1)?;
        let me = cx.counted(own.resized(1), me, parts)?;
        let me = cx.reshape(&me, &Shape::scalar())?;
        let (list, found) = (Vec::new(), Expr::number(-1.0));
        Ok(Self { output, own, me, positions, list, size: 0, found })
    }

    /// Adds what the processor has of an input and what it receives.
    fn add(
        &mut self,
        cx: &mut LocalCx<'_, '_>,
        input: &Local,
        overlap: &Overlap,
    ) -> Result<(), OpError> {
        let rounds = overlap.sent();
        let longest = rounds.iter().map(|round| round.size).max().unwrap_or(0);
        let (position, me) = (|| Expr::input(0), || Expr::input(1));
        let [parts, size, output] = [overlap.parts, overlap.input, overlap.output].map(number);
        let (at, count) = (overlap.at as f64, number(rounds.len()));
        // Position in the input, and the part that it lies in.
        let within = || position() - at;
        let from = || within() / size;
        let here = within() - me() * size + number(self.size);
        let first = (me() * output).max(from() * size + at);
        let sent = number(self.size + overlap.input);
        let there = (from() + me()).modulo(count) * number(longest) + position() - first + sent;
        let inside = within().greater_equal(0.0).and(within().less(size * parts));
        let found = from().equal(me()).select(here, there);
        self.found = inside.select(found, self.found.clone());
        self.push(input.clone(), self.size);
        let begin = self.size + overlap.input;
        for (index, round) in rounds.iter().enumerate().filter(|(_, round)| round.size > 0) {
            let piece = self.piece(cx, input, overlap, index, round)?;
            let pairs = Pairs::Listed(round.pairs.clone());
            let piece = cx.permute_pairs(self.output.name, pairs, &piece)?;
            self.push(piece, begin + index * longest);
        }
        self.size = begin + rounds.len() * longest;
        Ok(())
    }

    fn push(&mut self, input: Local, at: usize) {
        let at = vec![(self.output.name, at)];
        self.list.push(LocalPiece { at, ..LocalPiece::whole(input) });
    }

    /// What this processor sends in a round.
    fn piece(
        &self,
        cx: &mut LocalCx<'_, '_>,
        input: &Local,
        overlap: &Overlap,
        index: usize,
        round: &Round,
    ) -> Result<Local, OpError> {
        let dim = self.output.name;
        if let Some(begin) = round.begin(overlap.input) {
            let whole = round.size == overlap.input;
            return match whole {
                true => Ok(input.clone()),
                false => cx.cut(input, dim, Offset::fixed(begin), round.size),
            };
        }
        let own = self.own.resized(round.size);
        let rows = cx.counted(own, Offset::default(), round.size)?;
        let [size, output] = [overlap.input, overlap.output].map(number);
        let (at, rounds) = (overlap.at as f64, number(overlap.rounds()));
        let (row, me) = (Expr::input(0), || Expr::input(1));
        // Where this part begins in the result, the first part of the result that it meets, and the
        // one that it meets in this round.
        let begin = || me() * size + at;
        let first = || begin().max(0.0) / output;
        let to = first() + (number(index) - me() - first()).modulo(rounds);
        let rows = cx.map(
            &[rows, self.me.clone()],
            &((to * output).max(begin()) - begin() + row),
            DType::I32,
        )?;
        self.looked_up(cx, input, &rows, own)
    }

    /// `value` at the positions that `rows`, along `own`, says; zero where they are outside.
    fn looked_up(
        &self,
        cx: &mut LocalCx<'_, '_>,
        value: &Local,
        rows: &Local,
        own: Dimension,
    ) -> Result<Local, OpError> {
        let dim = self.output.name;
        let renamed = |new: Dimension| {
            let name = |d: Dimension| if d.name == dim { new } else { d };
            Shape::new(value.shape().iter().map(name))
        };
        let found = cx.gather(value, rows, dim, Offset::default(), &renamed(own)?)?;
        cx.renamed(&found, renamed(own.renamed(dim.as_str()))?)
    }

    /// This processor's part of the result.
    fn joined(self, cx: &mut LocalCx<'_, '_>) -> Result<Local, OpError> {
        let shape = cx.output_shape(0);
        let all = resized(&shape, self.output.resized(self.size))?;
        let zero = Scalar::new(cx.output_dtype(0), 0.0);
        let all = cx.assemble(&self.list, zero, &all)?;
        let rows = cx.map(&[self.positions.clone(), self.me.clone()], &self.found, DType::I32)?;
        self.looked_up(cx, &all, &rows, self.own)
    }
}

/// As a number of an expression; positions fit i32.
fn number(size: usize) -> f64 {
    size as f64
}

/// The shape with `dim` in the place of its dim of that name.
pub(crate) fn resized(shape: &Shape, dim: Dimension) -> Result<Shape, OpError> {
    Ok(Shape::new(shape.iter().map(|d| if d.name == dim.name { dim } else { d }))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every position of the result that another processor has is sent once, to the processor that needs
    /// it, and nobody sends or receives twice in a round: for all small overlaps.
    #[test]
    fn what_is_sent_is_what_others_have() {
        for parts in 1..=5 {
            for (input, output) in (1..=4).flat_map(|input| (1..=4).map(move |out| (input, out))) {
                let reach = (parts * input.max(output)) as i64;
                for at in -reach..=reach {
                    check(Overlap { parts, input, output, at });
                }
            }
        }
    }

    fn check(overlap: Overlap) {
        let Overlap { parts, input, output, at } = overlap;
        let mut needed = BTreeSet::new();
        for position in 0..(parts * input) as i64 {
            let to = position + at;
            if (0..(parts * output) as i64).contains(&to) {
                let [from, to] = [position / input as i64, to / output as i64];
                if from != to {
                    needed.insert((position, from as usize, to as usize));
                }
            }
        }
        let mut sent = BTreeSet::new();
        for round in overlap.sent() {
            let members = |one: fn(&(usize, usize)) -> usize| -> BTreeSet<_> {
                round.pairs.iter().map(one).collect()
            };
            let all = [members(|pair| pair.0), members(|pair| pair.1)];
            assert!(all.iter().all(|all| all.len() == round.pairs.len()), "{overlap:?}");
            for (&(from, to), &begin) in round.pairs.iter().zip(&round.begins) {
                let shared = overlap.shared(from, to);
                let size = (shared.end - shared.start) as usize;
                assert!(size <= round.size && begin + size <= input, "{overlap:?}");
                for i in begin..begin + size {
                    assert!(sent.insert(((from * input + i) as i64, from, to)), "{overlap:?}");
                }
            }
        }
        assert_eq!(sent, needed, "{overlap:?}");
    }
}

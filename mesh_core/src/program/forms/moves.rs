use super::cx::joined;
use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Padding, Spell, Tensor, Writer};
use crate::program::{Cost, Extents, Offset, Operand, Scalar, Value};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// Copies rectangles of the inputs, one piece of each, into the out; what no piece covers is `fill`.
///
/// Inputs, fill and out have one dtype; every label is below the rank. A piece lies inside the out, and
/// inside its input for every group index its offsets may meet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Move {
    /// The copies, in order: one per input.
    pub pieces: Vec<Piece>,
    /// Value of uncovered elements.
    pub fill: Scalar,
}

/// One rectangular copy of a [`Move`].
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// Where reading begins, per dim of the input.
    pub begin: Vec<Offset>,
    /// Where writing begins, per dim of the out.
    pub at: Extents,
    /// How much is written, per dim of the out.
    pub extents: Extents,
}

impl Piece {
    /// Whether it covers a value of these extents.
    fn covers(&self, extents: &[usize]) -> bool {
        self.at.iter().all(|&at| at == 0) && self.extents[..] == *extents
    }

    /// How much is read, per dim of the input.
    fn read<'a>(&'a self, input: &'a Operand) -> impl Iterator<Item = usize> + 'a {
        input.dims.iter().map(|&label| self.extents[usize::from(label)])
    }

    fn check(&self, step: &StepCx<'_>, i: usize) -> Legal {
        let Self { begin, at, extents } = self;
        let (input, value, out) = (&step.step.inputs[i], step.input(i), step.out(0));
        ensure!(extents.len() == out.extents.len(), "{} extents", extents.len());
        let at: Vec<_> = at.iter().map(|&at| Offset::fixed(at)).collect();
        step.inside(&at, extents, &out.extents).map_err(|p| format!("result: {p}"))?;
        let copied = Value::new(value.dtype, extents.iter().copied());
        Labels::new(&copied).below_rank("the input", input)?;
        let read: Extents = self.read(input).collect();
        step.inside(begin, &read, &value.extents).map_err(|p| format!("input: {p}"))
    }

    fn text(&self, step: &StepCx<'_>, i: usize) -> String {
        let mut text = step.labelled(i);
        if self.begin.iter().any(|offset| *offset != Offset::default()) {
            text += &format!(" from {}", step.offsets(&self.begin));
        }
        if !self.covers(&step.out(0).extents) {
            let (at, extents) = (self.at.as_slice(), self.extents.as_slice());
            text += &format!(" to {at:?} size {extents:?}");
        }
        text
    }
}

impl FormRules for Move {
    fn name(&self) -> &'static str {
        "move"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(self.pieces.len(), 1)?;
        let (out, value, dtype) = (step.step.outs[0], step.out(0), self.fill.dtype());
        ensure!(dtype == value.dtype, "{out:?} is {}, but the fill {dtype}", value.dtype);
        step.one_dtype()?;
        for (i, piece) in self.pieces.iter().enumerate() {
            piece.check(step, i).map_err(|problem| format!("piece {i}: {problem}"))?;
        }
        Ok(())
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let pieces = self.pieces.iter().zip(&step.step.inputs);
        let elements: usize =
            pieces.map(|(piece, input)| piece.read(input).product::<usize>()).sum();
        let out = step.out(0);
        let bytes = elements * out.dtype.size() + out.bytes();
        Cost { flops: 0, bytes: bytes as u64, sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let pasted = joined(self.pieces.iter().enumerate().map(|(i, piece)| piece.text(step, i)));
        match self.pieces.iter().any(|piece| piece.covers(&step.out(0).extents)) {
            true => pasted,
            false => format!("{pasted} onto {:?}", self.fill),
        }
    }
}

impl Local for Move {
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let mut out = Numbers::from_elem(step.shape(0), self.fill.value());
        for (piece, input) in zip(&self.pieces, inputs) {
            let begin = here.at(&piece.begin);
            each(&piece.extents, |point| {
                let from = zip(&begin, input.dims).map(|(b, &label)| b + point[usize::from(label)]);
                let to = zip(&piece.at, point).map(|(at, i)| at + i);
                out[&to.collect::<Extents>()[..]] = input.numbers[&from.collect::<Extents>()[..]];
            });
        }
        vec![out]
    }
}

impl Spell for Move {
    /// Pieces that come one after the other along a dim are joined; one alone is padded; others replace
    /// parts of the out.
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (out, shape) = (step.out(0), step.shape(0));
        let mut pieces = Vec::with_capacity(inputs.len());
        for (piece, (input, x)) in zip(&self.pieces, zip(&step.step.inputs, inputs)) {
            let read: Extents = piece.read(input).collect();
            let part = to.part(x, &piece.begin, &read);
            pieces.push(to.spread(&part, &input.dims, &piece.extents));
        }
        if let Some(dim) = self.one_after_another(shape) {
            return Ok(vec![to.joined(&pieces, dim)]);
        }
        if let ([piece], [x]) = (&self.pieces[..], &pieces[..]) {
            let sides = zip(&piece.at, zip(&piece.extents, shape)).map(|(&at, (extent, whole))| {
                Padding::around(at as i64, (whole - at - extent) as i64)
            });
            let sides: Vec<_> = sides.collect();
            return Ok(vec![to.padded(x, self.fill.value(), &sides)]);
        }
        let mut whole = to.fill(out.dtype.into(), shape, self.fill.value());
        for (piece, x) in zip(&self.pieces, &pieces) {
            let at: Vec<_> = piece.at.iter().map(|&at| Offset::fixed(at)).collect();
            let at = to.offsets(&at);
            whole = to.replaced(&whole, x, &at);
        }
        Ok(vec![whole])
    }
}

impl Move {
    /// The dim along which the pieces, in their order, make up a value of these extents.
    fn one_after_another(&self, shape: &[usize]) -> Option<usize> {
        let first = self.pieces.first()?;
        let dim = (0..shape.len()).find(|&dim| first.extents[dim] != shape[dim]).unwrap_or(0);
        let mut end = 0;
        for piece in &self.pieces {
            let begins =
                piece.at.iter().enumerate().all(|(d, &at)| at == if d == dim { end } else { 0 });
            let fits = zip(&piece.extents, shape).enumerate().all(|(d, (a, b))| d == dim || a == b);
            if !begins || !fits {
                return None;
            }
            end += piece.extents.get(dim).copied().unwrap_or(1);
        }
        (end == shape.get(dim).copied().unwrap_or(1)).then_some(dim)
    }
}

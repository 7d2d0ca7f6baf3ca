use super::{FormRules, Legal, StepCx, ensure};
use crate::names::DType;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::random::{self, Draw};
use crate::program::stablehlo::{Element, Spell, Tensor, Writer};
use crate::program::{Cost, Extents, Generator, Offset, Value};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// Elements made from their global positions.
///
/// Inputs are the salts, scalars of i32 that are mixed into the key of random numbers, in order: the
/// step, the positions of loops; then the shifts, scalars of i32, each with a stride: an element's position
/// in declared order, which random numbers are made of, is greater by the sum of shifts times strides, modulo
/// 2^64. The slice, unshifted, lies inside the global extents for every group index. A fill
/// has the out's dtype; iota counts along a dim and is not bool; a table has the global extents and the
/// out's dtype; random numbers are floats, `low < high`, `stddev > 0`, all finite; uniform ones may be
/// i32 between whole bounds. Only random numbers have salts and shifts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Generate {
    /// How.
    pub generator: Generator,
    /// Global position of the slice's first element, per dim.
    pub begin: Vec<Offset>,
    /// Global extents, per dim.
    pub global: Extents,
    /// Of each shift, the positions that it counts.
    #[serde(default)]
    pub strides: Vec<u64>,
}

impl Generate {
    /// How many of so many inputs are salts.
    pub(crate) fn salts(&self, inputs: usize) -> usize {
        inputs.saturating_sub(self.strides.len())
    }
}

impl FormRules for Generate {
    fn name(&self) -> &'static str {
        "generate"
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        let (inputs, shifts) = (step.step.inputs.len(), self.strides.len());
        step.counts(inputs, 1)?;
        ensure!(inputs >= shifts, "there are {inputs} inputs for {shifts} shifts");
        let value = step.out(0);
        step.inside(&self.begin, &value.extents, &self.global)?;
        let random = self.generator.key().is_some();
        ensure!(inputs == shifts || random, "only random numbers have salts");
        ensure!(shifts == 0 || random, "only random numbers are shifted");
        for (i, input) in step.step.reads().enumerate() {
            let found = step.value(input);
            let fits = found.dtype == DType::I32 && found.extents.is_empty();
            let what = if i < self.salts(inputs) { "salt" } else { "shift" };
            ensure!(fits, "{input:?} is {found}, but a {what} is a scalar of i32");
        }
        generates(&self.generator, &self.global, value)
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        Cost { flops: 0, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let salts = self.salts(step.step.inputs.len());
        let salted = step.step.reads().take(salts).map(|salt| format!(" salt {salt:?}"));
        let text = generated(&self.generator) + &salted.collect::<String>();
        if let Generator::Fill(_) = self.generator {
            return text;
        }
        let shifts = zip(step.step.reads().skip(salts), &self.strides);
        let shifts: String = shifts.map(|(shift, by)| format!(" + {shift:?}*{by}")).collect();
        let from = step.offsets(&self.begin);
        format!("{text} from {from}{shifts} of {:?}", self.global.as_slice())
    }
}

impl Local for Generate {
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (begin, dtype) = (here.at(&self.begin), step.out(0).dtype);
        let (salts, shifts) = inputs.split_at(self.salts(inputs.len()));
        let salts = salts.iter().map(|salt| salt.at(&[]) as i32);
        let key = self.generator.key().map(|key| random::key(here.seed, key));
        let key = key.map(|key| random::words(salts.fold(key, random::salted)));
        let shift = zip(shifts, &self.strides).fold(0, |sum: u64, (shift, stride)| {
            sum.wrapping_add((shift.at(&[]) as i64 as u64).wrapping_mul(*stride))
        });
        let table = match &self.generator {
            Generator::Table(table) => Some(table.to_f64()),
            _ => None,
        };
        let mut out = Numbers::zeros(step.shape(0));
        each(step.shape(0), |point| {
            let at: Extents = zip(&begin, point).map(|(begin, i)| begin + i).collect();
            let in_order = zip(&at, &self.global).fold(0, |sum, (i, extent)| sum * extent + i);
            out[point] = match (&self.generator, &table) {
                (Generator::Fill(scalar), _) => scalar.value(),
                (Generator::Iota(dim), _) => at[usize::from(*dim)] as f64,
                (_, Some(table)) => table[&at[..]],
                (generator, None) => {
                    let position = (in_order as u64).wrapping_add(shift);
                    let bits = key.map_or(0, |key| random::draw(key, position));
                    Draw::of(generator).number(dtype, position as isize, bits)
                }
            };
        });
        vec![out]
    }
}

fn generated(generator: &Generator) -> String {
    match generator {
        Generator::Fill(scalar) => format!("fill {scalar:?}"),
        Generator::Iota(dim) => format!("iota dim {dim}"),
        Generator::Table(_) => "table".to_owned(),
        Generator::Uniform { key, low, high } => format!("uniform({low}, {high}) key {key:x}"),
        Generator::Normal { key, mean, stddev } => {
            format!("normal({mean}, {stddev}) key {key:x}")
        }
        Generator::TruncatedNormal { key, mean, stddev } => {
            format!("truncated_normal({mean}, {stddev}) key {key:x}")
        }
    }
}

fn generates(generator: &Generator, global: &[usize], value: &Value) -> Legal {
    let dtype = value.dtype;
    match generator {
        Generator::Fill(scalar) => {
            ensure!(scalar.dtype() == dtype, "the fill is {}, not {dtype}", scalar.dtype());
        }
        Generator::Iota(dim) => {
            ensure!(usize::from(*dim) < global.len(), "there is no dim {dim}");
            ensure!(dtype != DType::Bool, "positions are not bool");
        }
        Generator::Table(array) => {
            ensure!(array.dtype() == dtype, "the table is {}, not {dtype}", array.dtype());
            ensure!(array.shape() == global, "the table is {:?}, not {global:?}", array.shape());
        }
        Generator::Uniform { low, high, .. } => {
            let finite = low.is_finite() && high.is_finite();
            ensure!(finite && low < high, "there are no numbers from {low} to {high}");
            let ends = f64::from(i32::MIN)..=f64::from(i32::MAX) + 1.0;
            let whole = |x: &f64| ends.contains(x) && x.fract() == 0.0;
            let counts = dtype == DType::I32 && whole(low) && whole(high);
            ensure!(dtype.is_float() || counts, "there are no random {dtype} from {low} to {high}");
        }
        Generator::Normal { mean, stddev, .. }
        | Generator::TruncatedNormal { mean, stddev, .. } => {
            ensure!(dtype.is_float(), "random numbers are floats, not {dtype}");
            let finite = mean.is_finite() && stddev.is_finite();
            ensure!(finite && *stddev > 0.0, "no normal has mean {mean} and deviation {stddev}");
        }
    }
    Ok(())
}

impl Spell for Generate {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (out, shape) = (step.out(0), step.shape(0));
        let element = Element::from(out.dtype);
        let made = match &self.generator {
            Generator::Fill(scalar) => to.fill(element, shape, scalar.value()),
            Generator::Iota(dim) => {
                let dim = usize::from(*dim);
                let at = to.positions(Element::U64, shape, dim);
                let begin = begin(to, &self.begin[dim], shape);
                let at = to.binary("add", &at, &begin);
                // Exact up to 2^53, and then rounded once.
                let number = to.converted(&at, Element::F64);
                to.stored(&number, element)
            }
            Generator::Table(table) => {
                let table = to.table(table);
                to.part(&table, &self.begin, shape)
            }
            Generator::Uniform { key, .. }
            | Generator::Normal { key, .. }
            | Generator::TruncatedNormal { key, .. } => {
                let (salts, shifts) = inputs.split_at(self.salts(inputs.len()));
                let key = to.key(*key, salts)?;
                let mut position = to.fill(Element::U64, shape, 0.0);
                for (dim, &extent) in self.global.iter().enumerate() {
                    let at = to.positions(Element::U64, shape, dim);
                    let begin = begin(to, &self.begin[dim], shape);
                    let at = to.binary("add", &at, &begin);
                    let before = to.with("multiply", &position, extent as f64);
                    position = to.binary("add", &before, &at);
                }
                for (shift, &stride) in zip(shifts, &self.strides) {
                    let shift = widened(to, shift);
                    let along = to.with_word("multiply", &shift, stride);
                    let along = to.broadcast(&along, &[], shape);
                    position = to.binary("add", &position, &along);
                }
                to.made(Draw::of(&self.generator), &key, &position, element)
            }
        };
        Ok(vec![made])
    }
}

/// A scalar of i32 as the number modulo 2^64 that it is.
fn widened(to: &mut Writer<'_>, x: &Tensor) -> Tensor {
    const SIGN: u64 = 1 << 31;
    let bits = to.bits(x, Element::U32);
    let wide = to.converted(&bits, Element::U64);
    // The sign's bit counts 2^31 less than nothing.
    let raised = to.with_word("xor", &wide, SIGN);
    to.with_word("subtract", &raised, SIGN)
}

/// Where a slice begins, for each of its elements.
fn begin(to: &mut Writer<'_>, begin: &Offset, shape: &[usize]) -> Tensor {
    let begin = to.offset(begin);
    let begin = to.converted(&begin, Element::U64);
    to.broadcast(&begin, &[], shape)
}

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
/// step, the positions of loops. The slice lies inside the global extents for every group index. A fill
/// has the out's dtype; iota counts along a dim and is not bool; a table has the global extents and the
/// out's dtype; random numbers are floats, `low < high`, `stddev > 0`, all finite; uniform ones may be
/// i32 between whole bounds. Only random numbers have salts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Generate {
    /// How.
    pub generator: Generator,
    /// Global position of the slice's first element, per dim.
    pub begin: Vec<Offset>,
    /// Global extents, per dim.
    pub global: Extents,
}

impl FormRules for Generate {
    fn name(&self) -> &'static str {
        "generate"
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        let salts = &step.step.inputs;
        step.counts(salts.len(), 1)?;
        let value = step.out(0);
        step.inside(&self.begin, &value.extents, &self.global)?;
        let random = self.generator.key().is_some();
        ensure!(salts.is_empty() || random, "only random numbers have salts");
        for salt in step.step.reads() {
            let found = step.value(salt);
            let fits = found.dtype == DType::I32 && found.extents.is_empty();
            ensure!(fits, "{salt:?} is {found}, but a salt is a scalar of i32");
        }
        generates(&self.generator, &self.global, value)
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        Cost { flops: 0, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let salts: String = step.step.reads().map(|salt| format!(" salt {salt:?}")).collect();
        let text = generated(&self.generator) + &salts;
        if let Generator::Fill(_) = self.generator {
            return text;
        }
        format!("{text} from {} of {:?}", step.offsets(&self.begin), self.global.as_slice())
    }
}

impl Local for Generate {
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (begin, dtype) = (here.at(&self.begin), step.out(0).dtype);
        let salts = inputs.iter().map(|salt| salt.at(&[]) as i32);
        let key = self.generator.key().map(|key| random::key(here.seed, key));
        let key = key.map(|key| random::words(salts.fold(key, random::salted)));
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
                    let bits = key.map_or(0, |key| random::draw(key, in_order as u64));
                    Draw::of(generator).number(dtype, in_order as isize, bits)
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
                let key = to.key(*key, inputs)?;
                let mut position = to.fill(Element::U64, shape, 0.0);
                for (dim, &extent) in self.global.iter().enumerate() {
                    let at = to.positions(Element::U64, shape, dim);
                    let begin = begin(to, &self.begin[dim], shape);
                    let at = to.binary("add", &at, &begin);
                    let before = to.with("multiply", &position, extent as f64);
                    position = to.binary("add", &before, &at);
                }
                to.made(Draw::of(&self.generator), &key, &position, element)
            }
        };
        Ok(vec![made])
    }
}

/// Where a slice begins, for each of its elements.
fn begin(to: &mut Writer<'_>, begin: &Offset, shape: &[usize]) -> Tensor {
    let begin = to.offset(begin);
    let begin = to.converted(&begin, Element::U64);
    to.broadcast(&begin, &[], shape)
}

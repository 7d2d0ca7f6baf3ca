use super::cx::folds;
use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::names::{DType, ReduceKind};
use crate::program::Cost;
use crate::program::arithmetic::widest;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Along, Element, Is, Lookup, Padding, Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::iter::zip;

/// Folds, over the pairs of an input position and an output position which windows tie, what `kind`
/// makes of the inputs there. StableHLO: `reduce_window` for maxima and sums.
///
/// The out has the input labels of all windows or the output labels of all; so has each value. Inputs 0
/// and 1 of `Count` and `Ties` lie on different sides, and what is folded on the side that is not the out's. All
/// other labels are the out's. Values have one dtype, not bool. A position that no window ties gets what a
/// fold starts from.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Pool {
    /// What is folded, and how.
    pub kind: PoolKind,
    /// At least one.
    pub windows: SmallVec<[Reach; 2]>,
}

/// What a [`Pool`] folds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolKind {
    /// Input 0, to the greatest; NaN if there is one.
    Max,
    /// Input 0, to the sum.
    Sum,
    /// Ones where inputs 0 and 1 are equal, to the sum.
    Count,
    /// Input 2 where inputs 0 and 1 are equal, to the sum.
    Ties,
}

impl PoolKind {
    /// How many values it reads.
    pub fn inputs(self) -> usize {
        match self {
            Self::Max | Self::Sum => 1,
            Self::Count => 2,
            Self::Ties => 3,
        }
    }

    /// Whether inputs 0 and 1 are compared.
    fn compares(self) -> bool {
        matches!(self, Self::Count | Self::Ties)
    }
}

/// Ties two labels of a [`Pool`]: `stride * output <= input + pad < stride * output + size`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Reach {
    /// Label of the position that is seen.
    pub input: u8,
    /// Label of the window that sees it.
    pub output: u8,
    /// Positions of a window; at least 1.
    pub size: usize,
    /// Positions from one window to the next; at least 1.
    pub stride: usize,
    /// Positions of the first window before the first.
    pub pad: usize,
}

impl Reach {
    fn ties(&self, point: &[usize]) -> bool {
        let [input, output] = [self.input, self.output].map(|label| point[usize::from(label)]);
        let begin = self.stride * output;
        (begin..begin + self.size).contains(&(input + self.pad))
    }
}

impl Pool {
    /// Whether a value with these dims is on the input side.
    fn sees(&self, dims: &[u8]) -> Result<bool, String> {
        let side = |w: &Reach| match [w.input, w.output].map(|label| dims.contains(&label)) {
            [true, false] => Ok(true),
            [false, true] => Ok(false),
            _ => Err(format!("a value has not one of the window labels {}, {}", w.input, w.output)),
        };
        let first = side(&self.windows[0])?;
        for window in &self.windows {
            ensure!(side(window)? == first, "a value is on both sides of the windows");
        }
        Ok(first)
    }

    fn kind(&self) -> ReduceKind {
        if self.kind == PoolKind::Max { ReduceKind::Max } else { ReduceKind::Sum }
    }
}

impl FormRules for Pool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        ensure!(!self.windows.is_empty(), "there is no window");
        step.counts(self.kind.inputs(), 1)?;
        step.one_dtype()?;
        ensure!(step.out(0).dtype != DType::Bool, "there are no windows of bool");
        folds(self.kind(), step.out(0).dtype)?;
        let mut labels = Labels::new(step.out(0));
        let mut seen = Vec::new();
        for window in &self.windows {
            for label in [window.input, window.output] {
                ensure!(!seen.contains(&label), "label {label} is in windows twice");
                seen.push(label);
            }
            ensure!(window.stride > 0 && window.size > 0, "stride and size are at least 1");
        }
        let own: Vec<u8> = (0..).take(step.out(0).extents.len()).collect();
        let out = self.sees(&own)?;
        for (i, input) in step.step.inputs.iter().enumerate() {
            labels.operand(format_args!("input {i}"), input, step.input(i))?;
            let sees = self.sees(&input.dims)?;
            let fits = match (self.kind.compares(), i) {
                (true, 0) => true,
                (true, 1) => sees != self.sees(&step.step.inputs[0].dims)?,
                _ => sees != out,
            };
            ensure!(fits, "input {i} is on the wrong side of the windows");
            let stray = input.dims.iter().find(|&l| !seen.contains(l) && !labels.is_result(*l));
            ensure!(stray.is_none(), "input {i} has a label of no result dim");
        }
        labels.covered(&step.step.inputs, &seen)?;
        for Reach { input, output, size, stride, pad } in &self.windows {
            let ends = [(*output, *stride), (*input, 1)].map(|(label, step)| {
                let last = labels.extent(label).checked_mul(step);
                last.and_then(|last| last.checked_add(*size)?.checked_add(*pad))
            });
            ensure!(ends.iter().all(Option::is_some), "windows overflow");
        }
        Ok(())
    }

    /// As if every window lay inside.
    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let space = step.space();
        let outside = |label: usize| self.windows.iter().all(|w| usize::from(w.input) != label);
        let points = (0..space.len()).filter(|&label| outside(label)).map(|label| space[label]);
        let taps = self.windows.iter().map(|w| w.size.min(space[usize::from(w.input)]));
        let pairs = points.chain(taps).fold(1_u64, |all, n| all.saturating_mul(n as u64));
        Cost { flops: pairs, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let inputs = step.all_labelled();
        let mut text = match self.kind {
            PoolKind::Max => format!("max of {inputs}"),
            PoolKind::Sum => format!("sum of {inputs}"),
            PoolKind::Count => format!("count of equal {inputs}"),
            PoolKind::Ties => format!("sum where equal of {inputs}"),
        };
        for w in &self.windows {
            let [input, output] = [w.input, w.output].map(|label| step.letter(label));
            let begin = if w.stride == 1 { output } else { format!("{}*{output}", w.stride) };
            let begin = if w.pad == 0 { begin } else { format!("{begin} - {}", w.pad) };
            text += &format!(" with {input} in {} from {begin}", w.size);
        }
        text
    }
}

impl Local for Pool {
    /// In whatever order: floats are folded in f64.
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (shape, dtype) = (step.shape(0), widest(step.out(0).dtype));
        let mut out = Numbers::from_elem(shape, self.kind().start(dtype));
        each(&step.space(), |point| {
            let tied = self.windows.iter().all(|window| window.ties(point));
            let given = |i: usize| inputs[i].at(point);
            if tied && (!self.kind.compares() || given(0) == given(1)) {
                let folded = match self.kind {
                    PoolKind::Max | PoolKind::Sum => given(0),
                    PoolKind::Count => 1.0,
                    PoolKind::Ties => given(2),
                };
                let out = &mut out[&point[..shape.len()]];
                *out = self.kind().fold(dtype, *out, folded);
            }
        });
        vec![out]
    }
}

impl Spell for Pool {
    /// Maxima and sums are folds over windows. For the others, each position of the out meets the positions of
    /// the other side that windows tie to it along dims of their own, which are then summed.
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (out, shape) = (step.out(0), step.shape(0));
        let rank = shape.len();
        let sides: Vec<Side> =
            self.windows.iter().map(|window| Side::of(*window, &step.space(), rank)).collect();
        let mut given = Vec::with_capacity(inputs.len());
        for (x, input) in zip(inputs, &step.step.inputs) {
            let mut dims = input.dims.clone();
            let mut space = shape.to_vec();
            for side in &sides {
                if let Some(dim) = dims.iter_mut().find(|dim| **dim == side.other) {
                    (*dim, space[usize::from(side.own)]) = (side.own, side.others);
                }
            }
            let held = to.held(x);
            given.push((to.spread(&held, &dims, &space), input.dims.contains(&sides[0].other)));
        }
        let folded = match self.kind {
            PoolKind::Max | PoolKind::Sum => {
                let mut windows = vec![Along::EACH; rank];
                sides.iter().for_each(|side| windows[usize::from(side.own)] = side.along());
                to.windowed(self.kind(), &given[0].0, &windows)
            }
            PoolKind::Count | PoolKind::Ties => ties(to, &sides, &given, shape),
        };
        Ok(vec![to.stored(&folded, out.dtype.into())])
    }
}

/// Where both sides of compared values are equal: the third value, or ones, summed over the positions that
/// windows tie to each of the out's. Each value comes with whether it lies on the other side.
fn ties(to: &mut Writer<'_>, sides: &[Side], given: &[(Tensor, bool)], shape: &[usize]) -> Tensor {
    let rank = shape.len();
    let met = sides.iter().map(|side| side.met());
    let space: Vec<usize> = shape.iter().copied().chain(met).collect();
    let own: Vec<usize> = (0..rank).collect();
    let met: Vec<_> = given
        .iter()
        .map(|(x, other)| match other {
            true => sides.iter().fold(x.clone(), |x, side| side.meet(to, &x)),
            false => to.broadcast(x, &own, &space),
        })
        .collect();
    let mut hit = to.compare(&met[0], Is::Equal, &met[1]);
    for (i, side) in sides.iter().enumerate() {
        if let Some(tied) = side.tied(to) {
            let tied = to.broadcast(&tied, &[usize::from(side.own), rank + i], &space);
            hit = to.binary("and", &hit, &tied);
        }
    }
    let element = met[0].element;
    let one = to.fill(element, &space, 1.0);
    let nothing = to.fill(element, &space, 0.0);
    let kept = to.select(&hit, met.get(2).unwrap_or(&one), &nothing);
    to.folded(ReduceKind::Sum, &kept, &(rank..rank + sides.len()).collect::<Vec<_>>())
}

/// A window as seen from the out.
struct Side {
    reach: Reach,
    /// Label of the out's position, and of the other.
    own: u8,
    other: u8,
    /// How many positions there are of either.
    owns: usize,
    others: usize,
    /// Whether the out's positions are windows.
    sees: bool,
}

impl Side {
    fn of(reach: Reach, space: &[usize], rank: usize) -> Self {
        let sees = usize::from(reach.output) < rank;
        let (own, other) = match sees {
            true => (reach.output, reach.input),
            false => (reach.input, reach.output),
        };
        let [owns, others] = [own, other].map(|label| space[usize::from(label)]);
        Self { reach, own, other, owns, others, sees }
    }

    /// The windows of a fold along the other's dim that leave the out's.
    fn along(&self) -> Along {
        let Reach { size, stride, pad, .. } = self.reach;
        let (own, other) = (self.owns as i64, self.others as i64);
        let (reach, pad) = (size as i64, pad as i64);
        if self.sees {
            let high = (own - 1) * stride as i64 + reach - other - pad;
            return Along { size, stride, padding: Padding::around(pad, high) };
        }
        // An input position is in the windows that begin at most `size - 1` before it.
        let between = stride as i64 - 1;
        let high = own - 1 - stride as i64 * (other - 1) + pad;
        Along { size, stride: 1, padding: Padding { low: reach - 1 - pad, high, between } }
    }

    /// Whether windows lie side by side and cover everything.
    fn tiles(&self) -> bool {
        let Reach { size, stride, pad, .. } = self.reach;
        let (inputs, outputs) =
            if self.sees { (self.others, self.owns) } else { (self.owns, self.others) };
        size == stride && pad == 0 && inputs == outputs * size
    }

    /// How many of the other's positions one of the out's may meet.
    fn met(&self) -> usize {
        if self.sees { self.reach.size } else { self.reach.size.div_ceil(self.reach.stride) }
    }

    /// A value of the other side, with the out's positions along its dim and those that each meets along a
    /// new last one.
    fn meet(&self, to: &mut Writer<'_>, x: &Tensor) -> Tensor {
        let (dim, rank, met) = (usize::from(self.own), x.extents.len(), self.met());
        let mut extents = x.extents.to_vec();
        extents[dim] = self.owns;
        if self.tiles() && self.sees {
            let mut split = x.extents.to_vec();
            split.splice(dim..=dim, [self.owns, met]);
            let split = to.reshaped(x, &split);
            let order: Vec<usize> =
                (0..=rank).filter(|&other| other != dim + 1).chain([dim + 1]).collect();
            return to.transposed(&split, &order);
        }
        extents.push(met);
        if self.tiles() {
            let mut split = x.extents.to_vec();
            split.insert(dim + 1, self.reach.size);
            let kept: Vec<usize> = (0..=rank).filter(|&other| other != dim + 1).collect();
            let split = to.broadcast(x, &kept, &split);
            return to.reshaped(&split, &extents);
        }
        let indices = self.positions(to);
        let slices = (0..rank).filter(|&other| other != dim).collect();
        to.looked_up(x, &indices, &Lookup { dim, along: Vec::new(), slices }, &extents)
    }

    /// The other's positions that the out's meet, which may be out of reach.
    fn positions(&self, to: &mut Writer<'_>) -> Tensor {
        let Reach { stride, pad, .. } = self.reach;
        let space = [self.owns, self.met()];
        let [at, tap] = [0, 1].map(|dim| to.positions(Element::I32, &space, dim));
        if self.sees {
            let begin = to.with("multiply", &at, stride as f64);
            let begin = to.with("subtract", &begin, pad as f64);
            return to.binary("add", &begin, &tap);
        }
        let padded = to.with("add", &at, pad as f64);
        let last = to.with("divide", &padded, stride as f64);
        to.binary("subtract", &last, &tap)
    }

    /// Which of the positions that meet are there and tied; none if all are.
    fn tied(&self, to: &mut Writer<'_>) -> Option<Tensor> {
        if self.tiles() {
            return None;
        }
        let positions = self.positions(to);
        let from = to.compare_with(&positions, Is::AtLeast, 0.0);
        let below = to.compare_with(&positions, Is::Less, self.others as f64);
        let there = to.binary("and", &from, &below);
        if self.sees {
            return Some(there);
        }
        let Reach { size, stride, pad, .. } = self.reach;
        let at = to.positions(Element::I32, &positions.extents, 0);
        let padded = to.with("add", &at, pad as f64);
        let begin = to.with("multiply", &positions, stride as f64);
        let within = to.binary("subtract", &padded, &begin);
        let tied = to.compare_with(&within, Is::Less, size as f64);
        Some(to.binary("and", &there, &tied))
    }
}

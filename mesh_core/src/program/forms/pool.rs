use super::cx::folds;
use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::names::{DType, ReduceKind};
use crate::program::Cost;
use crate::program::arithmetic::widest;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

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

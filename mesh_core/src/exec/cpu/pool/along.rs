//! What the results along a window see, and which of them are alike.

use super::tap::OPERANDS;
use crate::exec::cpu::strided::{Labels, Loop};
use crate::program::Reach;

/// Results side by side with as many taps each.
pub(super) struct Run {
    /// Of each operand, where the first result and its first tap lie.
    pub(super) at: [isize; OPERANDS],
    /// How many results.
    pub(super) lanes: usize,
    /// Of each operand, from one result to the next.
    pub(super) strides: [isize; OPERANDS],
    /// Taps of a result.
    pub(super) taps: usize,
}

impl Run {
    /// Results that have one tap each, along a label that no window ties.
    pub(super) fn plain(inner: &Loop) -> Self {
        let strides = std::array::from_fn(|k| inner.strides[k]);
        Self { at: [0; OPERANDS], lanes: inner.extent, strides, taps: 1 }
    }
}

/// A window as the results meet it.
pub(super) struct Along {
    /// From one position to the next: operands 0 and 1 on the result's side, 2 and 3 on the other.
    pub(super) strides: [isize; OPERANDS],
    /// For each result, its first tap and how many there are.
    seen: Vec<[usize; 2]>,
    /// Results whose first taps are evenly spaced are so far apart, and the taps so far.
    steps: [usize; 2],
}

impl Along {
    /// `sees` if results are on the output side; `along` are the operands' strides along a label.
    pub(super) fn new(
        window: &Reach,
        sees: bool,
        labels: &Labels,
        along: impl Fn(usize) -> [isize; OPERANDS],
    ) -> Self {
        let [input, output] = [window.input, window.output].map(usize::from);
        let (own, other) = if sees { (output, input) } else { (input, output) };
        let [count, seen] = [own, other].map(|label| labels.extents[label]);
        let (own, other) = (along(own), along(other));
        let Reach { size, stride, pad, .. } = *window;
        let taps = |at: usize| {
            let [first, end] = if sees {
                [at * stride, at * stride + size].map(|end| end.saturating_sub(pad))
            } else {
                // Windows that begin at most there, and end behind it.
                [(at + pad + 1).saturating_sub(size).div_ceil(stride), (at + pad) / stride + 1]
            };
            let first = first.min(seen);
            [first, end.min(seen).saturating_sub(first)]
        };
        Self {
            strides: [own[0], own[1], other[2], other[3]],
            seen: (0..count).map(taps).collect(),
            steps: if sees { [1, stride] } else { [stride.min(count), 1] },
        }
    }

    /// From one tap to the next.
    pub(super) fn taps(&self) -> [isize; 2] {
        [self.strides[2], self.strides[3]]
    }

    /// Each result by itself.
    pub(super) fn positions(&self) -> Vec<Run> {
        (0..self.seen.len()).map(|at| self.run(at, 1)).collect()
    }

    /// Results that are evenly spaced, as are their first taps.
    pub(super) fn runs(&self) -> Vec<Run> {
        let [apart, further] = self.steps;
        let mut runs = Vec::new();
        for phase in 0..apart {
            let mut begin = phase;
            while begin < self.seen.len() {
                let [first, count] = self.seen[begin];
                let alike = |lane: &usize| {
                    self.seen.get(begin + lane * apart) == Some(&[first + lane * further, count])
                };
                let lanes = (0..).take_while(alike).count();
                runs.push(self.run(begin, lanes));
                begin += lanes * apart;
            }
        }
        runs
    }

    fn run(&self, at: usize, lanes: usize) -> Run {
        let [apart, further] = self.steps;
        let [first, taps] = self.seen[at];
        let along = |positions: [usize; 2]| {
            let [own, other] = positions.map(|position| position as isize);
            let [a, b, c, d] = self.strides;
            [own * a, own * b, other * c, other * d]
        };
        Run { at: along([at, first]), lanes, strides: along([apart, further]), taps }
    }
}

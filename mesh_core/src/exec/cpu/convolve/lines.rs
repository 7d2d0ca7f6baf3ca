//! The rows and steps of a convolution's blocks, as offsets.
//!
//! One window slides: a group of rows is neighbours along it. Another is outermost: by its position
//! a row knows which steps lie beyond the ends of the image and adds none of them.

use super::block::Offsets;
use super::naive::window_labels;
use super::parts::pairs;
use crate::exec::cpu::strided::Labels;
use crate::program::Window;
use std::ops::Range;

/// Neighbouring rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Offset of the first in the image.
    pub(super) from: isize,
    /// Offset of the first in the result.
    pub(super) to: isize,
    /// Outermost positions of steps that meet the image.
    pub(super) meets: [usize; 2],
}

/// What runs along one side of windows, kernel or output, and other labels.
pub(super) struct Side<'a> {
    /// Strides of the image are those along the side's own labels.
    pub(super) labels: &'a Labels,
    pub(super) image: usize,
    /// The operand other than the image.
    pub(super) operand: usize,
    pub(super) outer: Option<usize>,
    pub(super) middle: Vec<usize>,
    pub(super) slide: usize,
}

impl Side<'_> {
    /// Offsets in image and operand of each position along a label.
    fn along(&self, label: usize) -> impl Iterator<Item = [isize; 2]> {
        let strides = self.strides(label);
        (0..self.labels.extents[label] as isize).map(move |i| strides.map(|stride| i * stride))
    }

    fn strides(&self, label: usize) -> [isize; 2] {
        [self.image, self.operand].map(|k| self.labels.strides[k][label])
    }

    /// Per outermost position: offsets of all positions but those of the sliding window.
    fn lines(&self) -> Vec<Vec<[isize; 2]>> {
        let middle = pairs(self.labels, &self.middle, [self.image, self.operand]);
        let outer: Vec<_> = match self.outer {
            Some(label) => self.along(label).collect(),
            None => vec![[0, 0]],
        };
        let line = |o: [isize; 2]| middle.iter().map(|m| [o[0] + m[0], o[1] + m[1]]).collect();
        outer.into_iter().map(line).collect()
    }

    /// Groups of `rows`, all full: the last of a line may overlap the one before.
    pub(super) fn groups(&self, rows: usize, meets: impl Fn(usize) -> [usize; 2]) -> Vec<Group> {
        let (extent, [image, operand]) =
            (self.labels.extents[self.slide], self.strides(self.slide));
        let mut groups = Vec::new();
        for (i, lines) in self.lines().into_iter().enumerate() {
            for line in lines {
                groups.extend((0..extent).step_by(rows).map(|at| {
                    let at = at.min(extent - rows) as isize;
                    let (from, to) = (line[0] + at * image, line[1] + at * operand);
                    Group { from, to, meets: meets(i) }
                }));
            }
        }
        groups
    }

    /// All steps.
    pub(super) fn steps(&self, taps: [usize; 2], ratio: usize) -> Steps {
        let (extent, [image, operand]) =
            (self.labels.extents[self.slide], self.strides(self.slide));
        let runs = runs(extent, taps, ratio);
        let lines = self.lines();
        let mut steps = Steps { lists: [vec![], vec![]], taps: vec![], each: [0; 2] };
        for line in lines.iter().flatten() {
            for &(first, count) in &runs {
                let at = |t: usize| {
                    let i = (first + t * ratio) as isize;
                    [line[0] + i * image, line[1] + i * operand]
                };
                let list = usize::from(count != taps[0]);
                steps.lists[list].push([at(0)[0] as i32, steps.taps.len() as i32]);
                steps.taps.extend((0..count).map(|t| at(t)[1]));
            }
        }
        steps.each = [0, 1].map(|k| steps.lists[k].len() / lines.len());
        steps
    }
}

/// Steps by how many taps they have.
pub(super) struct Steps {
    /// Offset in the image, and position in `taps`.
    pub(super) lists: [Vec<Offsets>; 2],
    /// Per tap: offset in the operand that is not the image.
    pub(super) taps: Vec<isize>,
    /// Steps of an outermost position.
    pub(super) each: [usize; 2],
}

impl Steps {
    /// The steps of some outermost positions.
    pub(super) fn within(&self, meets: Range<usize>) -> [&[Offsets]; 2] {
        [0, 1].map(|k| &self.lists[k][meets.start * self.each[k]..meets.end * self.each[k]])
    }

    /// As many steps from the first on as there are in `parts` of `of`.
    pub(super) fn part(&self, parts: usize, of: usize) -> [&[Offsets]; 2] {
        [0, 1].map(|k| &self.lists[k][..self.lists[k].len() / of * parts])
    }
}

/// First position and number of positions `ratio` apart of each step along a line.
fn runs(extent: usize, taps: [usize; 2], ratio: usize) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    for class in 0..ratio {
        let mut left = (extent - class).div_ceil(ratio);
        let mut first = class;
        while left > 0 {
            // A single tap must not be left over.
            let count =
                if taps[1] > 0 && (left == 4 || left < taps[0]) { taps[1] } else { taps[0] };
            runs.push((first, count));
            first += count * ratio;
            left -= count;
        }
    }
    runs
}

/// The positions `p` below `count` for which `step * p + fixed - pad` is within `inputs`.
pub(super) fn meeting(
    [step, count]: [usize; 2],
    fixed: usize,
    pad: usize,
    inputs: usize,
) -> [usize; 2] {
    let low = pad.saturating_sub(fixed).div_ceil(step).min(count);
    let high = (inputs + pad).saturating_sub(fixed).div_ceil(step).min(count);
    [low, high.max(low)]
}

/// Windows with the outermost in the image first.
pub(super) fn sorted(labels: &Labels, windows: &[Window], image: usize) -> Vec<Window> {
    let mut windows = windows.to_vec();
    windows.sort_by_key(|w| {
        let [i, _, o] = window_labels(w);
        (std::cmp::Reverse(labels.strides[image][i]), std::cmp::Reverse(labels.strides[2][o]))
    });
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_every_tap_once() {
        for (extent, ratio) in (2..30).flat_map(|n| (1..=n / 2).map(move |ratio| (n, ratio))) {
            let runs = runs(extent, [3, 2], ratio);
            let taps =
                |&(first, count): &(usize, usize)| (0..count).map(move |t| first + t * ratio);
            let mut all: Vec<_> = runs.iter().flat_map(taps).collect();
            all.sort_unstable();
            assert_eq!(all, (0..extent).collect::<Vec<_>>());
        }
        assert_eq!(runs(3, [1, 0], 1), [(0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn positions_that_meet_the_image() {
        for (step, fixed, pad, inputs) in [(1, 0, 4, 28), (2, 3, 1, 5), (3, 9, 2, 4), (1, 0, 9, 3)]
        {
            let inside = |p: &usize| (pad..inputs + pad).contains(&(step * p + fixed));
            let want: Vec<_> = (0..12).filter(inside).collect();
            let [low, high] = meeting([step, 12], fixed, pad, inputs);
            assert_eq!((low..high).collect::<Vec<_>>(), want);
        }
    }
}

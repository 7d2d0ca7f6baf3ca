//! Rows of images at equal distances, which kernels go through without tables: for convolutions of few channels.

use super::matrices::{Part, Tap};
use crate::exec::cpu::strided::Labels;
use crate::program::Window;

/// Rows at equal distances: the first and the distance, in source and result.
struct Run {
    at: [isize; 2],
    step: [isize; 2],
    count: usize,
}

/// Positions of the result that see the same positions of the kernel, in runs.
pub(super) struct Runs {
    runs: Vec<Run>,
    taps: Vec<Tap>,
}

/// A run in memory: source, kernel and result of the first row, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct Rows<T> {
    pub(super) at: [*const T; 3],
    /// From a row to the next, in source and result.
    pub(super) step: [isize; 2],
    pub(super) count: usize,
    pub(super) taps: *const [Tap],
}

impl Runs {
    /// A part's rows, cut into runs.
    pub(super) fn new(part: Part) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for at in part.rows {
            let Some(run) = runs.last_mut() else {
                runs.push(Run { at, step: [0; 2], count: 1 });
                continue;
            };
            let step = [0, 1].map(|k| at[k] - run.at[k]);
            let times = run.count as isize;
            if run.count == 1 {
                (run.step, run.count) = (step, 2);
            } else if step == run.step.map(|step| step * times) {
                run.count += 1;
            } else {
                runs.push(Run { at, step: [0; 2], count: 1 });
            }
        }
        Self { runs, taps: part.taps }
    }

    /// Every run of an image whose source, kernel and result begin here.
    pub(super) fn rows<T>(
        &self,
        [source, kernel, result]: [*const T; 3],
    ) -> impl Iterator<Item = Rows<T>> {
        self.runs.iter().map(move |&Run { at, step, count }| {
            let at = [source.wrapping_offset(at[0]), kernel, result.wrapping_offset(at[1])];
            Rows { at, step, count, taps: &*self.taps }
        })
    }
}

/// Offsets of all positions of the kernel, also of those that no window reaches.
pub(super) fn kernel_positions(labels: &Labels, windows: &[Window], kernel: usize) -> Vec<isize> {
    let of: Vec<_> = windows.iter().map(|w| usize::from(w.kernel)).collect();
    labels.nest(&of, &[kernel]).offsets(0)
}

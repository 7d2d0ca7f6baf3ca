//! A convolution as rows and taps.
//!
//! For each position of the result, its *row* in the *source*, there is a sum over positions of the
//! kernel, its *taps*. Forward and for the kernel's gradient the source is the image, for the image's
//! gradient it is the gradient of the output. Positions with the same taps are a *part*: where windows
//! move by more than one, positions of the image differ by their remainder in what reaches them, and at
//! the ends, unless there are zeros around the source, some taps lie outside.

use super::naive::window_labels;
use super::parts::{Parts, pairs};
use crate::exec::cpu::strided::{Labels, Loop, Nest, Strides, copy};
use crate::program::Window;
use std::ops::Range;

/// What a window does in one part: `source = step * position + tap`, both from the first.
struct Axis {
    /// The positions, as the source counts them.
    positions: Range<usize>,
    /// Where position 0 is in the result, and from one to the next.
    first: usize,
    apart: usize,
    step: usize,
    /// Per position of the kernel that counts: it, and where it is in the source.
    taps: Vec<(usize, isize)>,
}

impl Axis {
    /// The last position in the source that is seen.
    fn last(&self) -> isize {
        let tap = self.taps.iter().map(|tap| tap.1).max().unwrap_or(0);
        (self.step * (self.positions.end - 1)) as isize + tap
    }

    fn least(&self) -> isize {
        let tap = self.taps.iter().map(|tap| tap.1).min().unwrap_or(0);
        (self.step * self.positions.start) as isize + tap
    }

    /// The same with only those taps at each position that lie in a source of this extent.
    fn clipped(self, extent: usize) -> Vec<Self> {
        let inside = |position: usize| {
            let lies = |tap: &&(usize, isize)| {
                (0..extent as isize).contains(&((self.step * position) as isize + tap.1))
            };
            self.taps.iter().filter(lies).copied().collect::<Vec<_>>()
        };
        let mut parts: Vec<Self> = Vec::new();
        for position in self.positions.clone() {
            let taps = inside(position);
            match parts.last_mut().filter(|part| part.taps == taps) {
                Some(part) => part.positions.end += 1,
                None => parts.push(Self { positions: position..position + 1, taps, ..self }),
            }
        }
        parts
    }
}

/// The parts along one window. `turned` if the image is made of the output.
fn axes(w: &Window, [image, kernel, output]: [usize; 3], turned: bool) -> Vec<Axis> {
    let [stride, dilation, pad] = [w.stride, w.dilation, w.pad].map(|n| n as isize);
    if !turned {
        let taps = (0..kernel).map(|k| (k, k as isize * dilation - pad)).collect();
        return vec![Axis { positions: 0..output, first: 0, apart: 1, step: w.stride, taps }];
    }
    let part = |first: usize| {
        let taps = (0..kernel).filter_map(|k| {
            let from = first as isize + pad - k as isize * dilation;
            (from.rem_euclid(stride) == 0).then(|| (k, from.div_euclid(stride)))
        });
        let positions = 0..(image - first).div_ceil(w.stride);
        Axis { positions, first, apart: w.stride, step: 1, taps: taps.collect() }
    };
    (0..w.stride.min(image)).map(part).collect()
}

/// The source with zeros around it, as far as windows look.
pub(super) struct Padded {
    /// Strides: source, padded source.
    pub(super) nest: Nest,
    /// Where the source's first element goes.
    pub(super) to: isize,
    /// Elements of an image.
    pub(super) len: usize,
}

/// A position of the kernel: offsets in source and kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tap {
    pub(super) source: isize,
    pub(super) kernel: isize,
}

/// Positions of the result that see the same positions of the kernel.
pub(super) struct Part {
    /// Per position in an image: offsets in source and result.
    pub(super) rows: Vec<[isize; 2]>,
    /// In the order of the source.
    pub(super) taps: Vec<Tap>,
}

/// What to do where windows see what lies beyond the ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Zeros around the source.
    Padded,
    /// Positions there have fewer taps.
    Clipped,
}

/// The rows and taps of one group.
pub(super) struct Matrices {
    /// Operands of source, kernel and result; for the kernel's gradient the result is the output.
    pub(super) roles: [usize; 3],
    /// Offsets of source, kernel and result.
    pub(super) groups: Nest,
    pub(super) padded: Option<Padded>,
    pub(super) parts: Vec<Part>,
    /// Per image: offsets in source and result.
    pub(super) images: Vec<[isize; 2]>,
    /// What is summed over besides the taps: how many, and from one to the next in the kernel.
    pub(super) depth: (usize, isize),
    /// The columns: how many, and from one to the next in kernel and result.
    pub(super) columns: (usize, [isize; 2]),
}

/// The extent and strides of labels that are one dim for these operands, if they are.
pub(super) fn one(labels: &Labels, of: &[usize], operands: [usize; 2]) -> Option<Loop> {
    let mut nest = labels.nest(of, &operands);
    nest.sort_by(1);
    nest.sort_by(0);
    let (outer, inner) = nest.collapse().split_inner();
    outer.loops.is_empty().then_some(inner)
}

impl Matrices {
    /// `None` unless the channels of the source are neighbours and channels and columns one dim
    /// each.
    pub(super) fn new(
        labels: &Labels,
        windows: &[Window],
        parts: &Parts,
        ends: Ends,
    ) -> Option<Self> {
        let Parts { roles: [image, kernel, output], groups, batch, channels, features } = parts;
        let ([image, kernel, output], mut groups) = ([*image, *kernel, *output], groups.clone());
        let turned = image == 2;
        let roles = if turned { [output, kernel, image] } else { [image, kernel, output] };
        let [source, _, result] = roles;
        if turned {
            groups.loops.iter_mut().for_each(|l| l.strides.reverse());
        }
        let (summed, columns) = if turned { (features, channels) } else { (channels, features) };
        let depth = one(labels, summed, [source, kernel])?;
        let columns = one(labels, columns, [kernel, result])?;
        if depth.extent > 1 && depth.strides[0] != 1 {
            return None;
        }
        let extents = |w: &Window| window_labels(w).map(|l| labels.extents[l]);
        // Labels of source, kernel and result.
        let of = |w: &Window| {
            let [i, k, o] = window_labels(w);
            if turned { [o, k, i] } else { [i, k, o] }
        };
        let along = |w: &Window| {
            let axes = axes(w, extents(w), turned);
            match ends {
                Ends::Padded => axes,
                Ends::Clipped => {
                    let extent = labels.extents[of(w)[0]];
                    axes.into_iter().flat_map(|axis| axis.clipped(extent)).collect()
                }
            }
        };
        let axes: Vec<Vec<Axis>> = windows.iter().map(along).collect();
        let padding = Padding::new(labels, windows, &axes, of, source, &depth);
        let depth_step =
            |parts: &[Part]| match (depth.extent, parts.iter().find(|p| p.taps.len() > 1)) {
                (1, Some(part)) => part.taps[1].kernel - part.taps[0].kernel,
                _ => depth.strides[1],
            };
        let mut plan = Self {
            roles,
            groups,
            parts: Vec::new(),
            images: pairs(labels, batch, [source, result]),
            depth: (depth.extent, depth.strides[1]),
            columns: (columns.extent, [columns.strides[0], columns.strides[1]]),
            padded: None,
        };
        let steps: Vec<[isize; 3]> = windows
            .iter()
            .enumerate()
            .map(|(i, w)| {
                let [_, k, r] = of(w);
                let [in_kernel, in_result] = [labels.strides[kernel][k], labels.strides[result][r]];
                [padding.steps[i], in_kernel, in_result]
            })
            .collect();
        plan.parts =
            choices(&axes).iter().map(|axes| part(axes, &steps, &padding.before)).collect();
        plan.depth.1 = depth_step(&plan.parts);
        plan.padded = padding.padded;
        Some(plan)
    }

    /// Whether the kernel's gradient is made.
    pub(super) fn makes_kernel(&self) -> bool {
        self.roles[1] == 2
    }

    /// Taps of all positions of an image.
    pub(super) fn terms(&self) -> usize {
        self.parts.iter().map(|part| part.rows.len() * part.taps.len()).sum()
    }

    /// The source of some images, with zeros around each if need be.
    ///
    /// # Safety
    ///
    /// The source is valid, and `to` for the padded images, of which all but the source is zero.
    pub(super) unsafe fn pad<T>(
        &self,
        source: *const T,
        images: Range<usize>,
        to: *mut T,
    ) -> *const T {
        let Some(padded) = &self.padded else { return source };
        if padded.nest.len() > 0 {
            let first = padded.nest.loops.first().map_or(1, |l| l.extent);
            for (i, image) in images.enumerate() {
                // SAFETY: the inside of an image lies within both.
                unsafe {
                    let from = source.offset(self.images[image][0]).cast();
                    let to = to.add(i * padded.len).offset(padded.to).cast();
                    copy(&padded.nest.loops, first, size_of::<T>(), from, to);
                }
            }
        }
        to
    }

    /// Where an image is in the source, or in the padded images that begin with image `first`.
    pub(super) fn image(&self, first: usize, image: usize) -> isize {
        match &self.padded {
            Some(padded) => ((image - first) * padded.len) as isize,
            None => self.images[image][0],
        }
    }

    /// Elements of padded source that `images` images take.
    pub(super) fn padded_len(&self, images: usize) -> usize {
        self.padded.as_ref().map_or(0, |padded| padded.len * images)
    }
}

/// Every choice of one axis per window.
fn choices(axes: &[Vec<Axis>]) -> Vec<Vec<&Axis>> {
    axes.iter().fold(vec![Vec::new()], |chosen, parts| {
        let with = |list: Vec<_>| {
            parts.iter().map(move |axis| list.iter().copied().chain([axis]).collect())
        };
        chosen.into_iter().flat_map(with).collect()
    })
}

fn part(axes: &[&Axis], steps: &[[isize; 3]], before: &[isize]) -> Part {
    let (mut rows, mut taps) = (vec![[0; 2]], vec![Tap { source: 0, kernel: 0 }]);
    for ((axis, &[source, kernel, result]), before) in axes.iter().zip(steps).zip(before) {
        let row = |at: [isize; 2]| {
            axis.positions.clone().map(move |p| {
                let p = p as isize;
                let to = axis.first as isize + p * axis.apart as isize;
                [at[0] + p * axis.step as isize * source, at[1] + to * result]
            })
        };
        rows = rows.into_iter().flat_map(row).collect();
        let tap = |at: Tap| {
            axis.taps.iter().map(move |&(k, from)| Tap {
                source: at.source + (from + before) * source,
                kernel: at.kernel + k as isize * kernel,
            })
        };
        taps = taps.into_iter().flat_map(tap).collect();
    }
    rows.sort_by_key(|row| row[1]);
    taps.sort_by_key(|tap| tap.source);
    Part { rows, taps }
}

/// How much is missing around the source.
struct Padding {
    padded: Option<Padded>,
    /// Per window: from one position to the next where windows look, and positions before the
    /// first.
    steps: Vec<isize>,
    before: Vec<isize>,
}

impl Padding {
    fn new(
        labels: &Labels,
        windows: &[Window],
        axes: &[Vec<Axis>],
        of: impl Fn(&Window) -> [usize; 3],
        source: usize,
        depth: &Loop,
    ) -> Self {
        let label = |w: &Window| of(w)[0];
        let has_taps = |axis: &&Axis| !axis.taps.is_empty();
        let least = |parts: &Vec<Axis>| parts.iter().filter(has_taps).map(Axis::least).min();
        let last = |parts: &Vec<Axis>| parts.iter().filter(has_taps).map(Axis::last).max();
        let before: Vec<_> = axes.iter().map(|p| (-least(p).unwrap_or(0)).max(0)).collect();
        let reach: Vec<_> = axes.iter().map(|p| last(p).unwrap_or(0) + 1).collect();
        let extent = |w: &Window| labels.extents[label(w)] as isize;
        let inside = windows.iter().zip(&before).zip(&reach);
        if inside.clone().all(|((w, &before), &reach)| before == 0 && reach <= extent(w)) {
            let steps = windows.iter().map(|w| labels.strides[source][label(w)]).collect();
            return Self { padded: None, steps, before };
        }
        // In the source's own order, the channels innermost.
        let mut order: Vec<usize> = (0..windows.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(labels.strides[source][label(&windows[i])]));
        let mut steps = vec![0; windows.len()];
        let (mut step, mut to) = (depth.extent as isize, 0);
        let mut loops = vec![Loop { extent: depth.extent, strides: Strides::from_slice(&[1, 1]) }];
        for &i in order.iter().rev() {
            let size = before[i] + reach[i].max(1);
            let copied = extent(&windows[i]).min(reach[i].max(0)) as usize;
            let strides = [labels.strides[source][label(&windows[i])], step];
            loops.push(Loop { extent: copied, strides: Strides::from_slice(&strides) });
            to += before[i] * step;
            steps[i] = step;
            step *= size;
        }
        loops.reverse();
        let nest = Nest { loops: loops.into_iter().collect(), operands: 2 };
        let nest = if nest.len() == 0 { nest } else { nest.collapse() };
        Self { padded: Some(Padded { nest, to, len: step as usize }), steps, before }
    }
}

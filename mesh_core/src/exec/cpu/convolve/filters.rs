//! The gradient of the kernel: rows of a tile are channels, its steps positions of the output.
//!
//! Positions go in chunks. Of a chunk, the gradient of the output is packed in panels of features, and of
//! the image a few channels at a time, so that both are read in order and from near caches at every
//! tap. Only positions that a tap meets in the image are steps of it.

use super::lines::{meeting, sorted};
use super::matrices::one;
use super::naive::window_labels;
use super::parts::{Parts, pairs};
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::product::{Product, aligned};
use crate::exec::cpu::strided::{Labels, Nest};
use crate::exec::cpu::tiles::{MOST, Run, Tile, Tiled, Tiles};
use crate::program::Window;
use std::ops::Range;

/// Positions of a chunk, about.
const POSITIONS: usize = 512;

/// What a window does: extents and strides of image, kernel and output.
#[derive(Clone, Copy)]
struct Axis {
    stride: usize,
    dilation: usize,
    pad: usize,
    extents: [usize; 3],
    strides: [isize; 3],
}

impl Axis {
    fn new(labels: &Labels, w: &Window, roles: [usize; 3]) -> Self {
        let of = window_labels(w);
        Self {
            stride: w.stride,
            dilation: w.dilation,
            pad: w.pad,
            extents: of.map(|l| labels.extents[l]),
            strides: [0, 1, 2].map(|part: usize| labels.strides[roles[part]][of[part]]),
        }
    }

    /// A window of one position.
    fn one() -> Self {
        Self { stride: 1, dilation: 1, pad: 0, extents: [1; 3], strides: [0; 3] }
    }

    /// The outputs that meet the image at a position of the kernel.
    fn meets(&self, k: usize) -> Range<usize> {
        let [inputs, _, outputs] = self.extents;
        let [low, high] = meeting([self.stride, outputs], self.dilation * k, self.pad, inputs);
        low..high
    }

    /// Where such an output meets the image.
    fn input(&self, k: usize, output: usize) -> usize {
        self.stride * output + self.dilation * k - self.pad
    }

    /// The positions of the image that some of these outputs see.
    fn seen(&self, outputs: &Range<usize>) -> Range<usize> {
        let [inputs, kernels, _] = self.extents;
        let reach = self.dilation * (kernels - 1) + 1;
        let end = (self.stride * (outputs.end - 1) + reach).saturating_sub(self.pad).min(inputs);
        let begin = (self.stride * outputs.start).saturating_sub(self.pad).min(end);
        begin..end
    }

    /// Most positions of the image that so many outputs see.
    fn most(&self, outputs: usize) -> usize {
        let [inputs, kernels, _] = self.extents;
        (self.stride * (outputs - 1) + self.dilation * (kernels - 1) + 1).min(inputs)
    }
}

/// A position of the kernel.
#[derive(Clone)]
struct Tap {
    /// Where it is in the kernel.
    kernel: isize,
    /// Its position along the outermost window.
    outer: usize,
    /// Positions in a line of the image and of the output that meet there.
    runs: Vec<Run>,
}

pub(super) struct Filters<T> {
    roles: [usize; 3],
    groups: Nest,
    /// Per image: offsets in image and output.
    images: Vec<[isize; 2]>,
    /// The outermost window; a *line* is all positions at one position of it.
    outer: Axis,
    /// Offsets of the positions of a line in image and output.
    lines: [Vec<isize>; 2],
    taps: Vec<Tap>,
    /// How many, and from one to the next in the kernel.
    channels: (usize, isize),
    /// From a channel to the next in the image.
    channel: isize,
    /// How many, and from one to the next in the output.
    features: (usize, isize),
    /// Images and lines of a chunk.
    chunk: [usize; 2],
    /// Stride of the innermost window.
    stride: usize,
    tiles: Tiles<T>,
}

/// Offsets of the positions of all windows in an operand.
fn positions(axes: &[Axis], part: usize) -> Vec<isize> {
    axes.iter().fold(vec![0], |all, axis| {
        let along =
            |at: isize| (0..axis.extents[part] as isize).map(move |i| at + i * axis.strides[part]);
        all.into_iter().flat_map(along).collect()
    })
}

/// The positions of the kernel along some windows, and what meets there.
fn taps(axes: &[Axis], outer: usize, kernel: isize) -> Vec<Tap> {
    let first = Tap { kernel, outer, runs: vec![Run { a: 0, b: 0, len: 1 }] };
    axes.iter().enumerate().fold(vec![first], |taps, (i, axis)| {
        let innermost = i + 1 == axes.len();
        let along = |tap: Tap| {
            (0..axis.extents[1]).map(move |k| {
                let meets = axis.meets(k);
                let run = |run: &Run, output: usize, len: usize| Run {
                    a: run.a * axis.extents[0] as i32 + axis.input(k, output) as i32,
                    b: run.b * axis.extents[2] as i32 + output as i32,
                    len: len as u32,
                };
                let runs = tap.runs.iter().flat_map(|of| {
                    let step = if innermost { meets.len().max(1) } else { 1 };
                    meets.clone().step_by(step).map(move |output| run(of, output, step))
                });
                let runs = runs.collect();
                Tap { kernel: tap.kernel + k as isize * axis.strides[1], runs, ..tap }
            })
        };
        taps.into_iter().flat_map(along).collect()
    })
}

impl<T: Tiled> Filters<T> {
    /// `None` where a vector does not lie as one, or the machine has no tiles.
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: &Parts) -> Option<Self> {
        let tiles = T::tiles(isa())?;
        let Parts { roles, groups, batch, channels, features } = parts;
        let [image, kernel, output] = *roles;
        let channels = one(labels, channels, [image, kernel])?;
        let features = one(labels, features, [output, kernel])?;
        if features.extent > 1 && features.strides[1] != 1 {
            return None;
        }
        let windows = sorted(labels, windows, image);
        let axes: Vec<_> = windows.iter().map(|w| Axis::new(labels, w, *roles)).collect();
        let (outer, inner) = match &axes[..] {
            [outer, inner @ ..] if !inner.is_empty() => (*outer, inner),
            all => (Axis::one(), all),
        };
        let lines = [0, 2].map(|part| positions(inner, part));
        let taps: Vec<_> = (0..outer.extents[1])
            .flat_map(|k| taps(inner, k, k as isize * outer.strides[1]))
            .collect();
        let images = pairs(labels, batch, [image, output]);
        let of_line = lines[1].len();
        let of_image = of_line * outer.extents[2];
        let chunk = match of_image <= POSITIONS {
            true => [(POSITIONS / of_image).min(images.len()), outer.extents[2]],
            false => [1, (POSITIONS / of_line).clamp(1, outer.extents[2])],
        };
        let plan = Self {
            roles: *roles,
            groups: groups.clone(),
            images,
            outer,
            lines,
            taps,
            channels: (channels.extent, channels.strides[1]),
            channel: channels.strides[0],
            features: (features.extent, features.strides[0]),
            chunk,
            stride: inner.last().map_or(1, |axis| axis.stride),
            tiles,
        };
        let fits = plan.lens().iter().all(|&len| len <= i32::MAX as usize);
        fits.then_some(plan)
    }

    /// Channels that are packed together.
    fn rows(&self) -> usize {
        self.tiles.size(self.channels.0)
    }

    /// Elements of packed image and output, and numbers of runs and of taps with one more.
    fn lens(&self) -> [usize; 4] {
        let [images, lines] = self.chunk;
        let seen = self.outer.most(lines);
        let runs = self.taps.iter().map(|tap| tap.runs.len()).sum::<usize>();
        [
            images * seen * self.lines[0].len() * self.rows(),
            images * lines * self.lines[1].len() * self.tiles.padded(self.features.0),
            images * lines * runs,
            self.taps.len() + 1,
        ]
    }

    fn sizes(&self) -> [usize; 4] {
        let [image, output, runs, taps] = self.lens();
        [
            aligned(image, size_of::<T>()),
            aligned(output, size_of::<T>()),
            aligned(runs, size_of::<Run>()),
            aligned(taps, size_of::<usize>()),
        ]
    }
}

/// Some images, and some lines of their outputs.
struct Chunk {
    images: Range<usize>,
    lines: Range<usize>,
    /// The lines of the images that these see.
    seen: Range<usize>,
}

impl<T: Tiled> Product for Filters<T> {
    fn scratch_bytes(&self) -> usize {
        self.sizes().iter().sum()
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [image, kernel, output] = self.roles.map(|k| operands[k].cast::<T>());
        let [images, lines] = self.chunk;
        self.groups.walk([0; 3], &mut |[i, k, o]| {
            for first in (0..self.images.len()).step_by(images) {
                for line in (0..self.outer.extents[2]).step_by(lines) {
                    let lines = line..self.outer.extents[2].min(line + lines);
                    let images = first..self.images.len().min(first + images);
                    let chunk = Chunk { images, seen: self.outer.seen(&lines), lines };
                    // SAFETY: offsets of the plan; scratch has room for its parts.
                    unsafe {
                        let operands = [image.offset(i), output.offset(o)];
                        self.chunk(&chunk, operands, kernel.offset(k).cast_mut(), scratch);
                    }
                }
            }
        });
    }
}

impl<T: Tiled> Filters<T> {
    /// Lists the runs of every tap in a chunk, and where those of each begin.
    ///
    /// # Safety
    ///
    /// There is room.
    unsafe fn list(&self, chunk: &Chunk, runs: *mut Run, begins: *mut usize) {
        let [of_image, of_output] = [0, 1].map(|k| self.lines[k].len());
        let rows = self.rows();
        let step = (self.stride * rows) as i64;
        let mut count = 0;
        for (t, tap) in self.taps.iter().enumerate() {
            // SAFETY: there is room for a beginning per tap and one more.
            unsafe { *begins.add(t) = count };
            let begin = count;
            let meets = self.outer.meets(tap.outer);
            let lines = chunk.lines.start.max(meets.start)..chunk.lines.end.min(meets.end);
            for (n, line) in
                (0..chunk.images.len()).flat_map(|n| lines.clone().map(move |l| (n, l)))
            {
                let input = self.outer.input(tap.outer, line) - chunk.seen.start;
                let a = (n * chunk.seen.len() + input) * of_image;
                let b = (n * chunk.lines.len() + line - chunk.lines.start) * of_output;
                for run in &tap.runs {
                    let a = ((a + run.a as usize) * rows) as i32;
                    let run = Run { a, b: b as i32 + run.b, len: run.len };
                    // SAFETY: there is room for the runs of all taps at all lines.
                    unsafe {
                        let last = (count > begin).then(|| &mut *runs.add(count - 1));
                        let follows = |last: &Run| {
                            let len = i64::from(last.len);
                            i64::from(run.b) == i64::from(last.b) + len
                                && i64::from(run.a) == i64::from(last.a) + len * step
                        };
                        match last {
                            Some(last) if follows(last) => last.len += run.len,
                            _ => {
                                runs.add(count).write(run);
                                count += 1;
                            }
                        }
                    }
                }
            }
        }
        // SAFETY: there is room for a beginning per tap and one more.
        unsafe { *begins.add(self.taps.len()) = count };
    }

    /// Adds what a chunk has to the gradient; the first is its beginning.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn chunk(
        &self,
        chunk: &Chunk,
        [image, output]: [*const T; 2],
        kernel: *mut T,
        scratch: *mut u8,
    ) {
        let [x_bytes, y_bytes, run_bytes, _] = self.sizes();
        let (x, y) = (scratch.cast::<T>(), scratch.wrapping_add(x_bytes).cast::<T>());
        let runs = scratch.wrapping_add(x_bytes + y_bytes).cast::<Run>();
        let begins = scratch.wrapping_add(x_bytes + y_bytes + run_bytes).cast::<usize>();
        let Chunk { images, lines, seen } = chunk;
        let positions = images.len() * lines.len() * self.lines[1].len();
        let rows = self.rows();
        // SAFETY: offsets of the plan; scratch has room for its parts.
        unsafe {
            self.list(chunk, runs, begins);
            for [first, count, width] in self.tiles.panels(self.features.0) {
                let from = output.offset(first as isize * self.features.1);
                let (of, to) = ((count, self.features.1), y.add(first * positions));
                self.pack(1, [images, lines], from, of, width, to);
            }
            let begins = std::slice::from_raw_parts(begins, self.taps.len() + 1);
            let all = begins.last().copied().unwrap_or(0);
            let runs = std::slice::from_raw_parts(runs, all);
            let adds = images.start > 0 || lines.start > 0;
            for channels in self.tiles.cut(self.channels.0) {
                let (channel, count) = (channels.start, channels.len());
                let from = image.offset(channel as isize * self.channel);
                self.pack(0, [images, seen], from, (count, self.channel), rows, x);
                let kernel = kernel.offset(channel as isize * self.channels.1);
                for [first, columns, width] in self.tiles.panels(self.features.0) {
                    let y = y.add(first * positions).cast_const();
                    for (tap, range) in self.taps.iter().zip(begins.windows(2)) {
                        let to = kernel.offset(tap.kernel + first as isize);
                        let runs = &runs[range[0]..range[1]];
                        self.tile(runs, [x.cast_const(), y], to, [count, columns, width], adds);
                    }
                }
            }
        }
    }

    /// Packs lines of some images, or of their outputs: `count` elements of each position, `step` apart.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn pack(
        &self,
        part: usize,
        [images, lines]: [&Range<usize>; 2],
        from: *const T,
        (count, step): (usize, isize),
        width: usize,
        mut to: *mut T,
    ) {
        for image in &self.images[images.clone()] {
            for line in lines.clone() {
                let at = image[part] + line as isize * self.outer.strides[2 * part];
                let from = from.wrapping_offset(at);
                // SAFETY: positions of the plan; `to` has room for all.
                to = unsafe {
                    self.tiles.pack_rows(from, &self.lines[part], (count, step), width, to)
                };
            }
        }
    }

    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn tile(
        &self,
        runs: &[Run],
        [x, b]: [*const T; 2],
        kernel: *mut T,
        [rows, columns, width]: [usize; 3],
        adds: bool,
    ) {
        let (mut from, mut to) = ([x; MOST], [kernel; MOST]);
        for (p, (from, to)) in from.iter_mut().zip(&mut to).take(rows).enumerate() {
            *from = x.wrapping_add(p);
            *to = kernel.wrapping_offset(p as isize * self.channels.1);
        }
        let step = (self.stride * self.rows()) as isize;
        let tile = Tile { rows: &from, runs, step, b, to: &to, accumulate: adds };
        // SAFETY: the runs lie within what is packed, the columns in the kernel's rows.
        unsafe { self.tiles.run(rows, [columns, width], tile) };
    }
}

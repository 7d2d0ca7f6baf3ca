//! The gradient of a convolution's input.
//!
//! Vectors run along a row of the input image, positions of the last window and channels together.
//! The kernel is packed with zeros around it, so that the row of kernel values that meets a given
//! output position is one unaligned vector; rows of a block are images. Only pairs of output and
//! input positions that some kernel position ties are visited.

use super::block::{Block, Element, MOST_LANES, MOST_ROWS, Micro, Offsets};
use super::blocks::{Buffer, is_run, store};
use super::convolve::{CHUNK, Parts, labels_len, pairs};
use super::convolve_naive::window_labels;
use super::product::{Product, aligned};
use super::strided::{Labels, Nest};
use crate::program::Window;

/// A window of an input gradient.
#[derive(Clone, Copy)]
struct Span {
    window: Window,
    inputs: usize,
    kernels: usize,
    outputs: usize,
    /// Stride of the output position in the output image.
    output_stride: isize,
    /// Stride of the input position in the input image.
    input_stride: isize,
    /// Elements of the packed kernel per position.
    kernel_stride: usize,
}

/// Lanes of a vector that follow each other in the flattened row.
struct Row {
    span: Span,
    /// Channels per position.
    channels: usize,
    /// Zeros before the packed row's first position.
    before: usize,
    /// Length of a packed row.
    len: usize,
}

pub(super) struct InputGradient<T> {
    roles: [usize; 3],
    groups: Nest,
    /// All windows but the row's.
    spans: Vec<Span>,
    row: Row,
    /// Per image: offsets of output and input.
    batch: Vec<[isize; 2]>,
    /// Per feature: offsets in kernel and output.
    features: Vec<[isize; 2]>,
    /// Per lane: offset in the input.
    lanes: Vec<isize>,
    /// Per packed element that is not zero: offset in the kernel, place.
    packing: Vec<(isize, usize)>,
    packed_len: usize,
    most_steps: usize,
    chunk: usize,
    micro: Micro<T>,
}

impl<T: Element> InputGradient<T> {
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: Parts) -> Option<Self> {
        let Parts { roles, groups, batch, channels, features } = parts;
        let [image, kernel, output] = roles;
        let batch = pairs(labels, &batch, [output, image]);
        let features = pairs(labels, &features, [kernel, output]);
        let channels = pairs(labels, &channels, [kernel, image]);
        let span = |window: &Window| {
            let [i, k, o] = window_labels(window);
            Span {
                window: *window,
                inputs: labels.extents[i],
                kernels: labels.extents[k],
                outputs: labels.extents[o],
                output_stride: labels.strides[output][o],
                input_stride: labels.strides[image][i],
                kernel_stride: 0,
            }
        };
        let mut spans: Vec<_> = windows.iter().map(span).collect();
        // The last is the one whose positions are closest in memory.
        spans.sort_by_key(|span| std::cmp::Reverse(span.input_stride));
        let last = spans.pop()?;
        let count = channels.len();
        let lanes: Vec<isize> = (0..last.inputs as isize)
            .flat_map(|x| channels.iter().map(move |c| x * last.input_stride + c[1]))
            .collect();
        let micro = T::micro(lanes.len());
        let before = micro.lanes + (count - 1);
        let before = before.next_multiple_of(MOST_LANES);
        let reach = (last.kernels - 1) * last.window.dilation + 1;
        let len = (before + reach * count + micro.lanes).next_multiple_of(MOST_LANES);
        let row = Row { span: last, channels: count, before, len };
        let mut step = len * features.len();
        for span in spans.iter_mut().rev() {
            span.kernel_stride = step;
            step *= span.kernels;
        }
        let kernel_of = |span: &Span| labels.strides[kernel][span.window.kernel as usize];
        let mut packing = Vec::new();
        let mut places = vec![(0, 0)];
        for span in &spans {
            let turn = |(from, to): (isize, usize)| {
                let stride = kernel_of(span);
                let to_stride = span.kernel_stride;
                (0..span.kernels).map(move |k| (from + k as isize * stride, to + k * to_stride))
            };
            places = places.into_iter().flat_map(turn).collect();
        }
        for (from, to) in places {
            for (f, feature) in features.iter().enumerate() {
                for k in 0..last.kernels {
                    for (c, channel) in channels.iter().enumerate() {
                        let from = from + feature[0] + k as isize * kernel_of(&last) + channel[0];
                        let at = before + k * last.window.dilation * count + c;
                        packing.push((from, to + f * len + at));
                    }
                }
            }
        }
        let most_steps = features.len()
            * last.outputs
            * spans.iter().map(|span| span.kernels.min(span.outputs)).product::<usize>();
        let bytes = size_of::<T>() * labels_len(labels, output) / batch.len();
        let chunk = (CHUNK / bytes.max(1)).next_multiple_of(micro.rows).clamp(1, batch.len());
        let packed_len = step;
        Some(Self {
            roles,
            groups,
            spans,
            row,
            batch,
            features,
            lanes,
            packing,
            packed_len,
            most_steps,
            chunk,
            micro,
        })
    }
}

/// The steps of one place of the input, in scratch.
struct Steps {
    at: *mut Offsets,
    len: usize,
}

impl Steps {
    /// # Safety
    ///
    /// There is room.
    unsafe fn push(&mut self, output: isize, kernel: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.at.add(self.len).write([output as i32, kernel as i32]) };
        self.len += 1;
    }
}

impl<T: Element> InputGradient<T> {
    /// Visits all positions of all windows but the last: their offset in the input, and the
    /// positions.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn places(&self, visit: &mut impl FnMut(&Self, isize, usize)) {
        let count: usize = self.spans.iter().map(|span| span.inputs).product();
        for index in 0..count {
            let (mut rest, mut at) = (index, 0);
            for span in self.spans.iter().rev() {
                at += (rest % span.inputs) as isize * span.input_stride;
                rest /= span.inputs;
            }
            visit(self, at, index);
        }
    }

    /// The steps that end at position `index` of `spans`, lanes from `lane` on.
    ///
    /// # Safety
    ///
    /// There is room for `most_steps`.
    unsafe fn steps(
        &self,
        spans: &[Span],
        index: usize,
        lane: usize,
        at: (isize, usize),
        steps: &mut Steps,
    ) {
        let Some((span, outer)) = spans.split_last() else {
            // SAFETY: the caller's promise.
            return unsafe { self.row_steps(lane, at, steps) };
        };
        let (input, rest) = (index % span.inputs, index / span.inputs);
        for k in 0..span.kernels {
            let Some(o) = output_position(span, input, k) else { continue };
            let output = at.0 + o as isize * span.output_stride;
            // SAFETY: the caller's promise.
            unsafe {
                self.steps(outer, rest, lane, (output, at.1 + k * span.kernel_stride), steps)
            };
        }
    }

    /// The last window's part of [`Self::steps`].
    ///
    /// # Safety
    ///
    /// There is room.
    unsafe fn row_steps(&self, lane: usize, (output, kernel): (isize, usize), steps: &mut Steps) {
        let Row { span, channels, before, len } = &self.row;
        let w = &span.window;
        let last = (lane + self.micro.lanes).min(self.lanes.len()) - 1;
        let (first_x, last_x) = (lane / channels, last / channels);
        for o in 0..span.outputs {
            // Position of the kernel's row that meets input position 0.
            let shift = w.pad as isize - (w.stride * o) as isize;
            let meets = |x: usize| {
                let k = x as isize + shift;
                k >= 0 && k as usize % w.dilation == 0 && k as usize / w.dilation < span.kernels
            };
            if !(first_x..=last_x).any(meets) {
                continue;
            }
            let at = *before as isize + lane as isize + shift * *channels as isize;
            for (f, feature) in self.features.iter().enumerate() {
                let output = output + o as isize * span.output_stride + feature[1];
                // SAFETY: the caller's promise.
                unsafe { steps.push(output, kernel + f * len + at as usize) };
            }
        }
    }

    fn steps_bytes(&self) -> usize {
        aligned(self.most_steps, size_of::<Offsets>())
    }

    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn group(
        &self,
        image: *mut T,
        kernel: *const T,
        output: *const T,
        packed: *mut T,
        steps: *mut Offsets,
    ) {
        let lanes = self.micro.lanes;
        let mut c = Buffer([T::default(); MOST_ROWS * MOST_LANES]);
        // SAFETY: tables hold offsets of the operands, scratch has room.
        unsafe {
            for &(from, to) in &self.packing {
                *packed.add(to) = *kernel.offset(from);
            }
            for chunk in self.batch.chunks(self.chunk) {
                self.places(&mut |_, at, index| {
                    for lane in (0..self.lanes.len()).step_by(lanes) {
                        let mut list = Steps { at: steps, len: 0 };
                        self.steps(&self.spans, index, lane, (0, 0), &mut list);
                        let steps = std::slice::from_raw_parts(list.at, list.len);
                        let of = &self.lanes[lane..self.lanes.len().min(lane + lanes)];
                        let run = is_run(of.iter().copied());
                        let mut rest = chunk;
                        while !rest.is_empty() {
                            let count = self.micro.take(rest.len());
                            let (mut rows, mut to) = ([rest[0][0]; MOST_ROWS], [0; MOST_ROWS]);
                            for (p, n) in rest[..count].iter().enumerate() {
                                (rows[p], to[p]) = (n[0], n[1] + at);
                            }
                            let c = c.0.as_mut_ptr();
                            let (rows, accumulate) = (&rows, false);
                            let block = Block { a: output, rows, steps, b: packed, c, accumulate };
                            self.micro.run(count, block);
                            let lane = (of.len(), |j: usize| of[j]);
                            store(image, &to[..count], lane, run, (c, lanes), false);
                            rest = &rest[count..];
                        }
                    }
                });
            }
        }
    }
}

fn output_position(span: &Span, input: usize, k: usize) -> Option<usize> {
    let at = (input + span.window.pad).checked_sub(span.window.dilation * k)?;
    let o = at / span.window.stride;
    (at % span.window.stride == 0 && o < span.outputs).then_some(o)
}

impl<T: Element> Product for InputGradient<T> {
    fn scratch_bytes(&self) -> usize {
        self.steps_bytes() + aligned(self.packed_len, size_of::<T>())
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [image, kernel, output] = self.roles.map(|k| operands[k].cast::<T>());
        // SAFETY: scratch has room for the steps, then the packed kernel.
        unsafe {
            let packed = scratch.add(self.steps_bytes()).cast::<T>();
            std::slice::from_raw_parts_mut(packed, self.packed_len).fill(T::default());
            self.groups.walk([0; 3], &mut |[i, k, o]| {
                let (image, kernel, output) = (image.offset(i), kernel.offset(k), output.offset(o));
                self.group(image.cast_mut(), kernel, output, packed, scratch.cast());
            });
        }
    }
}

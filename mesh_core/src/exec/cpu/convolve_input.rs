//! The gradient of a convolution's input.
//!
//! Lanes run along a row of the input image: positions of one window and channels together. Where
//! a vector spans several positions, the kernel is packed with zeros around it, so that the values
//! which meet an output position are one unaligned vector. Rows of a block are images. Only pairs of
//! output and input positions that some kernel position ties are visited.

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
    /// Stride of the kernel position in the kernel.
    kernel_stride: isize,
    /// Stride of the output position in the output image.
    output_stride: isize,
    /// Stride of the input position in the input image.
    input_stride: isize,
}

impl Span {
    /// The kernel position that ties an output position to an input position.
    fn kernel(&self, input: usize, output: usize) -> Option<usize> {
        let at = (input + self.window.pad).checked_sub(self.window.stride * output)?;
        let k = at / self.window.dilation;
        (at % self.window.dilation == 0 && k < self.kernels).then_some(k)
    }
}

/// All ties of a window: per input position, offsets in the output image and the packed kernel.
struct Ties {
    inputs: Vec<Vec<Offsets>>,
    input_stride: isize,
    /// Most ties of one input position.
    most: usize,
}

impl Ties {
    fn new(span: &Span, packed_stride: usize) -> Self {
        let of = |input: usize| {
            let tie = |o: usize| {
                let k = span.kernel(input, o)?;
                Some([(o as isize * span.output_stride) as i32, (k * packed_stride) as i32])
            };
            (0..span.outputs).filter_map(tie).collect()
        };
        let inputs: Vec<Vec<_>> = (0..span.inputs).map(of).collect();
        let most = inputs.iter().map(Vec::len).max().unwrap_or(0);
        Self { inputs, input_stride: span.input_stride, most }
    }
}

/// The last window and the channels: what lanes run along.
struct Row {
    span: Span,
    /// Per channel: offsets in kernel and input.
    channels: Vec<[isize; 2]>,
    /// Per feature: offsets in kernel and output.
    features: Vec<[isize; 2]>,
    /// Lanes of a vector.
    lanes: usize,
}

impl Row {
    /// Whether every vector is channels of one position. Then vectors of the packed kernel are in
    /// the order (position, channels, feature); else there is one row of (positions, channels) for
    /// each feature, with zeros around it and between dilated positions.
    fn is_whole(&self) -> bool {
        self.channels.len() % self.lanes == 0
    }

    /// Zeros before a row's first position.
    fn before(&self) -> usize {
        (self.lanes + self.channels.len()).next_multiple_of(MOST_LANES)
    }

    /// Elements of a row.
    fn len(&self) -> usize {
        let reach = (self.span.kernels - 1) * self.span.window.dilation + 1;
        (self.before() + reach * self.channels.len() + self.lanes).next_multiple_of(MOST_LANES)
    }

    /// Elements of the packed kernel per position of the other windows.
    fn packed_len(&self) -> usize {
        match self.is_whole() {
            true => self.span.kernels * self.channels.len() * self.features.len(),
            false => self.len() * self.features.len(),
        }
    }

    /// Where a kernel element goes.
    fn place(&self, k: usize, c: usize, f: usize) -> usize {
        if self.is_whole() {
            let vectors = self.channels.len() / self.lanes;
            let vector = (k * vectors + c / self.lanes) * self.features.len() + f;
            return vector * self.lanes + c % self.lanes;
        }
        let x = k * self.span.window.dilation;
        f * self.len() + self.before() + x * self.channels.len() + c
    }

    /// The steps of the vector that begins at `lane`.
    fn steps(&self, lane: usize) -> Vec<Offsets> {
        let count = self.channels.len();
        let last = (lane + self.lanes).min(self.span.inputs * count) - 1;
        let mut steps = Vec::new();
        for o in 0..self.span.outputs {
            let tie = |x: usize| self.span.kernel(x, o);
            let Some(k) = (lane / count..=last / count).find_map(tie) else { continue };
            let output = o as isize * self.span.output_stride;
            for (f, feature) in self.features.iter().enumerate() {
                let at = if self.is_whole() {
                    self.place(k, lane % count, f)
                } else {
                    let window = &self.span.window;
                    let shift = window.pad as isize - (window.stride * o) as isize;
                    let from = (f * self.len() + self.before() + lane) as isize;
                    (from + shift * count as isize) as usize
                };
                steps.push([(output + feature[1]) as i32, at as i32]);
            }
        }
        steps
    }
}

pub(super) struct InputGradient<T> {
    roles: [usize; 3],
    groups: Nest,
    /// All windows but the row's.
    ties: Vec<Ties>,
    /// Per vector of a row: its steps.
    rows: Vec<Vec<Offsets>>,
    /// Per image: offsets of output and input.
    batch: Vec<[isize; 2]>,
    /// Per lane: offset in the input.
    lanes: Vec<isize>,
    /// Per element of the kernel: its offset, and its place in the packed kernel.
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
                kernel_stride: labels.strides[kernel][k],
                output_stride: labels.strides[output][o],
                input_stride: labels.strides[image][i],
            }
        };
        let mut spans: Vec<_> = windows.iter().map(span).collect();
        // The last is the one whose positions are closest in memory.
        spans.sort_by_key(|span| std::cmp::Reverse(span.input_stride));
        let last = spans.pop()?;
        let lanes: Vec<isize> = (0..last.inputs as isize)
            .flat_map(|x| channels.iter().map(move |c| x * last.input_stride + c[1]))
            .collect();
        let micro = T::micro(channels.len());
        let row = Row { span: last, channels, features, lanes: micro.lanes };
        let mut packed_len = row.packed_len();
        // Offsets of the other windows' kernel positions: in the kernel, in the packed kernel.
        let mut places = vec![(0, 0)];
        let mut ties = Vec::new();
        for span in spans.iter().rev() {
            ties.insert(0, Ties::new(span, packed_len));
            let turn = |k: usize| {
                let (stride, packed) = (k as isize * span.kernel_stride, k * packed_len);
                places.iter().map(move |&(from, to)| (from + stride, to + packed))
            };
            places = (0..span.kernels).flat_map(turn).collect();
            packed_len *= span.kernels;
        }
        let mut packing = Vec::new();
        for (from, to) in places {
            for k in 0..last.kernels {
                let from = from + k as isize * last.kernel_stride;
                for (c, channel) in row.channels.iter().enumerate() {
                    for (f, feature) in row.features.iter().enumerate() {
                        packing.push((from + channel[0] + feature[0], to + row.place(k, c, f)));
                    }
                }
            }
        }
        let rows: Vec<_> =
            (0..lanes.len()).step_by(micro.lanes).map(|lane| row.steps(lane)).collect();
        let most_steps = rows.iter().map(Vec::len).max().unwrap_or(0)
            * ties.iter().map(|ties| ties.most).product::<usize>();
        let bytes = size_of::<T>() * labels_len(labels, output) / batch.len();
        let chunk = (CHUNK / bytes.max(1)).next_multiple_of(micro.rows).clamp(1, batch.len());
        Some(Self {
            roles,
            groups,
            ties,
            rows,
            batch,
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

impl Steps {
    /// Adds the steps of one vector of a row, at every tie of the positions `index` of `ties`.
    ///
    /// # Safety
    ///
    /// There is room.
    unsafe fn add(&mut self, ties: &[Ties], index: usize, row: &[Offsets], at: Offsets) {
        let Some((last, outer)) = ties.split_last() else {
            // SAFETY: the caller's promise.
            let to = unsafe { std::slice::from_raw_parts_mut(self.at.add(self.len), row.len()) };
            for (to, step) in to.iter_mut().zip(row) {
                *to = [step[0] + at[0], step[1] + at[1]];
            }
            self.len += row.len();
            return;
        };
        let (input, rest) = (index % last.inputs.len(), index / last.inputs.len());
        for tie in &last.inputs[input] {
            // SAFETY: the caller's promise.
            unsafe { self.add(outer, rest, row, [tie[0] + at[0], tie[1] + at[1]]) };
        }
    }
}

impl<T: Element> InputGradient<T> {
    /// Offset in the input of the positions `index` of all windows but the row's.
    fn place(&self, mut index: usize) -> isize {
        let mut at = 0;
        for ties in self.ties.iter().rev() {
            at += (index % ties.inputs.len()) as isize * ties.input_stride;
            index /= ties.inputs.len();
        }
        at
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
            let places: usize = self.ties.iter().map(|ties| ties.inputs.len()).product();
            for chunk in self.batch.chunks(self.chunk) {
                for index in 0..places {
                    let at = self.place(index);
                    for (row, of) in self.rows.iter().zip(self.lanes.chunks(lanes)) {
                        let mut list = Steps { at: steps, len: 0 };
                        list.add(&self.ties, index, row, [0, 0]);
                        let steps = std::slice::from_raw_parts(list.at, list.len);
                        let run = is_run(of.iter().copied());
                        let mut rest = chunk;
                        while !rest.is_empty() {
                            let count = self.micro.take(rest.len());
                            let (mut rows, mut to) = ([rest[0][0]; MOST_ROWS], [0; MOST_ROWS]);
                            for (p, n) in rest[..count].iter().enumerate() {
                                (rows[p], to[p]) = (n[0], n[1] + at);
                            }
                            let (c, rows) = (c.0.as_mut_ptr(), &rows);
                            let (b, accumulate) = (packed.cast_const(), false);
                            let block = Block { a: output, rows, steps, b, c, accumulate };
                            self.micro.run(count, block);
                            let lane = (of.len(), |j: usize| of[j]);
                            store(image, &to[..count], lane, run, (c, lanes), false);
                            rest = &rest[count..];
                        }
                    }
                }
            }
        }
    }
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

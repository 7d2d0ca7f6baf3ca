//! The gradient of a convolution's input.
//!
//! Lanes are channels, or where those do not fill vectors, a row of the input image: positions of
//! one window and channels together. Then the kernel is packed with zeros around it, so that the
//! values which meet an output position are one unaligned vector. Rows of a block are images and
//! input positions that meet the same kernel positions. Only pairs of output and input positions
//! that some kernel position ties are visited.

use super::block::{Block, MOST_ELEMENTS, MOST_ROWS, Offsets};
use super::micro::{Element, Micro};
use super::naive::window_labels;
use super::parts::{CHUNK, Parts, labels_len, pairs};
use super::rows::{Buffer, is_run, store};
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::product::{Product, aligned};
use crate::exec::cpu::strided::{Labels, Nest};
use crate::program::Window;

/// A window of an input gradient.
#[derive(Clone, Copy)]
struct Span {
    window: Window,
    inputs: usize,
    kernels: usize,
    outputs: usize,
    /// Strides of the positions in kernel, output image and input image.
    kernel_stride: isize,
    output_stride: isize,
    input_stride: isize,
}

impl Span {
    fn new(labels: &Labels, window: &Window, roles: [usize; 3]) -> Self {
        let [i, k, o] = window_labels(window);
        let [image, kernel, output] = roles;
        Self {
            window: *window,
            inputs: labels.extents[i],
            kernels: labels.extents[k],
            outputs: labels.extents[o],
            kernel_stride: labels.strides[kernel][k],
            output_stride: labels.strides[output][o],
            input_stride: labels.strides[image][i],
        }
    }

    /// The kernel position that ties an output position to an input position.
    fn kernel(&self, input: usize, output: usize) -> Option<usize> {
        let at = (input + self.window.pad).checked_sub(self.window.stride * output)?;
        let k = at / self.window.dilation;
        (at % self.window.dilation == 0 && k < self.kernels).then_some(k)
    }
}

/// Input positions that meet the same kernel positions.
#[derive(Clone)]
struct Place {
    /// Offsets in the output image, for the first of the positions, and in the packed kernel.
    ties: Vec<Offsets>,
    /// Per input position: how far its output offsets are from the first's, and where it is.
    positions: Vec<[isize; 2]>,
}

impl Place {
    /// All places of one window.
    fn all(span: &Span, packed_stride: usize) -> Vec<Self> {
        let mut places: Vec<Self> = Vec::new();
        for input in 0..span.inputs {
            let tie = |o: usize| {
                let k = span.kernel(input, o)?;
                Some([(o as isize * span.output_stride) as i32, (k * packed_stride) as i32])
            };
            let ties: Vec<Offsets> = (0..span.outputs).filter_map(tie).collect();
            let shift = |place: &Self| match (ties.first(), place.ties.first()) {
                (Some(a), Some(b)) => a[0] - b[0],
                _ => 0,
            };
            let same = |place: &&mut Self| {
                let shift = shift(place);
                let mut pairs = ties.iter().zip(&place.ties);
                ties.len() == place.ties.len() && pairs.all(|(a, b)| *a == [b[0] + shift, b[1]])
            };
            let at = input as isize * span.input_stride;
            match places.iter_mut().find(same) {
                Some(place) => {
                    let shift = shift(place) as isize;
                    place.positions.push([shift, at]);
                }
                None => places.push(Self { ties, positions: vec![[0, at]] }),
            }
        }
        places
    }

    /// A place of two windows together.
    fn join(&self, inner: &Self) -> Self {
        Self {
            ties: sums(&self.ties, &inner.ties),
            positions: sums(&self.positions, &inner.positions),
        }
    }
}

/// The sum of each with each.
fn sums<T: Copy + std::ops::Add<Output = T>>(outer: &[[T; 2]], inner: &[[T; 2]]) -> Vec<[T; 2]> {
    outer.iter().flat_map(|a| inner.iter().map(move |b| [a[0] + b[0], a[1] + b[1]])).collect()
}

/// What lanes run along.
struct Row {
    /// The window whose positions are lanes, unless channels are enough.
    span: Option<Span>,
    /// Per channel: offsets in kernel and input.
    channels: Vec<[isize; 2]>,
    /// Per feature: offsets in kernel and output.
    features: Vec<[isize; 2]>,
    /// Lanes of a vector.
    lanes: usize,
}

impl Row {
    /// Zeros before a row's first position.
    fn before(&self) -> usize {
        (self.lanes + self.channels.len()).next_multiple_of(self.lanes)
    }

    /// Elements of a row.
    fn len(&self, span: &Span) -> usize {
        let reach = (span.kernels - 1) * span.window.dilation + 1;
        (self.before() + reach * self.channels.len() + self.lanes).next_multiple_of(self.lanes)
    }

    /// Elements of the packed kernel per position of the other windows.
    fn packed_len(&self) -> usize {
        let each = self.span.map_or(self.channels.len(), |span| self.len(&span));
        each * self.features.len()
    }

    /// Where elements of the kernel go: offset in the kernel, place in the packed kernel.
    fn packing(&self) -> Vec<(isize, usize)> {
        let mut packing = Vec::new();
        for (c, channel) in self.channels.iter().enumerate() {
            for (f, feature) in self.features.iter().enumerate() {
                let from = channel[0] + feature[0];
                let Some(span) = self.span else {
                    packing.push((from, self.vector(c, f) + c % self.lanes));
                    continue;
                };
                for k in 0..span.kernels {
                    let x = k * span.window.dilation * self.channels.len();
                    let to = f * self.len(&span) + self.before() + x + c;
                    packing.push((from + k as isize * span.kernel_stride, to));
                }
            }
        }
        packing
    }

    /// The vector that holds a channel, if lanes are channels.
    fn vector(&self, channel: usize, feature: usize) -> usize {
        (channel / self.lanes * self.features.len() + feature) * self.lanes
    }

    /// Per lane: offset in the input.
    fn offsets(&self) -> Vec<isize> {
        let channels: Vec<_> = self.channels.iter().map(|c| [c[1], 0]).collect();
        let (count, stride) = self.span.map_or((1, 0), |span| (span.inputs, span.input_stride));
        let positions: Vec<_> = (0..count as isize).map(|x| [x * stride, 0]).collect();
        sums(&positions, &channels).into_iter().map(|at| at[0]).collect()
    }

    /// The steps of the vector that begins at `lane`.
    fn steps(&self, lane: usize) -> Vec<Offsets> {
        let features = self.features.iter().enumerate();
        let Some(span) = self.span else {
            return features.map(|(f, at)| [at[1] as i32, self.vector(lane, f) as i32]).collect();
        };
        let count = self.channels.len();
        let last = (lane + self.lanes).min(span.inputs * count) - 1;
        let meets = |o: &usize| (lane / count..=last / count).any(|x| span.kernel(x, *o).is_some());
        let step = |o: usize| {
            let shift = span.window.pad as isize - (span.window.stride * o) as isize;
            let from = (self.before() + lane) as isize + shift * count as isize;
            features.clone().map(move |(f, at)| {
                let output = o as isize * span.output_stride + at[1];
                [output as i32, (from + (f * self.len(&span)) as isize) as i32]
            })
        };
        (0..span.outputs).filter(meets).flat_map(step).collect()
    }
}

pub(super) struct InputGradient<T> {
    roles: [usize; 3],
    groups: Nest,
    places: Vec<Place>,
    /// Per vector of a row: its steps.
    rows: Vec<Vec<Offsets>>,
    /// Per lane: offset in the input.
    lanes: Vec<isize>,
    /// Per image: offsets of output and input.
    batch: Vec<[isize; 2]>,
    /// Per element of the kernel: its offset, and its place in the packed kernel.
    packing: Vec<(isize, usize)>,
    packed_len: usize,
    most_steps: usize,
    /// Images per chunk.
    chunk: usize,
    micro: Micro<T>,
}

impl<T: Element> InputGradient<T> {
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: Parts) -> Self {
        let Parts { roles, groups, batch, channels, features } = parts;
        let [image, kernel, output] = roles;
        let batch = pairs(labels, &batch, [output, image]);
        let features = pairs(labels, &features, [kernel, output]);
        let channels = pairs(labels, &channels, [kernel, image]);
        let mut spans: Vec<_> = windows.iter().map(|w| Span::new(labels, w, roles)).collect();
        // The last is the one whose positions are closest in memory.
        spans.sort_by_key(|span| std::cmp::Reverse(span.input_stride));
        let micro = T::micro(isa(), channels.len());
        let span = if channels.len().is_multiple_of(micro.lanes) { None } else { spans.pop() };
        let row = Row { span, channels, features, lanes: micro.lanes };
        let mut packing = row.packing();
        let mut packed_len = row.packed_len();
        let mut places = vec![Place { ties: vec![[0, 0]], positions: vec![[0, 0]] }];
        for span in spans.iter().rev() {
            let outer = Place::all(span, packed_len);
            places = outer.iter().flat_map(|a| places.iter().map(|b| a.join(b))).collect();
            let turn = |k: usize| {
                let (stride, packed) = (k as isize * span.kernel_stride, k * packed_len);
                packing.iter().map(move |&(from, to)| (from + stride, to + packed))
            };
            packing = (0..span.kernels).flat_map(turn).collect();
            packed_len *= span.kernels;
        }
        let lanes = row.offsets();
        let rows: Vec<_> =
            (0..lanes.len()).step_by(micro.lanes).map(|lane| row.steps(lane)).collect();
        let most = |lens: &mut dyn Iterator<Item = usize>| lens.max().unwrap_or(0);
        let most_steps = most(&mut rows.iter().map(Vec::len))
            * most(&mut places.iter().map(|place| place.ties.len()));
        let bytes = size_of::<T>() * labels_len(labels, output) / batch.len();
        let chunk = (CHUNK / bytes.max(1)).next_multiple_of(micro.groups).clamp(1, batch.len());
        Self {
            roles,
            groups,
            places,
            rows,
            lanes,
            batch,
            packing,
            packed_len,
            most_steps,
            chunk,
            micro,
        }
    }

    /// Whether offsets fit into the tables.
    pub(super) fn fits(&self) -> bool {
        self.packed_len <= i32::MAX as usize
    }

    fn steps_bytes(&self) -> usize {
        aligned(self.most_steps, size_of::<Offsets>())
    }

    /// # Safety
    ///
    /// As [`Product::run`]; scratch holds the packed kernel and room for the steps.
    unsafe fn place(
        &self,
        place: &Place,
        images: &[[isize; 2]],
        (image, packed, output): (*mut T, *const T, *const T),
        steps: *mut Offsets,
    ) {
        let lanes = self.micro.lanes;
        let mut c = Buffer([T::default(); MOST_ELEMENTS]);
        let c = c.0.as_mut_ptr();
        let packed_rows = std::array::from_fn(|p| (p * lanes) as isize);
        // Images next to each other are equally far apart; of few images positions come first.
        let many = images.len() >= self.micro.groups;
        let (outer, inner) =
            if many { (&place.positions[..], images) } else { (images, &place.positions[..]) };
        let total = outer.len() * inner.len();
        for (row, of) in self.rows.iter().zip(self.lanes.chunks(lanes)) {
            let run = is_run(of.iter().copied());
            // SAFETY: tables hold offsets of the operands, scratch has room.
            unsafe {
                let steps = list(&place.ties, row, steps);
                let mut offsets = outer
                    .iter()
                    .flat_map(|a| inner.iter().map(move |b| [a[0] + b[0], a[1] + b[1]]));
                let mut left = total;
                while left > 0 {
                    let count = self.micro.take(left);
                    let (mut from, mut to) = ([0; MOST_ROWS], [0; MOST_ROWS]);
                    for (p, row) in offsets.by_ref().take(count).enumerate() {
                        [from[p], to[p]] = row;
                    }
                    let first = from[0];
                    from[count..].fill(first);
                    let block = Block {
                        a: output,
                        rows: &from,
                        slide: 0,
                        steps: [steps, &[]],
                        b: packed,
                        b_slide: 0,
                        c,
                        to: &packed_rows,
                        accumulate: false,
                    };
                    self.micro.run(count, block);
                    let lane = (of.len(), |j: usize| of[j]);
                    store(image, &to[..count], lane, run, (c, lanes), false);
                    left -= count;
                }
            }
        }
    }
}

/// The steps of one vector of a row at every tie of a place.
///
/// # Safety
///
/// There is room.
unsafe fn list<'a>(ties: &[Offsets], row: &[Offsets], at: *mut Offsets) -> &'a [Offsets] {
    // SAFETY: `at` is good for a row per tie; the offsets of the ties lie within the image.
    unsafe {
        for (i, tie) in ties.iter().enumerate() {
            let to = std::slice::from_raw_parts_mut(at.add(i * row.len()), row.len());
            for (to, step) in to.iter_mut().zip(row) {
                *to = [step[0] + tie[0], step[1] + tie[1]];
            }
        }
        std::slice::from_raw_parts(at, ties.len() * row.len())
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
                for &(from, to) in &self.packing {
                    *packed.add(to) = *kernel.offset(k + from);
                }
                let operands = (image.offset(i).cast_mut(), packed.cast_const(), output.offset(o));
                for images in self.batch.chunks(self.chunk) {
                    for place in &self.places {
                        self.place(place, images, operands, scratch.cast());
                    }
                }
            });
        }
    }
}

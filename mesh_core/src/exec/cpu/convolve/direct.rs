//! Forward convolution, the gradient of the kernel, and of the input where windows move by one.
//!
//! Lanes are features. Forward, the rows of a block are output positions and its steps the kernel's
//! positions and channels; for the kernel's gradient it is the other way round. The gradient of an
//! input is the forward convolution of the output's gradient with the kernel turned round.

use super::block::{Block, Element, MOST_ELEMENTS, MOST_ROWS, Micro};
use super::lines::{Group, Side, Steps, meeting, sorted};
use super::naive::window_labels;
use super::padding::Padding;
use super::rows::{Buffer, is_run, pack, store};
use super::{CHUNK, Parts, labels_len, pairs};
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::product::{Product, aligned};
use crate::exec::cpu::strided::{Labels, Nest};
use crate::program::Window;

pub(super) struct Direct<T> {
    roles: [usize; 3],
    groups: Nest,
    padding: Option<Padding>,
    /// Where the kernel's first position lies.
    origin: isize,
    /// Per image: offsets of image and output.
    batch: Vec<[isize; 2]>,
    /// Per feature: offsets in kernel and output.
    features: Vec<[isize; 2]>,
    /// Images per chunk.
    chunk: usize,
    micro: Micro<T>,
    /// Of one image.
    rows: Vec<Group>,
    /// From a row of a group to the next: in the image, in the result.
    slide: [isize; 2],
    steps: Steps,
    /// From a tap of a step to the next in the vector operand.
    vector_slide: isize,
    /// Images whose steps are listed.
    step_images: usize,
    /// Where rows go in a buffer.
    packed_rows: [isize; MOST_ROWS],
}

/// The sliding window's ratio and loops, or those for rows anywhere.
fn choose<T: Element>(
    labels: &Labels,
    slide: &Window,
    forward: bool,
    features: usize,
) -> (Micro<T>, usize) {
    let [_, kernels, outputs] = window_labels(slide).map(|l| labels.extents[l]);
    let (rows, taps, [over, under]) = match forward {
        true => (outputs, kernels, [slide.stride, slide.dilation]),
        false => (kernels, outputs, [slide.dilation, slide.stride]),
    };
    let ratio = over / under;
    let anywhere = (T::micro(isa(), features), 1);
    if over % under != 0 || taps < 2 * ratio {
        return anywhere;
    }
    // Rows of groups that overlap are computed twice: at most a quarter may be.
    let cost = |n: &usize| rows.div_ceil(*n) * n;
    let few = |n: &usize| *n <= rows && if forward { cost(n) * 4 <= rows * 5 } else { *n == rows };
    let best = [9, 8, 7, 5, 4, 3].into_iter().filter(few).min_by_key(cost);
    let sliding = best.and_then(|rows| T::slide(isa(), rows));
    sliding.map_or(anywhere, |micro| (micro, ratio))
}

impl<T: Element> Direct<T> {
    /// `origin` is where the kernel's first position lies.
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: Parts, origin: isize) -> Self {
        let Parts { roles, groups, batch, channels, features } = parts;
        let [image, kernel, output] = roles;
        let forward = output == 2;
        let windows = sorted(labels, windows, image);
        let (padded, padding) = pad(labels, &windows, &channels, image);
        let batch = pairs(labels, &batch, [image, output]);
        let features = pairs(labels, &features, [kernel, output]);

        let (micro, ratio) = match windows.last() {
            Some(slide) => choose(labels, slide, forward, features.len()),
            None => (T::micro(isa(), features.len()), 1),
        };
        let side = |part: usize, operand: usize, more: &[usize]| {
            let mut middle: Vec<_> = windows.iter().map(|w| window_labels(w)[part]).collect();
            let slide = middle.pop().unwrap_or_default();
            let outer = if middle.is_empty() { None } else { Some(middle.remove(0)) };
            middle.extend(more);
            Side { labels: &padded, image, operand, outer, middle, slide }
        };
        let (kernels, outputs) = (side(1, kernel, &channels), side(2, output, &[]));
        let (by_row, by_step) = if forward { (outputs, kernels) } else { (kernels, outputs) };
        let meets = |position: usize| match (windows.first(), by_step.outer) {
            (Some(w), Some(label)) => {
                let (row, step) =
                    if forward { (w.stride, w.dilation) } else { (w.dilation, w.stride) };
                let inputs = labels.extents[w.input as usize];
                meeting([step, labels.extents[label]], row * position, w.pad, inputs)
            }
            _ => [0, 1],
        };
        let rows = by_row.groups(micro.rows, meets);
        let slide = [image, by_row.operand].map(|k| padded.strides[k][by_row.slide]);
        let vector_slide = ratio as isize * padded.strides[by_step.operand][by_step.slide];
        let steps = by_step.steps(micro.taps, ratio);

        let elements = |k: usize| labels_len(labels, k) / batch.len();
        let image_len = padding.as_ref().map_or(elements(image), |padding| padding.len);
        let bytes = size_of::<T>() * (image_len + elements(output));
        let chunk = (CHUNK / bytes.max(1)).clamp(1, batch.len());
        let packed_rows = std::array::from_fn(|p| (p * micro.lanes) as isize);
        let mut plan = Self {
            roles,
            groups,
            padding,
            origin,
            batch,
            features,
            chunk,
            micro,
            rows,
            slide,
            steps,
            vector_slide,
            step_images: 1,
            packed_rows,
        };
        plan.place_vectors();
        plan
    }

    /// Whether offsets fit into the tables.
    pub(super) fn fits(&self) -> bool {
        self.packed_len() <= i32::MAX as usize && self.padded_len() <= i32::MAX as usize
    }

    fn is_forward(&self) -> bool {
        self.roles[2] == 2
    }

    /// Offset of an image of a chunk that begins with image `first`.
    fn image(&self, first: usize, n: usize) -> isize {
        match &self.padding {
            Some(padding) => ((n - first) * padding.len) as isize,
            None => self.batch[n][0],
        }
    }

    /// Whether blocks can read the output's features where they lie.
    fn reads_output(&self) -> bool {
        !self.is_forward()
            && self.features.len().is_multiple_of(self.micro.lanes)
            && is_run(self.features.iter().map(|f| f[1]))
    }

    /// Turns positions in `taps` into offsets of vectors; of a kernel's gradient, lists the steps
    /// of several images if they are small and equally far apart.
    fn place_vectors(&mut self) {
        let (lanes, reads) = (self.micro.lanes, self.reads_output());
        let per_image = self.steps.taps.len();
        let difference = |a: usize, k: usize| self.batch[a + 1][k] - self.batch[a][k];
        let regular = (1..self.batch.len().saturating_sub(1))
            .all(|a| [0, 1].iter().all(|&k| difference(a, k) == difference(0, k)));
        if !self.is_forward() && regular {
            self.step_images = (MANY_STEPS / per_image).clamp(1, self.chunk);
        }
        if !reads {
            self.vector_slide = lanes as isize;
        }
        let lists = std::mem::take(&mut self.steps.lists);
        let place = |n: usize, [a, tap]: [i32; 2]| {
            let in_image = self.image(0, n) - self.image(0, 0);
            let vector = match reads {
                true => self.batch[n][1] - self.batch[0][1] + self.steps.taps[tap as usize],
                false => ((n * per_image + tap as usize) * lanes) as isize,
            };
            [a + in_image as i32, vector as i32]
        };
        let images = 0..self.step_images;
        self.steps.lists = lists.map(|list| {
            images
                .clone()
                .flat_map(|n| list.iter().map(move |&s| (n, s)))
                .map(|(n, step)| place(n, step))
                .collect()
        });
    }

    fn vectors(&self) -> usize {
        self.features.len().div_ceil(self.micro.lanes)
    }

    /// Elements of the packed vector operand.
    fn packed_len(&self) -> usize {
        let taps = self.steps.taps.len();
        match (self.is_forward(), self.reads_output()) {
            (true, _) => taps * self.vectors() * self.micro.lanes,
            (false, true) => 0,
            (false, false) => taps * self.chunk * self.micro.lanes,
        }
    }

    fn padded_len(&self) -> usize {
        self.padding.as_ref().map_or(0, |padding| padding.len * self.chunk)
    }
}

/// Steps of a kernel's gradient that are worth an addition to the sums.
const MANY_STEPS: usize = 256;

/// The labels as blocks see them, in a copy of the image that has zeros around it if need be.
fn pad(
    labels: &Labels,
    windows: &[Window],
    channels: &[usize],
    image: usize,
) -> (Labels, Option<Padding>) {
    let mut padded = Labels {
        extents: labels.extents.clone(),
        strides: labels.strides.clone(),
        has: labels.has.clone(),
    };
    let reach = |w: &Window| {
        let [_, k, o] = window_labels(w).map(|l| labels.extents[l]);
        w.stride * (o - 1) + w.dilation * (k - 1) + 1
    };
    let fits = |w: &Window| w.pad == 0 && reach(w) <= labels.extents[w.input as usize];
    let mut padding = None;
    if !windows.iter().all(fits) {
        let mut order: Vec<usize> = windows.iter().map(|w| w.input as usize).collect();
        order.extend(channels);
        order.sort_by_key(|&l| std::cmp::Reverse(labels.strides[image][l]));
        let mut step = 1;
        for &l in order.iter().rev() {
            padded.strides[image][l] = step as isize;
            let window = windows.iter().find(|w| w.input as usize == l);
            step *= window.map_or(labels.extents[l], reach);
        }
        padding = Some(Padding::new(labels, &padded, windows, &order, image, step));
    }
    // Where a row or step lies in the image: by the window's stride or dilation.
    for w in windows {
        let [i, k, o] = window_labels(w);
        let step = padded.strides[image][i];
        padded.strides[image][k] = step * w.dilation as isize;
        padded.strides[image][o] = step * w.stride as isize;
    }
    (padded, padding)
}

impl<T: Element> Product for Direct<T> {
    fn scratch_bytes(&self) -> usize {
        aligned(self.padded_len(), size_of::<T>()) + aligned(self.packed_len(), size_of::<T>())
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [image, kernel, output] = self.roles.map(|k| operands[k].cast::<T>());
        // SAFETY: scratch has room for padded images, then packed vectors; the rest are offsets of
        // the nests and tables.
        unsafe {
            let padded = scratch.cast::<T>();
            let packed = scratch.add(aligned(self.padded_len(), size_of::<T>())).cast::<T>();
            std::slice::from_raw_parts_mut(padded, self.padded_len()).fill(T::default());
            self.groups.walk([0; 3], &mut |[i, k, o]| {
                let (image, output) = (image.offset(i), output.offset(o));
                let kernel = kernel.offset(k + self.origin);
                if self.is_forward() {
                    self.forward(image, kernel, output.cast_mut(), padded, packed);
                } else {
                    self.kernel_gradient(image, kernel.cast_mut(), output, padded, packed);
                }
            });
        }
    }
}

/// Groups of one block.
struct Rows {
    count: usize,
    from: [isize; MOST_ROWS],
    /// Per row, not per group.
    to: [isize; MOST_ROWS],
    meets: std::ops::Range<usize>,
}

impl<T: Element> Direct<T> {
    /// The chunk's images, padded if need be.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn images(
        &self,
        image: *const T,
        padded: *mut T,
        first: usize,
        last: usize,
    ) -> *const T {
        let Some(padding) = &self.padding else { return image };
        for n in first..last {
            // SAFETY: scratch has room for a chunk.
            unsafe {
                let to = padded.add((n - first) * padding.len).cast();
                padding.copy(size_of::<T>(), image.offset(self.batch[n][0]).cast(), to);
            }
        }
        padded
    }

    /// Cuts groups into blocks. Groups that are missing in the last one are the first again.
    fn blocks(
        &self,
        mut left: usize,
        mut groups: impl Iterator<Item = Group>,
        mut run: impl FnMut(&Rows),
    ) {
        let (from, to) = ([0; MOST_ROWS], [0; MOST_ROWS]);
        let mut rows = Rows { count: 0, from, to, meets: 0..0 };
        let length = self.micro.rows;
        while left > 0 {
            rows.count = self.micro.take(left);
            rows.meets = usize::MAX..0;
            for (g, group) in groups.by_ref().take(rows.count).enumerate() {
                rows.from[g] = group.from;
                for (p, to) in rows.to[g * length..][..length].iter_mut().enumerate() {
                    *to = group.to + p as isize * self.slide[1];
                }
                rows.meets.start = rows.meets.start.min(group.meets[0]);
                rows.meets.end = rows.meets.end.max(group.meets[1]);
            }
            let first = rows.from[0];
            rows.from[rows.count..].fill(first);
            for p in rows.count * length..self.micro.groups * length {
                rows.to[p] = rows.to[p % length];
            }
            run(&rows);
            left -= rows.count;
        }
    }

    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn forward(
        &self,
        image: *const T,
        kernel: *const T,
        output: *mut T,
        padded: *mut T,
        packed: *mut T,
    ) {
        let Micro { lanes, rows: length, .. } = self.micro;
        let taps = &self.steps.taps;
        let run = is_run(self.features.iter().map(|f| f[1]));
        let mut buffer = Buffer([T::default(); MOST_ELEMENTS]);
        let buffer = buffer.0.as_mut_ptr();
        // SAFETY: the caller's promise; tables hold offsets of the operands.
        unsafe {
            for (v, features) in self.features.chunks(lanes).enumerate() {
                let to = packed.add(v * taps.len() * lanes);
                let count = features.len();
                pack(kernel, taps.iter().copied(), (count, |j| features[j][0]), lanes, to);
            }
            for first in (0..self.batch.len()).step_by(self.chunk) {
                let last = self.batch.len().min(first + self.chunk);
                let a = self.images(image, padded, first, last);
                for (v, features) in self.features.chunks(lanes).enumerate() {
                    let b = packed.add(v * taps.len() * lanes).cast_const();
                    let in_place = run && features.len() == lanes;
                    let groups = (first..last).flat_map(|n| {
                        let (from, to) = (self.image(first, n), self.batch[n][1]);
                        let at =
                            move |g: &Group| Group { from: from + g.from, to: to + g.to, ..*g };
                        self.rows.iter().map(at)
                    });
                    self.blocks((last - first) * self.rows.len(), groups, |rows| {
                        let steps = self.steps.within(rows.meets.clone());
                        let (c, to) = match in_place {
                            true => (output.offset(features[0][1]), &rows.to),
                            false => (buffer, &self.packed_rows),
                        };
                        self.run_block(rows, a, b, steps, (c, to, false));
                        if !in_place {
                            let to = &rows.to[..rows.count * length];
                            let lane = (features.len(), |j: usize| features[j][1]);
                            store(output, to, lane, run, (buffer, lanes), false);
                        }
                    });
                }
            }
        }
    }

    /// # Safety
    ///
    /// As [`super::block::Run`].
    unsafe fn run_block(
        &self,
        rows: &Rows,
        a: *const T,
        b: *const T,
        steps: [&[[i32; 2]]; 2],
        (c, to, accumulate): (*mut T, &[isize; MOST_ROWS], bool),
    ) {
        let (slide, b_slide) = (self.slide[0], self.vector_slide);
        let block = Block { a, rows: &rows.from, slide, steps, b, b_slide, c, to, accumulate };
        // SAFETY: the caller's promise.
        unsafe { self.micro.run(rows.count, block) };
    }

    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn kernel_gradient(
        &self,
        image: *const T,
        kernel: *mut T,
        output: *const T,
        padded: *mut T,
        packed: *mut T,
    ) {
        let Micro { lanes, rows: length, .. } = self.micro;
        let taps = &self.steps.taps;
        let run = is_run(self.features.iter().map(|f| f[0]));
        let reads = self.reads_output();
        let mut buffer = Buffer([T::default(); MOST_ELEMENTS]);
        let buffer = buffer.0.as_mut_ptr();
        // SAFETY: the caller's promise; tables hold offsets of the operands.
        unsafe {
            for first in (0..self.batch.len()).step_by(self.chunk) {
                let last = self.batch.len().min(first + self.chunk);
                let a = self.images(image, padded, first, last);
                for features in self.features.chunks(lanes) {
                    if !reads {
                        let images = self.batch[first..last].iter();
                        let rows = images.flat_map(|n| taps.iter().map(|tap| n[1] + tap));
                        pack(output, rows, (features.len(), |j| features[j][1]), lanes, packed);
                    }
                    self.blocks(self.rows.len(), self.rows.iter().copied(), |rows| {
                        for n in (first..last).step_by(self.step_images) {
                            let images = self.step_images.min(last - n);
                            let b = match reads {
                                true => output.offset(self.batch[n][1] + features[0][1]),
                                false => packed.add((n - first) * taps.len() * lanes).cast_const(),
                            };
                            let steps = match self.step_images {
                                1 => self.steps.within(rows.meets.clone()),
                                all => self.steps.part(images, all),
                            };
                            let a = a.offset(self.image(first, n));
                            let c = (buffer, &self.packed_rows, n > first);
                            self.run_block(rows, a, b, steps, c);
                        }
                        let lane = (features.len(), |j: usize| features[j][0]);
                        let to = &rows.to[..rows.count * length];
                        store(kernel, to, lane, run, (buffer, lanes), first > 0);
                    });
                }
            }
        }
    }
}

//! Forward convolution and the gradient of the kernel.
//!
//! Lanes are features. Forward, the rows of a block are output positions and its steps the kernel's
//! positions and channels; for the kernel's gradient it is the other way round.

use super::block::{Block, Element, MOST_LANES, MOST_ROWS, Micro, Offsets};
use super::naive::window_labels;
use super::padding::Padding;
use super::rows::{Buffer, is_run, pack, store};
use super::{CHUNK, Parts, labels_len, pairs};
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::product::{Product, aligned};
use crate::exec::cpu::strided::{Labels, Nest};
use crate::program::Window;

/// Forward convolution, and the gradient of the kernel.
pub(super) struct Direct<T> {
    roles: [usize; 3],
    groups: Nest,
    padding: Option<Padding>,
    /// Per image: offsets of image and output.
    batch: Vec<[isize; 2]>,
    /// Per output position: offsets in (padded) image and output.
    positions: Vec<[isize; 2]>,
    /// Per kernel position and channel: offsets in (padded) image and kernel.
    taps: Vec<[isize; 2]>,
    /// Per feature: offsets in kernel and output.
    features: Vec<[isize; 2]>,
    /// Images per chunk.
    chunk: usize,
    micro: Micro<T>,
    /// For the kernel's gradient: steps over several images' positions, and how many images.
    steps: Vec<Offsets>,
    step_images: usize,
}

impl<T: Element> Direct<T> {
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: Parts) -> Self {
        let Parts { roles, groups, batch, channels, features } = parts;
        let [image, kernel, output] = roles;
        // A copy of the labels in which the image is padded, packed and without batch.
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
            order.extend(&channels);
            order.sort_by_key(|&l| std::cmp::Reverse(labels.strides[image][l]));
            let mut step = 1;
            for &l in order.iter().rev() {
                padded.strides[image][l] = step as isize;
                let window = windows.iter().find(|w| w.input as usize == l);
                step *= window.map_or(labels.extents[l], reach);
            }
            padding = Some(Padding::new(labels, &padded, windows, &order, image, step));
        }
        // Where a tap or position lies in the image: by the window's stride or dilation.
        for w in windows {
            let [i, k, o] = window_labels(w);
            let step = padded.strides[image][i];
            padded.strides[image][k] = step * w.dilation as isize;
            padded.strides[image][o] = step * w.stride as isize;
        }
        let kernels: Vec<_> = windows.iter().map(|w| w.kernel as usize).chain(channels).collect();
        let outputs: Vec<_> = windows.iter().map(|w| w.output as usize).collect();
        let batch = pairs(labels, &batch, [image, output]);
        let positions = pairs(&padded, &outputs, [image, output]);
        let mut taps = pairs(&padded, &kernels, [kernel, image]);
        taps.iter_mut().for_each(|pair| pair.reverse());
        let features = pairs(labels, &features, [kernel, output]);
        let micro = T::micro(isa(), features.len());
        let bytes = size_of::<T>()
            * (padding.as_ref().map_or(labels_len(labels, image) / batch.len(), |p| p.len)
                + positions.len() * features.len());
        let chunk = (CHUNK / bytes.max(1)).clamp(1, batch.len());
        let mut plan = Self {
            roles,
            groups,
            padding,
            batch,
            positions,
            taps,
            features,
            chunk,
            micro,
            steps: Vec::new(),
            step_images: 1,
        };
        plan.steps();
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
        self.features.len().is_multiple_of(self.micro.lanes)
            && is_run(self.features.iter().map(|f| f[1]))
    }

    fn steps(&mut self) {
        let per_image = self.positions.len();
        if self.is_forward() {
            self.steps = self
                .taps
                .iter()
                .enumerate()
                .map(|(t, tap)| [tap[0] as i32, (t * self.micro.lanes) as i32])
                .collect();
            return;
        }
        // Several images at once if they are equally far apart.
        let difference = |a: usize, k: usize| self.batch[a + 1][k] - self.batch[a][k];
        let regular = (1..self.batch.len().saturating_sub(1))
            .all(|a| [0, 1].iter().all(|&k| difference(a, k) == difference(0, k)));
        if regular {
            self.step_images = (512 / per_image).clamp(1, self.chunk);
        }
        let reads = self.reads_output();
        for n in 0..self.step_images {
            let in_image = self.image(0, n) - self.image(0, 0);
            let in_output = self.batch[n][1] - self.batch[0][1];
            for (i, position) in self.positions.iter().enumerate() {
                let packed = (n * per_image + i) * self.micro.lanes;
                let b = if reads { in_output + position[1] } else { packed as isize };
                self.steps.push([(in_image + position[0]) as i32, b as i32]);
            }
        }
    }

    fn vectors(&self) -> usize {
        self.features.len().div_ceil(self.micro.lanes)
    }

    /// Elements of the packed vector operand.
    fn packed_len(&self) -> usize {
        let rows = match self.is_forward() {
            true => self.taps.len(),
            false if self.reads_output() => 0,
            false => self.chunk * self.positions.len(),
        };
        rows * self.vectors() * self.micro.lanes
    }

    fn padded_len(&self) -> usize {
        self.padding.as_ref().map_or(0, |padding| padding.len * self.chunk)
    }
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
                let (image, kernel, output) = (image.offset(i), kernel.offset(k), output.offset(o));
                if self.is_forward() {
                    self.forward(image, kernel, output.cast_mut(), padded, packed);
                } else {
                    self.kernel_gradient(image, kernel.cast_mut(), output, padded, packed);
                }
            });
        }
    }
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
        let (lanes, taps) = (self.micro.lanes, self.taps.len());
        let per_image = self.positions.len();
        let run = is_run(self.features.iter().map(|f| f[1]));
        // SAFETY: the caller's promise; tables hold offsets of the operands.
        unsafe {
            for (v, features) in self.features.chunks(lanes).enumerate() {
                let to = packed.add(v * taps * lanes);
                let rows = self.taps.iter().map(|tap| tap[1]);
                pack(kernel, rows, (features.len(), |j| features[j][0]), lanes, to);
            }
            for first in (0..self.batch.len()).step_by(self.chunk) {
                let last = self.batch.len().min(first + self.chunk);
                let a = self.images(image, padded, first, last);
                for (v, features) in self.features.chunks(lanes).enumerate() {
                    let b = packed.add(v * taps * lanes).cast_const();
                    let rows = (first..last).flat_map(|n| {
                        let (from, to) = (self.image(first, n), self.batch[n][1]);
                        self.positions.iter().map(move |p| [from + p[0], to + p[1]])
                    });
                    let count = (last - first) * per_image;
                    self.blocks(count, rows, |count, rows, to, c| {
                        let steps = &self.steps;
                        self.micro.run(count, Block { a, rows, steps, b, c, accumulate: false });
                        let lane = |j: usize| features[j][1];
                        store(output, &to[..count], (features.len(), lane), run, (c, lanes), false);
                    });
                }
            }
        }
    }

    /// Cuts rows into blocks; a row is its offsets in the scalar operand and the result.
    fn blocks(
        &self,
        mut left: usize,
        mut offsets: impl Iterator<Item = [isize; 2]>,
        mut run: impl FnMut(usize, &[isize; MOST_ROWS], &[isize; MOST_ROWS], *mut T),
    ) {
        let mut c = Buffer([T::default(); MOST_ROWS * MOST_LANES]);
        while left > 0 {
            let count = self.micro.take(left);
            let (mut from, mut to) = ([0; MOST_ROWS], [0; MOST_ROWS]);
            for (p, row) in offsets.by_ref().take(count).enumerate() {
                [from[p], to[p]] = row;
            }
            // Rows that are missing are computed, but not stored.
            let first = from[0];
            from[count..].fill(first);
            run(count, &from, &to, c.0.as_mut_ptr());
            left -= count;
        }
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
        let lanes = self.micro.lanes;
        let per_image = self.positions.len();
        let run = is_run(self.features.iter().map(|f| f[0]));
        // SAFETY: the caller's promise; tables hold offsets of the operands.
        unsafe {
            for first in (0..self.batch.len()).step_by(self.chunk) {
                let last = self.batch.len().min(first + self.chunk);
                let a = self.images(image, padded, first, last);
                for features in self.features.chunks(lanes) {
                    if !self.reads_output() {
                        let rows = self.batch[first..last]
                            .iter()
                            .flat_map(|n| self.positions.iter().map(|p| n[1] + p[1]));
                        pack(output, rows, (features.len(), |j| features[j][1]), lanes, packed);
                    }
                    let rows = self.taps.iter().copied();
                    self.blocks(self.taps.len(), rows, |count, rows, to, c| {
                        for n in (first..last).step_by(self.step_images) {
                            let images = self.step_images.min(last - n);
                            let b = match self.reads_output() {
                                true => output.offset(self.batch[n][1] + features[0][1]),
                                false => packed.add((n - first) * per_image * lanes).cast_const(),
                            };
                            let a = a.offset(self.image(first, n));
                            let steps = &self.steps[..images * per_image];
                            let accumulate = n > first;
                            self.micro.run(count, Block { a, rows, steps, b, c, accumulate });
                        }
                        let lane = |j: usize| features[j][0];
                        let add = first > 0;
                        store(kernel, &to[..count], (features.len(), lane), run, (c, lanes), add);
                    });
                }
            }
        }
    }
}

//! How planned convolutions walk over images, block by block.

use super::block::{Block, MOST_ELEMENTS, MOST_ROWS};
use super::direct::Direct;
use super::lines::Group;
use super::micro::{Element, Micro};
use super::rows::{Buffer, is_run, pack, store};
use crate::exec::cpu::product::{Product, aligned};

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
            let (mut first, mut last) = (usize::MAX, 0);
            for (g, group) in groups.by_ref().take(rows.count).enumerate() {
                rows.from[g] = group.from;
                for (p, to) in rows.to[g * length..][..length].iter_mut().enumerate() {
                    *to = group.to + p as isize * self.slide[1];
                }
                (first, last) = (first.min(group.meets[0]), last.max(group.meets[1]));
            }
            rows.meets = first..last;
            let again = rows.from[0];
            rows.from[rows.count..].fill(again);
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
        // SAFETY: `packed` has room for what is packed; the tables hold offsets within the
        // operands.
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
        // SAFETY: the block's tables hold offsets within the operands, of as many groups as the
        // large block has.
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
        // SAFETY: the operands are those that the tables were made for, and scratch has room for
        // what is packed.
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

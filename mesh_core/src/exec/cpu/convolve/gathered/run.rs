//! How gathered convolutions go through blocks of rows.

use super::{Gathered, Group, Planned};
use crate::exec::cpu::gemm::Number;
use crate::exec::cpu::product::{Product, aligned};
use std::ops::Range;

/// Where the parts of scratch begin.
struct Scratch<T> {
    padded: *mut T,
    kernel: *mut T,
    /// The rows of a block, and what they become where the result is not even.
    rows: *mut T,
    made: *mut T,
    product: *mut T,
}

impl<T: Number> Gathered<T> {
    /// Elements of the parts of scratch.
    fn lens(&self) -> [usize; 5] {
        let columns = self.matrices.columns.0;
        let products = || self.parts.iter().flat_map(|part| &part.products);
        let made = |part: &Planned<T>| match part.even {
            Some(_) => 0,
            None => part.products.iter().map(|([rows, _], _)| rows * columns).max().unwrap_or(0),
        };
        [
            self.matrices.padded_len(self.images),
            self.packed.as_ref().map_or(0, |rows| rows.len() * columns),
            products().map(|([rows, depth], _)| rows * depth).max().unwrap_or(0),
            self.parts.iter().map(made).max().unwrap_or(0),
            products().map(|(_, product)| product.scratch()).max().unwrap_or(0),
        ]
    }

    fn scratch(&self, scratch: *mut u8) -> Scratch<T> {
        let mut at = 0;
        let [padded, kernel, rows, made, product] = self.lens().map(|len| {
            let begin = scratch.wrapping_add(at).cast::<T>();
            at += aligned(len, size_of::<T>());
            begin
        });
        Scratch { padded, kernel, rows, made, product }
    }
}

impl<T: Number> Product for Gathered<T> {
    fn scratch_bytes(&self) -> usize {
        self.lens().iter().map(|&len| aligned(len, size_of::<T>())).sum()
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [source, kernel, result] = self.matrices.roles.map(|k| operands[k].cast::<T>());
        let scratch = self.scratch(scratch);
        // SAFETY: scratch has room for its parts; the rest are offsets of the plan.
        unsafe {
            let len = self.matrices.padded_len(self.images);
            std::slice::from_raw_parts_mut(scratch.padded, len).fill(T::ZERO);
            self.matrices.groups.walk([0; 3], &mut |[s, k, r]| {
                self.group([source.offset(s), kernel.offset(k), result.offset(r)], &scratch);
            });
        }
    }
}

impl<T: Number> Gathered<T> {
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn group(&self, [source, kernel, result]: [*const T; 3], scratch: &Scratch<T>) {
        let images = self.matrices.images.len();
        // SAFETY: the operands are those that the plan was made for.
        unsafe {
            let kernel = self.packed(kernel, scratch.kernel);
            for first in (0..images).step_by(self.images) {
                let images = first..images.min(first + self.images);
                let source = self.matrices.pad(source, images.clone(), scratch.padded);
                for part in &self.parts {
                    let all = part.part.rows.len();
                    for begin in (0..all).step_by(self.positions) {
                        let positions = begin..all.min(begin + self.positions);
                        let block = (images.clone(), positions);
                        self.block(part, block, [source, kernel, result], scratch);
                    }
                }
            }
        }
    }

    /// The kernel as the products want it.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn packed(&self, kernel: *const T, to: *mut T) -> *const T {
        let Some(rows) = &self.packed else { return kernel };
        let (columns, [step, _]) = self.matrices.columns;
        for (i, &row) in rows.iter().enumerate() {
            for j in 0..columns {
                // SAFETY: a row of the kernel; `to` has room for all rows.
                unsafe { *to.add(i * columns + j) = *kernel.offset(row + j as isize * step) };
            }
        }
        to
    }

    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn block(
        &self,
        part: &Planned<T>,
        (images, positions): (Range<usize>, Range<usize>),
        [source, kernel, result]: [*const T; 3],
        scratch: &Scratch<T>,
    ) {
        let count = images.len() * positions.len();
        let begin = self.matrices.images[images.start][1] + part.part.rows[positions.start][1];
        let adds = images.start > 0 || positions.start > 0;
        // SAFETY: offsets of the plan; scratch has room for a block.
        unsafe {
            let result = result.cast_mut();
            let to = match part.even {
                Some(_) => result.offset(begin),
                None => scratch.made,
            };
            for (i, group) in part.groups.iter().enumerate() {
                self.gather(part, group, (images.clone(), positions.clone()), source, scratch.rows);
                let size = [count, group.depth];
                let product = part.products.iter().find(|(of, _)| *of == size);
                let Some((_, product)) = product else { continue };
                let (rows, kernel) = (scratch.rows.cast_const(), kernel.offset(group.kernel));
                match self.matrices.makes_kernel() {
                    true => product.run([rows, to], kernel.cast_mut(), adds, scratch.product),
                    false => product.run([rows, kernel], to, i > 0, scratch.product),
                }
            }
            if part.groups.is_empty() || part.even.is_none() {
                let made = (!part.groups.is_empty()).then_some(scratch.made.cast_const());
                self.store(part, (images, positions), result, made);
            }
        }
    }

    /// Copies what windows see, row by row.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn gather(
        &self,
        part: &Planned<T>,
        group: &Group,
        (images, positions): (Range<usize>, Range<usize>),
        source: *const T,
        mut to: *mut T,
    ) {
        for image in images.clone() {
            let image = self.matrices.image(images.start, image);
            for row in &part.part.rows[positions.clone()] {
                for &(run, len) in &group.runs {
                    // SAFETY: a window's run lies within the source, and `to` has room.
                    unsafe {
                        let from = source.offset(image + row[0] + run);
                        std::ptr::copy_nonoverlapping(from, to, len);
                        to = to.add(len);
                    }
                }
            }
        }
    }

    /// Writes the rows of a block to where they belong, zeros if nothing was made.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn store(
        &self,
        part: &Planned<T>,
        (images, positions): (Range<usize>, Range<usize>),
        result: *mut T,
        mut made: Option<*const T>,
    ) {
        let (columns, [_, step]) = self.matrices.columns;
        for image in images {
            for row in &part.part.rows[positions.clone()] {
                // SAFETY: rows of the result; `made` holds the block's.
                unsafe {
                    let to = result.offset(self.matrices.images[image][1] + row[1]);
                    for j in 0..columns {
                        let value = made.map_or(T::ZERO, |made| *made.add(j));
                        *to.offset(j as isize * step) = value;
                    }
                    made = made.map(|made| made.add(columns));
                }
            }
        }
    }
}

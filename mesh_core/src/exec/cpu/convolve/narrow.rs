//! Convolutions of groups of few channels: lanes are the columns of one group.
//!
//! Products so narrow leave a matrix multiplication nothing to reuse. Here a vector of weights meets some rows, whose
//! channels are read where they lie; image by image, so that its groups, which share cache lines, follow each other.

use super::matrices::{Ends, Matrices, Tap};
use super::parts::Parts;
use super::runs::{Rows, Runs, kernel_positions};
use crate::exec::cpu::gemm::Number;
use crate::exec::cpu::isa::{Entry, Task, compiled};
use crate::exec::cpu::product::Product;
use crate::exec::cpu::strided::Labels;
use crate::program::Window;
use std::marker::PhantomData;

/// Most columns and most channels of a group; with more, products are wide enough.
const COLUMNS: usize = 16;
const CHANNELS: usize = 32;

pub(super) struct Narrow<T: Number> {
    matrices: Matrices,
    /// Taps have their offsets in the packed kernel, but for the kernel's gradient.
    parts: Vec<Runs>,
    /// Offsets of source, kernel and result, per group.
    groups: Vec<[isize; 3]>,
    /// Positions of the kernel.
    kernel: Vec<isize>,
    sums: Entry<Sums<T>>,
    gradient: Entry<Gradient<T>>,
}

impl<T: Number> Narrow<T> {
    /// `None` where there is one group, or channels or columns are many, or no neighbours.
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: &Parts) -> Option<Self> {
        let mut matrices = Matrices::new(labels, windows, parts, Ends::Clipped)?;
        let (columns, [_, in_result]) = matrices.columns;
        let mut groups = Vec::new();
        matrices.groups.walk([0; 3], &mut |at| groups.push(at));
        let is_narrow = columns <= COLUMNS && matrices.depth.0 <= CHANNELS;
        if groups.len() < 2 || !is_narrow || columns % 4 > 0 || in_result != 1 {
            return None;
        }
        let kernel = kernel_positions(labels, windows, matrices.roles[1]);
        let (makes_kernel, packed) = (matrices.makes_kernel(), matrices.depth.0 * columns);
        let mut planned = Vec::new();
        for mut part in std::mem::take(&mut matrices.parts) {
            for tap in part.taps.iter_mut().filter(|_| !makes_kernel) {
                let number = kernel.iter().position(|&known| known == tap.kernel)?;
                tap.kernel = (number * packed) as isize;
            }
            planned.push(Runs::new(part));
        }
        let (sums, gradient) = (compiled::<Sums<T>>(), compiled::<Gradient<T>>());
        Some(Self { matrices, parts: planned, groups, kernel, sums, gradient })
    }

    /// Channels, columns, and from one to the next in the kernel.
    fn sizes(&self) -> [(usize, isize); 2] {
        let (columns, [in_kernel, _]) = self.matrices.columns;
        [self.matrices.depth, (columns, in_kernel)]
    }

    /// Calls a function with the offset of every element of one group's kernel, in the order of the packed one:
    /// positions, channels, columns.
    fn elements(&self, mut each: impl FnMut(isize)) {
        let [(channels, channel), (columns, column)] = self.sizes();
        for &at in &self.kernel {
            for c in 0..channels as isize {
                (0..columns as isize).for_each(|i| each(at + c * channel + i * column));
            }
        }
    }
}

impl<T: Number> Product for Narrow<T> {
    fn scratch_bytes(&self) -> usize {
        let [(channels, _), (columns, _)] = self.sizes();
        if self.matrices.makes_kernel() {
            return 0;
        }
        self.kernel.len() * channels * columns * size_of::<T>()
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [source, kernel, result] = self.matrices.roles.map(|k| operands[k].cast::<T>());
        let (packed, makes_kernel) = (scratch.cast::<T>(), self.matrices.makes_kernel());
        // SAFETY: offsets of the plan; scratch has room for the kernel of a group.
        unsafe {
            if makes_kernel {
                for &[_, group, _] in &self.groups {
                    let kernel = kernel.cast_mut().offset(group);
                    self.elements(|at| kernel.offset(at).write(T::ZERO));
                }
            }
            for image in &self.matrices.images {
                for &[s, k, r] in &self.groups {
                    let (source, kernel) = (source.offset(image[0] + s), kernel.offset(k));
                    let result = result.offset(image[1] + r);
                    if makes_kernel {
                        self.group([source, kernel, result]);
                    } else {
                        let mut to = packed;
                        self.elements(|at| {
                            to.write(*kernel.offset(at));
                            to = to.add(1);
                        });
                        self.group([source, packed, result]);
                    }
                }
            }
        }
    }
}

impl<T: Number> Narrow<T> {
    /// One group of one image.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn group(&self, at: [*const T; 3]) {
        let [channels, columns] = self.sizes();
        for rows in self.parts.iter().flat_map(|part| part.rows(at)) {
            let args = Args { rows, channels, columns };
            // SAFETY: rows of the image and its result, with taps inside.
            unsafe {
                match self.matrices.makes_kernel() {
                    true => (self.gradient)(args),
                    false => (self.sums)(args),
                }
            }
        }
    }
}

/// Rows, with how many channels and columns there are, and from one to the next in the kernel.
#[derive(Clone, Copy)]
struct Args<T> {
    rows: Rows<T>,
    channels: (usize, isize),
    columns: (usize, isize),
}

/// Rows of the result, from a packed kernel.
struct Sums<T>(PhantomData<T>);

impl<T: Number> Task for Sums<T> {
    type Args = Args<T>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(args: Args<T>) {
        let mut row = 0;
        // SAFETY: the caller's rows.
        unsafe {
            while row + 7 <= args.rows.count {
                columns::<T, 7>(args, row);
                row += 7;
            }
            while row + 4 <= args.rows.count {
                columns::<T, 4>(args, row);
                row += 4;
            }
            while row < args.rows.count {
                columns::<T, 1>(args, row);
                row += 1;
            }
        }
    }
}

/// All columns of `R` rows.
#[inline(always)]
unsafe fn columns<T: Number, const R: usize>(args: Args<T>, row: usize) {
    let mut column = 0;
    // SAFETY: the caller's rows.
    unsafe {
        while column + 8 <= args.columns.0 {
            sums::<T, 8, R>(args, row, column);
            column += 8;
        }
        if column + 4 <= args.columns.0 {
            sums::<T, 4, R>(args, row, column);
        }
    }
}

/// `L` columns of `R` rows.
#[inline(always)]
unsafe fn sums<T: Number, const L: usize, const R: usize>(
    args: Args<T>,
    row: usize,
    column: usize,
) {
    let Args { rows, channels, columns } = args;
    let Rows { at: [source, kernel, result], step, taps, .. } = rows;
    let row = row as isize;
    let mut sums = [[T::ZERO; L]; R];
    // SAFETY: the caller's rows and columns.
    unsafe {
        for tap in &*taps {
            let first = source.offset(tap.source + row * step[0]);
            let weights = kernel.offset(tap.kernel).add(column);
            for c in 0..channels.0 {
                let weights = weights.add(c * columns.0).cast::<[T; L]>().read_unaligned();
                for (r, sums) in sums.iter_mut().enumerate() {
                    let value = *first.offset(r as isize * step[0] + c as isize);
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = sum.plus(value.times(weight));
                    }
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let to = result.cast_mut().offset((row + r as isize) * step[1]).add(column);
            to.cast::<[T; L]>().write_unaligned(sums);
        }
    }
}

/// What rows add to the kernel's gradient.
struct Gradient<T>(PhantomData<T>);

impl<T: Number> Task for Gradient<T> {
    type Args = Args<T>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(args: Args<T>) {
        // SAFETY: the caller's rows and taps.
        unsafe {
            for &tap in &*args.rows.taps {
                let mut column = 0;
                while column + 8 <= args.columns.0 {
                    channels::<T, 8>(args, tap, column);
                    column += 8;
                }
                if column + 4 <= args.columns.0 {
                    channels::<T, 4>(args, tap, column);
                }
            }
        }
    }
}

/// All channels of `L` columns of a tap.
#[inline(always)]
unsafe fn channels<T: Number, const L: usize>(args: Args<T>, tap: Tap, column: usize) {
    let mut channel = 0;
    // SAFETY: the caller's rows and taps.
    unsafe {
        while channel + 8 <= args.channels.0 {
            gradient::<T, L, 8>(args, tap, column, channel);
            channel += 8;
        }
        while channel + 4 <= args.channels.0 {
            gradient::<T, L, 4>(args, tap, column, channel);
            channel += 4;
        }
        while channel < args.channels.0 {
            gradient::<T, L, 1>(args, tap, column, channel);
            channel += 1;
        }
    }
}

/// `L` columns of `D` channels.
#[inline(always)]
unsafe fn gradient<T: Number, const L: usize, const D: usize>(
    args: Args<T>,
    tap: Tap,
    column: usize,
    channel: usize,
) {
    let Args { rows, channels, columns } = args;
    let Rows { at: [source, kernel, result], step, count, .. } = rows;
    let mut sums = [[T::ZERO; L]; D];
    // SAFETY: the caller's rows and taps.
    unsafe {
        let (source, result) = (source.offset(tap.source).add(channel), result.add(column));
        for row in 0..count as isize {
            let values = result.offset(row * step[1]).cast::<[T; L]>().read_unaligned();
            let others = source.offset(row * step[0]).cast::<[T; D]>().read_unaligned();
            for (sums, other) in sums.iter_mut().zip(others) {
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = sum.plus(value.times(other));
                }
            }
        }
        for (d, sums) in sums.into_iter().enumerate() {
            let at = tap.kernel + (channel + d) as isize * channels.1;
            for (l, sum) in sums.into_iter().enumerate() {
                let to = kernel.cast_mut().offset(at + (column + l) as isize * columns.1);
                *to = (*to).plus(sum);
            }
        }
    }
}

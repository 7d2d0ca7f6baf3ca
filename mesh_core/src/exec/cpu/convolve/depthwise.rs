//! Convolutions of each channel by itself: lanes are channels.
//!
//! Little is computed with each element, so that memory is the limit: images are gone through one
//! after another, rows of neighbours four at a time.

use super::matrices::{Ends, Matrices};
use super::parts::Parts;
use super::runs::{Rows, Runs, kernel_positions};
use crate::exec::cpu::gemm::Number;
use crate::exec::cpu::isa::{Entry, Task, compiled};
use crate::exec::cpu::product::Product;
use crate::exec::cpu::strided::{Labels, Loop};
use crate::program::Window;
use std::marker::PhantomData;

/// Fewest channels that fill a vector.
const CHANNELS: usize = 4;

pub(super) struct Depthwise<T: Number> {
    matrices: Matrices,
    parts: Vec<Runs>,
    channels: usize,
    /// Positions of the kernel, for its gradient.
    kernel: Vec<isize>,
    sums: Entry<Sums<T>>,
    gradient: Entry<Gradient<T>>,
}

impl<T: Number> Depthwise<T> {
    /// `None` where groups are not single channels that are neighbours in all operands.
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: &Parts) -> Option<Self> {
        let mut matrices = Matrices::new(labels, windows, parts, Ends::Clipped)?;
        let channels = matrices.groups.loops.pop()?;
        let Loop { extent: channels, strides } = channels;
        let single = matrices.depth.0 == 1 && matrices.columns.0 == 1;
        if !single || channels < CHANNELS || strides.iter().any(|&stride| stride != 1) {
            return None;
        }
        let parts = std::mem::take(&mut matrices.parts).into_iter().map(Runs::new).collect();
        let kernel = kernel_positions(labels, windows, matrices.roles[1]);
        let (sums, gradient) = (compiled::<Sums<T>>(), compiled::<Gradient<T>>());
        Some(Self { matrices, parts, channels, kernel, sums, gradient })
    }
}

impl<T: Number> Product for Depthwise<T> {
    fn scratch_bytes(&self) -> usize {
        0
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, _: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [source, kernel, result] = self.matrices.roles.map(|k| operands[k].cast::<T>());
        self.matrices.groups.walk([0; 3], &mut |[s, k, r]| {
            // SAFETY: offsets of the plan.
            unsafe {
                let (source, kernel) = (source.offset(s), kernel.offset(k));
                let result = result.offset(r);
                if self.matrices.makes_kernel() {
                    for &at in &self.kernel {
                        let kernel = kernel.cast_mut().offset(at);
                        std::slice::from_raw_parts_mut(kernel, self.channels).fill(T::ZERO);
                    }
                }
                for image in &self.matrices.images {
                    self.image([source.offset(image[0]), kernel, result.offset(image[1])]);
                }
            }
        });
    }
}

impl<T: Number> Depthwise<T> {
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn image(&self, at: [*const T; 3]) {
        for rows in self.parts.iter().flat_map(|part| part.rows(at)) {
            let args = Args { rows, channels: self.channels };
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

#[derive(Clone, Copy)]
struct Args<T> {
    rows: Rows<T>,
    channels: usize,
}

impl<T> Args<T> {
    /// From a row and a channel on.
    #[inline(always)]
    fn from(self, row: usize, channel: usize) -> Self {
        let rows = self.rows;
        let [source, result] = rows.step.map(|step| row as isize * step + channel as isize);
        let [s, k, r] = rows.at;
        let at = [s.wrapping_offset(source), k.wrapping_add(channel), r.wrapping_offset(result)];
        Self { rows: Rows { at, ..rows }, ..self }
    }
}

/// Calls a function for all channels, as many lanes at once as there are.
macro_rules! lanes {
    ($function:ident $(, $more:tt)*; $args:expr) => {{
        let (args, mut channel) = ($args, 0);
        while channel + 16 <= args.channels {
            $function::<T, 16 $(, $more)*>(args.from(0, channel));
            channel += 16;
        }
        if channel + 8 <= args.channels {
            $function::<T, 8 $(, $more)*>(args.from(0, channel));
            channel += 8;
        }
        if channel + 4 <= args.channels {
            $function::<T, 4 $(, $more)*>(args.from(0, channel));
            channel += 4;
        }
        while channel < args.channels {
            $function::<T, 1 $(, $more)*>(args.from(0, channel));
            channel += 1;
        }
    }};
}

/// Rows of the result.
struct Sums<T>(PhantomData<T>);

impl<T: Number> Task for Sums<T> {
    type Args = Args<T>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(args: Args<T>) {
        let mut row = 0;
        // SAFETY: the caller's rows and channels.
        unsafe {
            while row + 4 <= args.rows.count {
                lanes!(sums, 4; args.from(row, 0));
                row += 4;
            }
            while row < args.rows.count {
                lanes!(sums, 1; args.from(row, 0));
                row += 1;
            }
        }
    }
}

/// `R` rows of `L` channels.
#[inline(always)]
unsafe fn sums<T: Number, const L: usize, const R: usize>(args: Args<T>) {
    let Rows { at: [source, kernel, result], step, taps, .. } = args.rows;
    let mut sums = [[T::ZERO; L]; R];
    // SAFETY: the caller's rows and channels.
    unsafe {
        for tap in &*taps {
            let weights = kernel.offset(tap.kernel).cast::<[T; L]>().read_unaligned();
            for (r, sums) in sums.iter_mut().enumerate() {
                let from = source.offset(tap.source + r as isize * step[0]);
                let values = from.cast::<[T; L]>().read_unaligned();
                for ((sum, value), weight) in sums.iter_mut().zip(values).zip(weights) {
                    *sum = sum.plus(value.times(weight));
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let to = result.cast_mut().offset(r as isize * step[1]);
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
        // SAFETY: the caller's rows and channels, and some of its taps.
        unsafe {
            let mut taps = &*args.rows.taps;
            while !taps.is_empty() {
                let count = [9, 6, 4, 3, 2].into_iter().find(|&n| n <= taps.len()).unwrap_or(1);
                let (now, later) = taps.split_at(count);
                let args = Args { rows: Rows { taps: now, ..args.rows }, ..args };
                match count {
                    9 => lanes!(gradient, 9; args),
                    6 => lanes!(gradient, 6; args),
                    4 => lanes!(gradient, 4; args),
                    3 => lanes!(gradient, 3; args),
                    2 => lanes!(gradient, 2; args),
                    _ => lanes!(gradient, 1; args),
                }
                taps = later;
            }
        }
    }
}

/// `N` taps of `L` channels.
#[inline(always)]
unsafe fn gradient<T: Number, const L: usize, const N: usize>(args: Args<T>) {
    let Rows { at: [source, kernel, result], step, count, taps } = args.rows;
    let mut sums = [[T::ZERO; L]; N];
    // SAFETY: the caller's rows and channels.
    unsafe {
        let taps = &*taps;
        for row in 0..count as isize {
            let from = result.offset(row * step[1]);
            let values = from.cast::<[T; L]>().read_unaligned();
            for (n, sums) in sums.iter_mut().enumerate() {
                let from = source.offset(taps[n].source + row * step[0]);
                let others = from.cast::<[T; L]>().read_unaligned();
                for ((sum, value), other) in sums.iter_mut().zip(values).zip(others) {
                    *sum = sum.plus(value.times(other));
                }
            }
        }
        for (tap, sums) in taps.iter().zip(sums) {
            let to = kernel.cast_mut().offset(tap.kernel).cast::<[T; L]>();
            let mut all = to.read_unaligned();
            for (sum, more) in all.iter_mut().zip(sums) {
                *sum = sum.plus(more);
            }
            to.write_unaligned(all);
        }
    }
}

//! Convolutions of groups of few channels: lanes are the columns of one group.
//!
//! Products so narrow leave a matrix multiplication nothing to reuse. Here a vector of weights meets some rows, whose
//! channels are read where they lie; image by image, so that its groups, which share cache lines, follow each other.

use super::few::{Args, Few, Kernel};
use super::matrices::{Ends, Matrices};
use super::parts::Parts;
use super::runs::{Runs, kernel_positions};
use crate::exec::cpu::product::Product;
use crate::exec::cpu::strided::Labels;
use crate::program::Window;

/// Most columns and most channels of a group; with more, products are wide enough.
const COLUMNS: usize = 16;
const CHANNELS: usize = 32;

pub(super) struct Narrow<T> {
    matrices: Matrices,
    /// Taps have their offsets in the packed kernel, but for the kernel's gradient.
    parts: Vec<Runs>,
    /// Offsets of source, kernel and result, per group.
    groups: Vec<[isize; 3]>,
    /// Positions of the kernel.
    kernel: Vec<isize>,
    compute: Kernel<T>,
}

impl<T: Few> Narrow<T> {
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
        let compute = T::kernels(columns)[usize::from(makes_kernel)];
        Some(Self { matrices, parts: planned, groups, kernel, compute })
    }

    /// Channels, columns, and from one to the next in the kernel.
    fn sizes(&self) -> [(usize, isize); 2] {
        let (columns, [in_kernel, _]) = self.matrices.columns;
        [self.matrices.depth, (columns, in_kernel)]
    }

    /// Elements of the packed kernel of a group.
    fn packed_len(&self) -> usize {
        let [(channels, _), (columns, _)] = self.sizes();
        self.kernel.len() * channels * columns
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

impl<T: Few> Product for Narrow<T> {
    fn scratch_bytes(&self) -> usize {
        let groups = if self.matrices.makes_kernel() { 0 } else { 2 };
        groups * self.packed_len() * size_of::<T>()
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [source, kernel, result] = self.matrices.roles.map(|k| operands[k].cast::<T>());
        let (packed, makes_kernel) = (scratch.cast::<T>(), self.matrices.makes_kernel());
        // SAFETY: offsets of the plan; scratch has room for the kernels of two groups.
        unsafe {
            if makes_kernel {
                for &[_, group, _] in &self.groups {
                    let kernel = kernel.cast_mut().offset(group);
                    self.elements(|at| kernel.offset(at).write(T::ZERO));
                }
            }
            for image in &self.matrices.images {
                let begin = |[s, k, r]: [isize; 3]| {
                    [source.offset(image[0] + s), kernel.offset(k), result.offset(image[1] + r)]
                };
                if makes_kernel {
                    self.groups.iter().for_each(|&group| self.group(begin(group), None));
                    continue;
                }
                for pair in self.groups.chunks(2) {
                    let mut to = packed;
                    for group in pair {
                        let kernel = kernel.offset(group[1]);
                        self.elements(|at| {
                            to.write(*kernel.offset(at));
                            to = to.add(1);
                        });
                    }
                    let [source, _, result] = begin(pair[0]);
                    let other = pair.get(1).map(|other| {
                        let [s, _, r] = std::array::from_fn(|k| other[k] - pair[0][k]);
                        [s, self.packed_len() as isize, r]
                    });
                    self.group([source, packed, result], other);
                }
            }
        }
    }
}

impl<T: Few> Narrow<T> {
    /// One group of one image, or two.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn group(&self, at: [*const T; 3], other: Option<[isize; 3]>) {
        let [channels, columns] = self.sizes();
        for rows in self.parts.iter().flat_map(|part| part.rows(at)) {
            // SAFETY: rows of the image and its result, with taps inside.
            unsafe { (self.compute)(Args { rows, other, channels, columns }) };
        }
    }
}

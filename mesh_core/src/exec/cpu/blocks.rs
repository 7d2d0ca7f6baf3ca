//! One matrix product, called in the blocks and the orientation in which the GEMM crate is fast.
//!
//! The crate packs the factor whose memory runs along the rows of the result and reads single
//! elements of the other one, four rows of the result at a time. It is slow where these four lie a
//! long stride apart for every step of the depth (weight gradients), and where few rows of the
//! result pay for the packing. It packs all columns that it is given before it multiplies, and goes
//! through what is packed once for every four rows: it is given columns panel by panel where that is
//! much. Which way is taken follows from extents and strides alone.

use super::gemm::{Gemm, Matrix, Number};
use super::transpose::{Transpose, Turn, transpose};

/// Most rows, columns and depth of a block: the left factor's takes 1 MiB of f32.
const ROWS: usize = 1024;
const COLUMNS: usize = 1024;
const DEPTH: usize = 256;
/// Bytes of a row of a panel: two (AVX-512) or eight (AVX2) of the widest tiles that the crate computes.
const PANEL: usize = 768;
/// Elements by which the last panel may be wider: fewer columns are not worth a call.
const NARROW: usize = 48;
/// Rows from which on one packing of all columns pays.
const MANY_ROWS: usize = 512;
/// The crate's own block of depth.
const PACKED_DEPTH: usize = 512;
/// Bytes of packed columns that are many for the second-level cache, which a block of rows shares.
const MANY_COLUMNS: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// From memory to memory.
    Direct,
    /// Blocks of the left factor are transposed in scratch.
    Left,
    /// The transposed result is computed in scratch, in full depth.
    Result,
}

/// Strides of a matrix: between rows, between columns.
pub(super) type Steps = [isize; 2];

/// A planned product of matrices of rows and depth, and of depth and columns.
pub(super) struct Blocks<T: Number> {
    /// Rows, columns, depth.
    shape: [usize; 3],
    /// Of left factor, right factor, result.
    steps: [Steps; 3],
    /// Whether all of the above is of the transposed product, the factors changed about.
    flip: bool,
    way: Way,
    /// Most rows, columns, depth at once.
    block: [usize; 3],
    /// Columns of a block that are multiplied at once.
    panel: usize,
    gemm: Gemm<T>,
    transpose: Transpose<T>,
}

/// The size of nearly equal parts of at most `most`.
fn even(n: usize, most: usize) -> usize {
    if n <= most { n } else { n.div_ceil(n.div_ceil(most)).next_multiple_of(16) }
}

impl<T: Number> Blocks<T> {
    /// `adds`: whether some run accumulates.
    pub(super) fn new([m, n, k]: [usize; 3], [a, b, c]: [Steps; 3], adds: bool) -> Self {
        // The result's rows run along memory.
        let flip = c[0] < c[1];
        let turn = |[x, y]: Steps| [y, x];
        let (shape, steps) = match flip {
            false => ([m, n, k], [a, b, c]),
            true => ([n, m, k], [turn(b), turn(a), turn(c)]),
        };
        let (way, block) = choose::<T>(shape, steps, adds);
        let panel = panel::<T>(way, block);
        let (gemm, transpose) = (Gemm::new(), transpose::<T>());
        Self { shape, steps, flip, way, block, panel, gemm, transpose }
    }

    /// Elements of scratch.
    pub(super) fn scratch(&self) -> usize {
        let [m, n, k] = self.block;
        match self.way {
            Way::Direct => 0,
            Way::Left => m * k,
            Way::Result => m * n,
        }
    }

    /// `c = a b`, or `c += a b`.
    ///
    /// # Safety
    ///
    /// The matrices are valid, `c` overlaps neither factor, and scratch has room for
    /// [`Blocks::scratch`] elements.
    pub(super) unsafe fn run(
        &self,
        a: *const T,
        b: *const T,
        c: *mut T,
        accumulate: bool,
        scratch: *mut T,
    ) {
        let (a, b) = if self.flip { (b, a) } else { (a, b) };
        let [rows, columns, depth] = self.shape;
        let [most_rows, most_columns, most_depth] = self.block;
        for j in (0..columns).step_by(most_columns) {
            for i in (0..rows).step_by(most_rows) {
                for l in (0..depth).step_by(most_depth) {
                    let shape = [
                        most_rows.min(rows - i),
                        most_columns.min(columns - j),
                        most_depth.min(depth - l),
                    ];
                    let at = |k: usize, [x, y]: [usize; 2]| {
                        x as isize * self.steps[k][0] + y as isize * self.steps[k][1]
                    };
                    // SAFETY: a block within the matrices.
                    unsafe {
                        let a = a.offset(at(0, [i, l]));
                        let b = b.offset(at(1, [l, j]));
                        let c = c.offset(at(2, [i, j]));
                        self.block(shape, a, b, c, accumulate || l > 0, scratch);
                    }
                }
            }
        }
    }

    /// # Safety
    ///
    /// As [`Blocks::run`].
    unsafe fn block(
        &self,
        shape: [usize; 3],
        a: *const T,
        b: *const T,
        c: *mut T,
        accumulate: bool,
        scratch: *mut T,
    ) {
        let [m, n, k] = shape;
        let [a_steps, b_steps, c_steps] = self.steps;
        let of = |at, [rows, columns]: Steps| Matrix { at, rows, columns };
        let b = of(b, b_steps);
        // SAFETY: the caller's promise; what is in scratch is as large as a block.
        unsafe {
            match self.way {
                Way::Direct => {
                    let c = Matrix { at: c, rows: c_steps[0], columns: c_steps[1] };
                    self.panels(shape, of(a, a_steps), b, c, accumulate);
                }
                Way::Left => {
                    (self.transpose)(Turn {
                        extents: [k, m],
                        from: a,
                        from_stride: a_steps[1],
                        to: scratch,
                        to_stride: k as isize,
                    });
                    let c = Matrix { at: c, rows: c_steps[0], columns: c_steps[1] };
                    self.panels(shape, of(scratch, [k as isize, 1]), b, c, accumulate);
                }
                Way::Result => {
                    let held = Matrix { at: scratch, rows: 1, columns: m as isize };
                    self.gemm.run(shape, of(a, a_steps), b, held, false);
                    (self.transpose)(Turn {
                        extents: [n, m],
                        from: scratch,
                        from_stride: m as isize,
                        to: c,
                        to_stride: c_steps[0],
                    });
                }
            }
        }
    }

    /// # Safety
    ///
    /// As [`Gemm::run`].
    unsafe fn panels(
        &self,
        [m, n, k]: [usize; 3],
        a: Matrix<*const T>,
        b: Matrix<*const T>,
        c: Matrix<*mut T>,
        accumulate: bool,
    ) {
        let mut done = 0;
        while done < n {
            let columns = if n - done < self.panel + NARROW { n - done } else { self.panel };
            let j = done as isize;
            // SAFETY: columns of the caller's matrices.
            unsafe {
                let b = Matrix { at: b.at.offset(j * b.columns), ..b };
                let c = Matrix { at: c.at.offset(j * c.columns), ..c };
                self.gemm.run([m, columns, k], a, b, c, accumulate);
            }
            done += columns;
        }
    }
}

/// The way of a product whose result is wide in memory, and its blocks.
fn choose<T: Number>(
    [m, n, k]: [usize; 3],
    [a, b, c]: [Steps; 3],
    adds: bool,
) -> (Way, [usize; 3]) {
    let is_left_turned = a[0] == 1 && a[1] != 1;
    let is_right_turned = b[0] == 1 && b[1] != 1;
    let is_tall = n <= 16 && m >= 64;
    let is_low = m <= 96 && n >= 128 && is_right_turned && !is_left_turned;
    if !T::BLOCKS || m == 1 || n == 1 || k < 32 {
        (Way::Direct, [m, n, k])
    } else if !adds && c[1] == 1 && (is_tall || is_low) {
        (Way::Result, [even(m, ROWS), even(n, COLUMNS), k])
    } else if is_left_turned && n >= 64 && k >= 192 {
        (Way::Left, [even(m, ROWS), even(n, COLUMNS), even(k, DEPTH)])
    } else {
        // Few rows want little depth.
        (Way::Direct, [m, n, if m < 200 { even(k, DEPTH) } else { k }])
    }
}

/// Columns of a panel of such blocks, cut off where that pays: 2 to 20 % of a product (AVX-512).
fn panel<T: Number>(way: Way, [m, n, k]: [usize; 3]) -> usize {
    let packed = n * k.min(PACKED_DEPTH) * size_of::<T>();
    let pays = m < MANY_ROWS || packed >= MANY_COLUMNS;
    // A transposed result has the left factor packed.
    let cut = T::BLOCKS && way != Way::Result && m > 1 && k >= 32 && pays;
    if cut { PANEL / size_of::<T>() } else { n }
}

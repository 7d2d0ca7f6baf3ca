//! Products of matrices by tiles.
//!
//! Of a block of depth and columns, the right factor is packed in panels. The left factor is read where it
//! lies, unless elements of a row are so far apart that they share few places of the caches.

use super::pack::pack;
use super::set::{Tiled, Tiles};
use super::tile::{MOST, Run, Tile};
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::transpose::{Transpose, Turn, transpose};

/// Most rows, columns and depth of a block.
const ROWS: usize = 192;
const COLUMNS: usize = 1024;
const DEPTH: usize = 256;
/// Bytes at whose multiples lines share places of the first cache.
const ALIAS: usize = 2048;

/// A product of matrices of rows and depth, and of depth and columns; a row of the result lies as one.
pub(in crate::exec::cpu) struct TileProduct<T> {
    shape: [usize; 3],
    /// Between rows and between columns of left factor, right factor and result.
    steps: [[isize; 2]; 3],
    /// Most rows, columns, depth of a block.
    block: [usize; 3],
    tiles: Tiles<T>,
    transpose: Transpose<T>,
}

/// A planned product of matrices.
pub(in crate::exec::cpu) trait Planned<T>: Send {
    /// Elements of scratch.
    fn scratch(&self) -> usize;

    /// `c = a b`, or `c += a b`.
    ///
    /// # Safety
    ///
    /// The matrices are valid, `c` overlaps neither factor, and scratch has room for
    /// [`Planned::scratch`] elements.
    unsafe fn run(&self, factors: [*const T; 2], c: *mut T, accumulate: bool, scratch: *mut T);
}

/// Parts of equal size of at most `most`, a multiple of `of`.
fn even(n: usize, most: usize, of: usize) -> usize {
    n.div_ceil(n.div_ceil(most).max(1)).next_multiple_of(of)
}

impl<T: Tiled> TileProduct<T> {
    /// `None` where a row of the result does not lie as one, or the machine has no tiles.
    pub(in crate::exec::cpu) fn new(shape: [usize; 3], steps: [[isize; 2]; 3]) -> Option<Self> {
        let tiles = T::tiles(isa())?;
        let [m, n, k] = shape;
        if steps[2][1] != 1 || u32::try_from(k).is_err() {
            return None;
        }
        let block = [even(m, ROWS, MOST), even(n, COLUMNS, tiles.width()), even(k, DEPTH, 1)];
        Some(Self { shape, steps, block, tiles, transpose: transpose::<T>() })
    }

    /// Whether rows of the left factor are packed.
    fn packs(&self) -> bool {
        let [row, step] = self.steps[0];
        row == 1 && step != 1 && (step.unsigned_abs() * size_of::<T>()).is_multiple_of(ALIAS)
    }

    fn right_len(&self) -> usize {
        let [_, n, k] = self.block;
        (self.tiles.padded(n) * k).next_multiple_of(16)
    }
}

impl<T: Tiled> Planned<T> for TileProduct<T> {
    fn scratch(&self) -> usize {
        let [m, _, k] = self.block;
        let left = if self.packs() { m.min(self.shape[0]) * k } else { 0 };
        self.right_len() + left
    }

    unsafe fn run(&self, [a, b]: [*const T; 2], c: *mut T, accumulate: bool, scratch: *mut T) {
        let all = self.shape;
        let ranges = |dim: usize| {
            let size = self.block[dim];
            (0..all[dim]).step_by(size).map(move |at| [at, size.min(all[dim] - at)])
        };
        let left = scratch.wrapping_add(self.right_len());
        let at = |k: usize, i: usize, j: usize| {
            i as isize * self.steps[k][0] + j as isize * self.steps[k][1]
        };
        for [j, n] in ranges(1) {
            for [l, k] in ranges(2) {
                // SAFETY: a block of the right factor; scratch has room for it.
                unsafe { self.right(b.offset(at(1, l, j)), [n, k], scratch) };
                for [i, m] in ranges(0) {
                    // SAFETY: a block of the left factor and of the result.
                    unsafe {
                        let a = a.offset(at(0, i, l));
                        if self.packs() {
                            self.left(a, [m, k], left);
                        }
                        let c = c.offset(at(2, i, j));
                        let factors = [if self.packs() { left } else { a }, scratch];
                        self.block(factors, c, [m, n, k], accumulate || l > 0);
                    }
                }
            }
        }
    }
}

impl<T: Tiled> TileProduct<T> {
    /// Packs panels of the right factor.
    ///
    /// # Safety
    ///
    /// As [`Planned::run`].
    unsafe fn right(&self, b: *const T, [n, k]: [usize; 2], to: *mut T) {
        let [row, column] = self.steps[1];
        for [first, count, width] in self.tiles.panels(n) {
            let to = to.wrapping_add(first * k);
            // SAFETY: the caller's matrix and room.
            unsafe {
                let from = b.offset(first as isize * column);
                if row == 1 && column != 1 && count == width {
                    let (from_stride, to_stride) = (column, width as isize);
                    let extents = [count, k];
                    (self.transpose)(Turn { extents, from, from_stride, to, to_stride });
                } else {
                    let rows = (0..k as isize).map(|l| l * row);
                    pack(from, rows, (count, column), width, to);
                }
            }
        }
    }

    /// Packs rows of the left factor by tiles.
    ///
    /// # Safety
    ///
    /// As [`Planned::run`].
    unsafe fn left(&self, a: *const T, [m, k]: [usize; 2], to: *mut T) {
        let step = self.steps[0][1];
        for range in self.tiles.cut(m) {
            let to = to.wrapping_add(range.start * k);
            let rows = (0..k as isize).map(|l| l * step);
            // SAFETY: the caller's matrix and room.
            unsafe { pack(a.add(range.start), rows, (range.len(), 1), range.len(), to) };
        }
    }

    /// # Safety
    ///
    /// As [`Planned::run`], for factors as they are packed.
    unsafe fn block(
        &self,
        [a, b]: [*const T; 2],
        c: *mut T,
        [m, n, k]: [usize; 3],
        accumulate: bool,
    ) {
        let runs = [Run { a: 0, b: 0, len: k as u32 }];
        for [first, count, width] in self.tiles.panels(n) {
            let b = b.wrapping_add(first * k);
            for range in self.tiles.cut(m) {
                let rows = range.len();
                let (mut from, mut to) = ([a; MOST], [c; MOST]);
                for (p, i) in range.clone().enumerate() {
                    from[p] = match self.packs() {
                        true => a.wrapping_add(range.start * k + p),
                        false => a.wrapping_offset(i as isize * self.steps[0][0]),
                    };
                    to[p] = c.wrapping_offset(i as isize * self.steps[2][0]).wrapping_add(first);
                }
                let step = if self.packs() { rows as isize } else { self.steps[0][1] };
                let tile = Tile { rows: from, runs: &runs, step, b, to, accumulate };
                // SAFETY: rows of the factors as they are packed, and of the result.
                unsafe { self.tiles.run(rows, [count, width], tile) };
            }
        }
    }
}

//! Products of matrices by tiles.
//!
//! Of a block of depth and columns, the right factor is packed in panels. The left factor is read where it
//! lies, unless elements of a row or of neighbouring rows are so far apart that they share few places of the caches.

use super::pack::{pack, pack_panel};
use super::set::{Tiled, Tiles};
use super::tile::{MOST, Run, Tile};
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::transpose::{Transpose, transpose};

/// Most rows, columns and depth of a block, and elements of the right factor's.
struct Most {
    rows: usize,
    columns: usize,
    depth: usize,
    right: usize,
}

/// Where panels stay in the first cache, and where they come from the second one, which vectors of 512 bits leave
/// time for: then sums are written less often.
const NEAR: Most = Most { rows: 192, columns: 1024, depth: 256, right: 256 << 10 };
const FAR: Most = Most { rows: 112, columns: 1024, depth: 1024, right: 160 << 10 };
/// Bytes at whose multiples lines share places of the first cache.
const ALIAS: usize = 2048;
/// Elements between the rows of a copy beyond their lengths: a cache line of f32.
const APART: usize = 16;

/// How the left factor is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    InPlace,
    /// Of the rows of a tile, elements that meet one vector lie together.
    Packed,
    /// Row by row.
    Copied,
}

/// A product of matrices of rows and depth, and of depth and columns; a row of the result lies as one.
pub(in crate::exec::cpu) struct TileProduct<T> {
    shape: [usize; 3],
    /// Between rows and between columns of left factor, right factor and result.
    steps: [[isize; 2]; 3],
    /// Most rows, columns, depth of a block.
    block: [usize; 3],
    left: Left,
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
        let most = if tiles.most() == MOST { FAR } else { NEAR };
        let depth = even(k, most.depth, 1);
        let columns = (most.right / depth.max(1)).clamp(tiles.width(), most.columns);
        let rows = even(m, most.rows, tiles.most());
        let block = [rows, even(n, columns, tiles.width()), depth];
        let left = left::<T>(steps[0]);
        Some(Self { shape, steps, block, left, tiles, transpose: transpose::<T>() })
    }

    fn right_len(&self) -> usize {
        let [_, n, k] = self.block;
        (self.tiles.padded(n) * k).next_multiple_of(16)
    }
}

impl<T: Tiled> Planned<T> for TileProduct<T> {
    fn scratch(&self) -> usize {
        let [m, _, k] = self.block;
        let left = match self.left {
            Left::InPlace => 0,
            Left::Packed => k,
            Left::Copied => k + APART,
        };
        self.right_len() + left * m.min(self.shape[0])
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
                        let a = self.left(a, [m, k], left);
                        let c = c.offset(at(2, i, j));
                        let factors = [a, scratch.cast_const()];
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
        for [first, count, width] in self.tiles.panels(n) {
            let to = to.wrapping_add(first * k);
            // SAFETY: the caller's matrix and room.
            unsafe {
                let from = b.offset(first as isize * self.steps[1][1]);
                pack_panel(from, self.steps[1], [k, count, width], self.transpose, to);
            }
        }
    }

    /// A block of the left factor as tiles read it.
    ///
    /// # Safety
    ///
    /// As [`Planned::run`].
    unsafe fn left(&self, a: *const T, [m, k]: [usize; 2], to: *mut T) -> *const T {
        let [row, step] = self.steps[0];
        match self.left {
            Left::InPlace => return a,
            Left::Packed => {
                for range in self.tiles.cut(m) {
                    let to = to.wrapping_add(range.start * k);
                    let rows = (0..k as isize).map(|l| l * step);
                    // SAFETY: the caller's matrix and room.
                    unsafe { pack(a.add(range.start), rows, (range.len(), 1), range.len(), to) };
                }
            }
            Left::Copied => {
                let rows = (0..m as isize).map(|i| i * row);
                // SAFETY: the caller's matrix and room.
                unsafe { pack(a, rows, (k, 1), k + APART, to) };
            }
        }
        to
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
        let [row, step] = self.steps[0];
        for [first, count, width] in self.tiles.panels(n) {
            let b = b.wrapping_add(first * k);
            for range in self.tiles.cut(m) {
                let (begin, apart, step) = match self.left {
                    Left::InPlace => (range.start as isize * row, row, step),
                    Left::Packed => ((range.start * k) as isize, 1, range.len() as isize),
                    Left::Copied => ((range.start * (k + APART)) as isize, (k + APART) as isize, 1),
                };
                let (mut from, mut to) = ([a; MOST], [c; MOST]);
                for (p, i) in range.clone().enumerate() {
                    from[p] = a.wrapping_offset(begin + p as isize * apart);
                    to[p] = c.wrapping_offset(i as isize * self.steps[2][0]).wrapping_add(first);
                }
                let tile = Tile { rows: &from, runs: &runs, step, b, to: &to, accumulate };
                // SAFETY: rows of the factors as they are packed, and of the result.
                unsafe { self.tiles.run(range.len(), [count, width], tile) };
            }
        }
    }
}

/// How a left factor with such steps between rows and between columns is read best.
fn left<T>([row, step]: [isize; 2]) -> Left {
    let aliases = |step: isize| (step.unsigned_abs() * size_of::<T>()).is_multiple_of(ALIAS);
    match (row, step) {
        (1, step) if step != 1 && aliases(step) => Left::Packed,
        (row, 1) if aliases(row) => Left::Copied,
        _ => Left::InPlace,
    }
}

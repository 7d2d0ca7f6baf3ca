//! Products of matrices by tiles.
//!
//! Of a block of depth and columns the right factor is packed in panels, where possible by the tiles of the first
//! rows while they compute. A tile's rows of the left factor stay in the first cache while panels come by. They are read
//! where they lie, or, where memory runs along columns, packed before.

use super::pack::{pack_panel, pack_tiles};
use super::set::{Tiled, Tiles};
use super::tile::{MOST, Run, Source, Tile};
use crate::exec::cpu::fetch;
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::transpose::{Transpose, transpose};

/// Most columns of a block; most bytes of a row of the left factor, and of a block of the right one, which the second
/// cache keeps; the same of a left factor that is packed.
struct Most {
    columns: usize,
    row: usize,
    right: usize,
    packed_row: usize,
    left: usize,
}

/// For vectors of 256 bits and of 512.
const NEAR: Most =
    Most { columns: 1024, row: 1 << 10, right: 256 << 10, packed_row: 1 << 10, left: 192 << 10 };
const FAR: Most =
    Most { columns: 1024, row: 3 << 10, right: 640 << 10, packed_row: 1 << 10, left: 1 << 20 };
/// A left factor whose memory runs along columns is read where it lies below so many bytes of the right one, and from its
/// own first row to its last.
const IN_PLACE: [usize; 2] = [256 << 10, 512 << 10];
/// Panels from which on it is packed otherwise.
const MANY: usize = 4;
/// Bytes of rows that are asked for a tile ahead: longer ones come ahead by themselves.
const SHORT: usize = 1536;
/// Bytes of a left factor that are much for the second cache, which has it otherwise.
const MUCH: usize = 1 << 20;

/// A product of matrices of rows and depth, and of depth and columns; a row of the result lies as one.
pub(in crate::exec::cpu) struct TileProduct<T> {
    shape: [usize; 3],
    /// Between rows and between columns of left factor, right factor and result.
    steps: [[isize; 2]; 3],
    /// Most rows, columns, depth of a block.
    block: [usize; 3],
    /// Whether the left factor is packed: of the rows of a tile, elements that meet one vector then lie together.
    packs_left: bool,
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
    /// `None` where a row of the result does not lie as one, where packing the left factor does not pay, or where the
    /// machine has no tiles.
    pub(in crate::exec::cpu) fn new(shape: [usize; 3], steps: [[isize; 2]; 3]) -> Option<Self> {
        let tiles = T::tiles(isa())?;
        let [m, n, k] = shape;
        if steps[2][1] != 1 || u32::try_from(k).is_err() {
            return None;
        }
        let most = if tiles.most() == MOST { FAR } else { NEAR };
        let fit = |bytes: usize| bytes / size_of::<T>();
        let is_turned = steps[0][0] == 1 && steps[0][1] != 1;
        let reach = k * steps[0][1].unsigned_abs();
        let packs_left = is_turned && (n * k > fit(IN_PLACE[0]) || reach >= fit(IN_PLACE[1]));
        if packs_left && n.div_ceil(tiles.width()) < MANY {
            return None;
        }
        let depth = even(k, fit(if packs_left { most.packed_row } else { most.row }), 1).max(1);
        let columns = (fit(most.right) / depth).clamp(tiles.width(), most.columns);
        let rows = if packs_left { even(m, fit(most.left) / depth, tiles.most()) } else { m };
        let block = [rows, even(n, columns, tiles.width()), depth];
        Some(Self { shape, steps, block, packs_left, tiles, transpose: transpose::<T>() })
    }

    fn right_len(&self) -> usize {
        let [_, n, k] = self.block;
        (self.tiles.padded(n) * k).next_multiple_of(16)
    }
}

impl<T: Tiled> Planned<T> for TileProduct<T> {
    fn scratch(&self) -> usize {
        let [m, _, k] = self.block;
        self.right_len() + if self.packs_left { k * m.min(self.shape[0]) } else { 0 }
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
        for [i, m] in ranges(0) {
            for [l, k] in ranges(2) {
                let mut a = a.wrapping_offset(at(0, i, l));
                if self.packs_left {
                    // SAFETY: a block of the left factor; scratch has room for it.
                    unsafe { pack_tiles(a, self.steps[0][1], [k, m], &self.tiles, left) };
                    a = left.cast_const();
                }
                for [j, n] in ranges(1) {
                    // SAFETY: a block of the right factor and of the result; scratch has room for it.
                    unsafe {
                        let b = b.offset(at(1, l, j));
                        let c = c.offset(at(2, i, j));
                        self.block([a, b], c, [m, n, k], scratch, accumulate || l > 0);
                    }
                }
            }
        }
    }
}

impl<T: Tiled> TileProduct<T> {
    /// Packs the panels of a block of the right factor, but for those that tiles of the first rows can pack.
    ///
    /// # Safety
    ///
    /// As [`Planned::run`].
    unsafe fn right(&self, b: *const T, [n, k]: [usize; 2], to: *mut T) {
        for panel @ [first, count, width] in self.tiles.panels(n) {
            if !self.packs(panel) {
                let to = to.wrapping_add(first * k);
                // SAFETY: the caller's matrix and room.
                unsafe {
                    let from = b.offset(first as isize * self.steps[1][1]);
                    pack_panel(from, self.steps[1], [k, count, width], self.transpose, to);
                }
            }
        }
    }

    /// Whether tiles can pack a panel: its vectors lie as they are.
    fn packs(&self, [_, count, _]: [usize; 3]) -> bool {
        self.steps[1][1] == 1 && count == self.tiles.width()
    }

    /// # Safety
    ///
    /// As [`Planned::run`], for a left factor as it is packed; `right` has room for a block.
    unsafe fn block(
        &self,
        [a, b]: [*const T; 2],
        c: *mut T,
        [m, n, k]: [usize; 3],
        right: *mut T,
        accumulate: bool,
    ) {
        // SAFETY: the caller's block and room.
        unsafe { self.right(b, [n, k], right) };
        let runs = [Run { a: 0, b: 0, len: k as u32 }];
        let [row, step] = self.steps[0];
        let (bytes, panels) = (k * size_of::<T>(), n.div_ceil(self.tiles.width()));
        let asks = !self.packs_left && step == 1 && bytes <= SHORT && m * bytes >= MUCH;
        for range in self.tiles.cut(m) {
            let (begin, apart, step) = match self.packs_left {
                true => ((range.start * k) as isize, 1, range.len() as isize),
                false => (range.start as isize * row, row, step),
            };
            let mut from = [a; MOST];
            for (p, from) in from[..range.len()].iter_mut().enumerate() {
                *from = a.wrapping_offset(begin + p as isize * apart);
            }
            for (turn, panel) in self.tiles.panels(n).enumerate() {
                if asks {
                    for row in from[..range.len()].iter().skip(turn).step_by(panels) {
                        let next = row.wrapping_offset(range.len() as isize * apart);
                        fetch::run(next.cast(), bytes, fetch::to_second);
                    }
                }
                let [first, count, width] = panel;
                let mut to = [c; MOST];
                for (to, i) in to.iter_mut().zip(range.clone()) {
                    *to = c.wrapping_offset(i as isize * self.steps[2][0]).wrapping_add(first);
                }
                let packed = right.wrapping_add(first * k).cast_const();
                let tile = Tile { rows: &from, runs: &runs, step, b: packed, to: &to, accumulate };
                // SAFETY: rows of the left factor as they are packed, and of the result; a panel that is
                // packed, or where it lies in the right factor.
                unsafe {
                    if range.start == 0 && self.packs(panel) {
                        let source = Source { at: b.add(first), step: self.steps[1][0] };
                        self.tiles.run_packing(range.len(), &tile, source);
                    } else {
                        self.tiles.run(range.len(), [count, width], tile);
                    }
                }
            }
        }
    }
}

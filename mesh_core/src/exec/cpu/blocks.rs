//! One matrix product: by register tiles (`tiles/`), or in the blocks and the orientation in which the GEMM crate is
//! fast.
//!
//! The crate packs the factor whose memory runs along the rows of the result and reads single
//! elements of the other one, four rows of the result at a time. It is slow where these four lie a
//! long stride apart for every step of the depth (weight gradients), and where few rows of the
//! result pay for the packing. It packs all columns that it is given before it multiplies, and goes
//! through what is packed once for every four rows: it is given columns panel by panel where that is
//! much. Which way is taken follows from extents, strides, the instruction set and the first cache alone.

use super::cache;
use super::gemm::{Gemm, Matrix, Number};
use super::isa::{Isa, isa};
use super::tiles::Planned;
use super::transpose::{Transpose, Turn, transpose};

/// Most rows, columns and depth of a block: the left factor's takes 1 MiB of f32. Rows of a result that
/// are far apart are many pages.
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

/// A part of the product: where it begins and what it has, in rows, columns, depth.
#[derive(Clone, Copy)]
struct Block {
    at: [usize; 3],
    size: [usize; 3],
}

/// A planned product of matrices of rows and depth, and of depth and columns.
pub(super) struct Blocks<T: Number> {
    /// Rows, columns, depth.
    shape: [usize; 3],
    /// Of left factor, right factor, result.
    steps: [Steps; 3],
    /// Whether all of the above is of the transposed product, the factors changed about.
    flip: bool,
    way: Way,
    /// Most rows, columns, depth of a block.
    block: [usize; 3],
    /// Columns of a block that are multiplied at once.
    panel: usize,
    gemm: Gemm<T>,
    transpose: Transpose<T>,
    /// By register tiles instead of by the crate.
    tiles: Option<Box<dyn Planned<T>>>,
}

/// The size of nearly equal parts of at most `most`.
fn even(n: usize, most: usize) -> usize {
    if n <= most { n } else { n.div_ceil(n.div_ceil(most)).next_multiple_of(16) }
}

fn turn<N>([x, y]: [N; 2]) -> [N; 2] {
    [y, x]
}

impl<T: Number> Blocks<T> {
    /// `adds`: whether some run accumulates.
    pub(super) fn new([m, n, k]: [usize; 3], [a, b, c]: [Steps; 3], adds: bool) -> Self {
        // The result's rows run along memory.
        let flip = c[0] < c[1];
        let (shape, steps) = match flip {
            false => ([m, n, k], [a, b, c]),
            true => ([n, m, k], [turn(b), turn(a), turn(c)]),
        };
        let (way, block) = choose::<T>(shape, steps, adds);
        let panel = panel::<T>(way, block);
        let (gemm, transpose) = (Gemm::new(), transpose::<T>());
        let tiles = if tiled(shape, steps) { T::tiles(shape, steps) } else { None };
        Self { shape, steps, flip, way, block, panel, gemm, transpose, tiles }
    }

    /// Elements of scratch.
    pub(super) fn scratch(&self) -> usize {
        if let Some(tiles) = &self.tiles {
            return tiles.scratch();
        }
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
        [a, b]: [*const T; 2],
        c: *mut T,
        accumulate: bool,
        scratch: *mut T,
    ) {
        let [a, b] = if self.flip { [b, a] } else { [a, b] };
        if let Some(tiles) = &self.tiles {
            // SAFETY: the caller's matrices and scratch.
            return unsafe { tiles.run([a, b], c, accumulate, scratch) };
        }
        for block in self.blocks() {
            // SAFETY: the block lies within the matrices, which are valid, as is the scratch.
            unsafe { self.block(block, [a, b], c, accumulate, scratch) };
        }
    }

    fn blocks(&self) -> impl Iterator<Item = Block> + use<T> {
        let (all, most) = (self.shape, self.block);
        let begins = move |dim: usize| (0..all[dim]).step_by(most[dim]);
        let block = move |at: [usize; 3]| {
            let size = [0, 1, 2].map(|dim| most[dim].min(all[dim] - at[dim]));
            Block { at, size }
        };
        let rows = move |j| begins(0).map(move |i| (i, j));
        let places = begins(1).flat_map(rows);
        places.flat_map(move |(i, j)| begins(2).map(move |l| block([i, j, l])))
    }

    /// The first column and the number of columns of each panel of a block.
    fn panels(&self, block: Block) -> impl Iterator<Item = (usize, usize)> + use<T> {
        let (n, panel) = (block.size[1], self.panel);
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = next;
            let columns = if n - first < panel + NARROW { n - first } else { panel };
            next += columns;
            (columns > 0).then_some((first, columns))
        })
    }

    /// # Safety
    ///
    /// As [`Blocks::run`].
    unsafe fn block(
        &self,
        block: Block,
        [a, b]: [*const T; 2],
        c: *mut T,
        accumulate: bool,
        scratch: *mut T,
    ) {
        let ([i, j, l], [m, n, k]) = (block.at, block.size);
        let at = |k: usize, [x, y]: [usize; 2]| {
            x as isize * self.steps[k][0] + y as isize * self.steps[k][1]
        };
        // SAFETY: a block within the matrices; what is in scratch is as large as a block.
        unsafe {
            let mut a = Matrix::new(a.offset(at(0, [i, l])), self.steps[0]);
            let b = Matrix::new(b.offset(at(1, [l, j])), self.steps[1]);
            let c = Matrix::new(c.offset(at(2, [i, j])), self.steps[2]);
            if self.way == Way::Result {
                let held = Matrix::new(scratch, [1, m as isize]);
                self.gemm.run([m, n, k], a, b, held, false);
                let (from, from_stride) = (scratch.cast_const(), m as isize);
                let (to, to_stride) = (c.at, c.rows);
                (self.transpose)(Turn { extents: [n, m], from, from_stride, to, to_stride });
                return;
            }
            if self.way == Way::Left {
                let (to, to_stride) = (scratch, k as isize);
                let (from, from_stride) = (a.at, a.columns);
                (self.transpose)(Turn { extents: [k, m], from, from_stride, to, to_stride });
                a = Matrix::new(scratch.cast_const(), [k as isize, 1]);
            }
            for (first, columns) in self.panels(block) {
                let first = first as isize;
                let b = Matrix { at: b.at.offset(first * b.columns), ..b };
                let c = Matrix { at: c.at.offset(first * c.columns), ..c };
                self.gemm.run([m, columns, k], a, b, c, accumulate || l > 0);
            }
        }
    }
}

/// Whether tiles are faster than the crate. Where vectors are of 512 bits they are for deep products, unless a last panel
/// is narrow, or few rows want a right factor turned; with a narrow first cache, and where vectors are of 256 bits, for
/// deep products of a left factor whose memory runs along its rows, as gradients of weights have it. Rows that are
/// a multiple of 4 KiB apart share one set of that cache, which holds fewer of them than a tile of 512 bits has. The
/// bounds are where times of both cross (docs/performance.md).
fn tiled([m, n, k]: [usize; 3], [a, b, _]: [Steps; 3]) -> bool {
    let is_turned = |steps: Steps| steps[0] == 1 && steps[1] != 1;
    match isa() {
        Isa::Avx512 if cache::is_narrow() => {
            is_turned(a) && (64..=192).contains(&n) && (192..=512).contains(&k)
        }
        Isa::Avx512 => {
            let is_wide = n >= 100 && k >= 128 || n > 0 && n.is_multiple_of(32) && k >= 256;
            is_wide && m >= if is_turned(b) { 128 } else { 16 }
        }
        Isa::Avx2 => is_turned(a) && m >= 48 && n >= 32 && k >= 192,
        Isa::Portable => false,
    }
}

/// The way of a product whose result is wide in memory, and most rows, columns and depth at once.
fn choose<T: Number>(
    [m, n, k]: [usize; 3],
    [a, b, c]: [Steps; 3],
    adds: bool,
) -> (Way, [usize; 3]) {
    let is_left_turned = a[0] == 1 && a[1] != 1;
    let is_right_turned = b[0] == 1 && b[1] != 1;
    let is_tall = n <= 16 && m >= 64;
    let is_low = m <= 96 && n >= 128 && is_right_turned && !is_left_turned;
    if T::large().is_none() || m == 1 || n == 1 {
        (Way::Direct, [m, n, k])
    } else if k < 32 {
        // One packing serves all rows.
        (Way::Direct, [m, n, k])
    } else if !adds && c[1] == 1 && (is_tall || is_low) {
        (Way::Result, [even(m, ROWS), even(n, COLUMNS), k])
    } else if is_left_turned && n >= 64 && k >= 192 {
        (Way::Left, [even(m, ROWS), even(n, COLUMNS), even(k, DEPTH)])
    } else {
        // Few rows want little depth.
        (Way::Direct, [even(m, ROWS), n, if m < 200 { even(k, DEPTH) } else { k }])
    }
}

/// Columns of a panel of such blocks, cut off where that pays: 2 to 20 % of a product (AVX-512).
fn panel<T: Number>(way: Way, [m, n, k]: [usize; 3]) -> usize {
    let packed = n * k.min(PACKED_DEPTH) * size_of::<T>();
    let pays = k >= 32 && (m < MANY_ROWS || packed >= MANY_COLUMNS);
    // A transposed result has the left factor packed.
    let cut = T::large().is_some() && way != Way::Result && m > 1 && pays;
    if cut { PANEL / size_of::<T>() } else { n }
}

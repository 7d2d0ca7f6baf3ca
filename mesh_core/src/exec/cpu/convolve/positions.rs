//! Forward convolution and the gradient of the image: rows of a tile are positions of the result.
//!
//! The source is read where it lies. Positions that see the same taps are a part of their own, so those
//! at the ends of images add nothing for what lies beyond. Rows, depth and columns go in blocks: what
//! a block of rows reads stays in the second cache while all columns are made of it, and a panel of
//! the kernel in the first.

use super::matrices::{Ends, Matrices, Part};
use super::parts::Parts;
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::product::{Product, aligned};
use crate::exec::cpu::strided::Labels;
use crate::exec::cpu::tiles::{MOST, Run, Tile, Tiled, Tiles, pack};
use crate::exec::cpu::transpose::{Transpose, Turn, transpose};
use crate::program::Window;
use std::cmp::Ordering;

/// Most rows of a block, and elements of each, about.
const ROWS: usize = 192;
const DEPTH: usize = 1024;

/// Positions that see the same taps.
struct Planned {
    /// Per position in an image: offsets in source and result.
    rows: Vec<[isize; 2]>,
    /// The runs of each block of depth.
    blocks: Vec<Vec<Run>>,
}

pub(super) struct Positions<T> {
    matrices: Matrices,
    parts: Vec<Planned>,
    /// Where the taps are in the kernel, in the order in which they are packed.
    taps: Vec<isize>,
    tiles: Tiles<T>,
    transpose: Transpose<T>,
}

impl<T: Tiled> Positions<T> {
    /// `None` where a vector does not lie as one, or the machine has no tiles.
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: &Parts) -> Option<Self> {
        let tiles = T::tiles(isa())?;
        let mut matrices = Matrices::new(labels, windows, parts, Ends::Clipped)?;
        let (columns, [_, step]) = matrices.columns;
        if matrices.makes_kernel() || matrices.padded.is_some() || columns > 1 && step != 1 {
            return None;
        }
        // What follows in the source shall follow in the packed kernel.
        let turned = parts.roles[0] == 2;
        let parts = std::mem::take(&mut matrices.parts);
        let mut taps: Vec<_> =
            parts.iter().flat_map(|part| part.taps.iter().map(|tap| tap.kernel)).collect();
        taps.sort_unstable_by(|a, b| order(*a, *b, turned));
        taps.dedup();
        let depth = matrices.depth.0;
        let fits = |n: usize| n <= i32::MAX as usize;
        if !fits(taps.len() * depth) || !fits(taps.len() * depth * tiles.padded(columns)) {
            return None;
        }
        let planned = |part: Part| {
            let blocks = blocks(&part, &taps, depth, turned);
            Planned { rows: part.rows, blocks }
        };
        let parts = parts.into_iter().map(planned).collect();
        Some(Self { matrices, parts, taps, tiles, transpose: transpose::<T>() })
    }

    /// Steps of a row that sees all taps.
    fn steps(&self) -> usize {
        self.taps.len() * self.matrices.depth.0
    }

    fn packed_len(&self) -> usize {
        self.steps() * self.tiles.padded(self.matrices.columns.0)
    }
}

/// Of two taps of the kernel, backwards if `turned`.
fn order(a: isize, b: isize, turned: bool) -> Ordering {
    if turned { b.cmp(&a) } else { a.cmp(&b) }
}

/// The runs of a part, cut into blocks of about [`DEPTH`] elements, at least one.
fn blocks(part: &Part, taps: &[isize], depth: usize, turned: bool) -> Vec<Vec<Run>> {
    let pieces = depth.div_ceil(depth.div_ceil(DEPTH));
    let mut blocks: Vec<Vec<Run>> = Vec::new();
    let mut left = 0;
    for tap in &part.taps {
        let order = |other: &isize| order(*other, tap.kernel, turned);
        let place = taps.binary_search_by(order).unwrap_or(0) * depth;
        for from in (0..depth).step_by(pieces) {
            let len = pieces.min(depth - from);
            if left < len {
                blocks.push(Vec::new());
                left = DEPTH.max(len);
            }
            left -= len;
            let (a, b) = (tap.source + from as isize, place + from);
            let run = Run { a: a as i32, b: b as i32, len: len as u32 };
            let Some(block) = blocks.last_mut() else { continue };
            match block.last_mut().filter(|last| goes_on(last, &run)) {
                Some(last) => last.len += run.len,
                None => block.push(run),
            }
        }
    }
    if blocks.is_empty() {
        blocks.push(Vec::new());
    }
    blocks
}

/// Whether a run begins where another one ends.
fn goes_on(last: &Run, next: &Run) -> bool {
    let len = i64::from(last.len);
    let follows = |last: i32, next: i32| i64::from(next) == i64::from(last) + len;
    follows(last.a, next.a) && follows(last.b, next.b)
}

impl<T: Tiled> Product for Positions<T> {
    fn scratch_bytes(&self) -> usize {
        aligned(self.packed_len(), size_of::<T>())
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [source, kernel, result] = self.matrices.roles.map(|k| operands[k].cast::<T>());
        let packed = scratch.cast::<T>();
        self.matrices.groups.walk([0; 3], &mut |[s, k, r]| {
            // SAFETY: offsets of the plan; scratch has room for the packed kernel.
            unsafe {
                self.pack(kernel.offset(k), packed);
                let (source, result) = (source.offset(s), result.offset(r).cast_mut());
                self.group(source, packed.cast_const(), result);
            }
        });
    }
}

impl<T: Tiled> Positions<T> {
    /// Panels of columns, each with all taps.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn pack(&self, kernel: *const T, packed: *mut T) {
        let Matrices { depth: (depth, step), columns: (columns, [column, _]), .. } = self.matrices;
        for [first, count, width] in self.tiles.panels(columns) {
            let mut to = packed.wrapping_add(first * self.steps());
            for tap in &self.taps {
                // SAFETY: the tap's rows of the kernel; the panel has room for them.
                unsafe {
                    let from = kernel.offset(tap + first as isize * column);
                    if column == 1 || step != 1 || count < width {
                        let rows = (0..depth as isize).map(|d| d * step);
                        pack(from, rows, (count, column), width, to);
                    } else {
                        let (from_stride, to_stride) = (column, width as isize);
                        let extents = [count, depth];
                        (self.transpose)(Turn { extents, from, from_stride, to, to_stride });
                    }
                }
                to = to.wrapping_add(depth * width);
            }
        }
    }

    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn group(&self, source: *const T, packed: *const T, result: *mut T) {
        let images = &self.matrices.images;
        let most = ROWS / self.tiles.rows * self.tiles.rows;
        for part in &self.parts {
            let of_image =
                |i: [isize; 2]| part.rows.iter().map(move |row| [i[0] + row[0], i[1] + row[1]]);
            let mut all = images.iter().flat_map(|&image| of_image(image));
            let mut left = images.len() * part.rows.len();
            let even = left.div_ceil(left.div_ceil(most).max(1));
            let size = even.next_multiple_of(self.tiles.rows).min(most);
            let mut rows = [[0; 2]; ROWS];
            while left > 0 {
                let count = size.min(left);
                rows[..count].iter_mut().zip(all.by_ref()).for_each(|(to, row)| *to = row);
                // SAFETY: rows of the part.
                unsafe { self.block(part, &rows[..count], [source, packed], result) };
                left -= count;
            }
        }
    }

    /// All columns of some rows.
    ///
    /// # Safety
    ///
    /// As [`Product::run`]; the rows are the part's.
    unsafe fn block(
        &self,
        part: &Planned,
        rows: &[[isize; 2]],
        [source, packed]: [*const T; 2],
        result: *mut T,
    ) {
        for (i, runs) in part.blocks.iter().enumerate() {
            for [first, count, width] in self.tiles.panels(self.matrices.columns.0) {
                let b = packed.wrapping_add(first * self.steps());
                let result = result.wrapping_add(first);
                for rows in self.tiles.cut(rows.len()).map(|range| &rows[range]) {
                    let (mut from, mut to) = ([source; MOST], [result; MOST]);
                    for ((from, to), row) in from.iter_mut().zip(&mut to).zip(rows) {
                        *from = source.wrapping_offset(row[0]);
                        *to = result.wrapping_offset(row[1]);
                    }
                    let tile = Tile { rows: from, runs, step: 1, b, to, accumulate: i > 0 };
                    // SAFETY: the runs lie within the rows' source and the packed panel.
                    unsafe { self.tiles.run(rows.len(), [count, width], tile) };
                }
            }
        }
    }
}

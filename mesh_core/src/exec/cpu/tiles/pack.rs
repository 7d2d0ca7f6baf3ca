//! Panels and tiles of a matrix, packed.

use super::rows::{copy, pack};
use super::set::{Tiled, Tiles};
use super::tile::AHEAD;
use crate::exec::cpu::fetch;
use crate::exec::cpu::transpose::{Transpose, Turn};
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes between rows from which on they are fetched one after the other, unless they are asked for.
const APART: usize = 512;

/// Packs `depth` rows of a panel of a matrix: its first `count` columns, with zeros up to `width`.
///
/// # Safety
///
/// `from` is valid at the matrix's steps between rows and between columns, `to` for the panel.
pub(in crate::exec::cpu) unsafe fn pack_panel<T: Tiled>(
    from: *const T,
    [row, column]: [isize; 2],
    [depth, count, width]: [usize; 3],
    transpose: Transpose<T>,
    to: *mut T,
) {
    // SAFETY: the caller's matrix and room.
    unsafe {
        if row == 1 && column != 1 && count == width {
            let (from_stride, to_stride) = (column, width as isize);
            let extents = [count, depth];
            transpose(Turn { extents, from, from_stride, to, to_stride });
        } else {
            let is_apart = column == 1 && row.unsigned_abs() * size_of::<T>() > APART;
            let rows = (0..depth as isize).map(|l| {
                if is_apart {
                    let coming = from.wrapping_offset((l + AHEAD) * row).cast();
                    fetch::run(coming, count * size_of::<T>(), fetch::to_first);
                }
                l * row
            });
            pack(from, rows, (count, column), width, to);
        }
    }
}

/// Packs a matrix of `depth` rows that are `step` apart, of which each tile has a few columns: those of a tile lie
/// together, row by row. Rows are read as far as several tiles reach.
///
/// # Safety
///
/// `from` is valid for the rows, `to` for all of their elements.
pub(super) unsafe fn pack_tiles<T: Tiled>(
    from: *const T,
    step: isize,
    [depth, columns]: [usize; 2],
    tiles: &Tiles<T>,
    to: *mut T,
) {
    /// Tiles that are packed at once.
    const AT_ONCE: usize = 8;
    let mut cut = tiles.cut(columns);
    loop {
        let group: SmallVec<[Range<usize>; AT_ONCE]> = cut.by_ref().take(AT_ONCE).collect();
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let bytes = (last.end - first.start) * size_of::<T>();
        for l in 0..depth {
            let row = from.wrapping_offset(l as isize * step);
            let coming = row.wrapping_offset(AHEAD * step).wrapping_add(first.start);
            fetch::run(coming.cast(), bytes, fetch::to_first);
            for tile in &group {
                let to = to.wrapping_add(tile.start * depth + l * tile.len());
                // SAFETY: the caller's matrix and room.
                unsafe { copy(row.add(tile.start), to, tile.len()) };
            }
        }
    }
}

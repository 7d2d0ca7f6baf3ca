//! Tiles in AVX2 and AVX-512.

use super::rows::pack_vectors;
use super::tile::{Source, Tile, compute, sums};
use crate::exec::cpu::vector::{Masked, Vector};

/// # Safety
///
/// As [`compute`]; the runs lie within the tile's operands, and the machine has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn avx2<V: Vector, const P: usize, const N: usize>(tile: &Tile<'_, V::Element>) {
    // SAFETY: the tile is valid; the features above are enabled here.
    unsafe { compute::<V, P, N>(tile) };
}

/// # Safety
///
/// As [`compute`]; the runs lie within the tile's operands, and the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub(super) unsafe fn avx512<V: Vector, const P: usize, const N: usize>(
    tile: &Tile<'_, V::Element>,
) {
    // SAFETY: the tile is valid; the features above are enabled here.
    unsafe { compute::<V, P, N>(tile) };
}

/// # Safety
///
/// As [`super::tile::Pack`]; the machine has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn avx2_pack<V: Vector, const P: usize>(
    tile: &Tile<'_, V::Element>,
    source: Source<V::Element>,
) {
    // SAFETY: the tile and the source are valid; the features above are enabled here.
    unsafe { sums::<V, P, 2, true>(tile, source) };
}

/// # Safety
///
/// As [`super::tile::Pack`]; the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub(super) unsafe fn avx512_pack<V: Vector, const P: usize>(
    tile: &Tile<'_, V::Element>,
    source: Source<V::Element>,
) {
    // SAFETY: the tile and the source are valid; the features above are enabled here.
    unsafe { sums::<V, P, 2, true>(tile, source) };
}

/// # Safety
///
/// As [`super::rows::PackRows`]; the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub(super) unsafe fn avx512_rows<V: Masked>(
    from: *const V::Element,
    rows: &[isize],
    sizes: [usize; 2],
    to: *mut V::Element,
) {
    // SAFETY: the rows and the room are valid; the features above are enabled here.
    unsafe {
        if sizes[1] <= V::LANES {
            pack_vectors::<V, 1>(from, rows, sizes, to);
        } else {
            pack_vectors::<V, 2>(from, rows, sizes, to);
        }
    }
}

//! Tiles in AVX2.

use super::tile::{Tile, compute};
use crate::exec::cpu::vector::Vector;

/// # Safety
///
/// As [`compute`]; the runs lie within the tile's operands, and the machine has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn tile<V: Vector, const P: usize, const N: usize>(tile: &Tile<'_, V::Element>) {
    // SAFETY: the tile is valid; the features above are enabled here.
    unsafe { compute::<V, P, N>(tile) };
}

//! The tiles of each instruction set, by rows and vectors.

use super::rows::{PackRows, pack, pack_rows};
use super::tile::{Compute, MOST, Pack, Source, Tile};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::exec::cpu::isa::Isa;
use std::ops::{AddAssign, Range};

/// Lanes of two of the widest vectors.
const WIDEST: usize = 32;

/// Room for a tile.
#[repr(align(64))]
struct Buffer<T>([T; MOST * WIDEST]);

/// The tiles of an instruction set.
pub(in crate::exec::cpu) struct Tiles<T> {
    /// Lanes of a vector.
    lanes: usize,
    /// Of one vector and of two; by rows.
    compute: [Vec<Compute<T>>; 2],
    /// Of two vectors, which are packed; by rows.
    pack: Vec<Pack<T>>,
    pack_rows: PackRows<T>,
}

impl<T: Tiled> Tiles<T> {
    /// Rows of the largest tile.
    pub(super) fn most(&self) -> usize {
        self.compute[0].len()
    }

    /// Columns of most tiles.
    pub(in crate::exec::cpu) fn width(&self) -> usize {
        2 * self.lanes
    }

    /// First column, number of columns and width of each panel.
    pub(in crate::exec::cpu) fn panels(
        &self,
        columns: usize,
    ) -> impl Iterator<Item = [usize; 3]> + use<T> {
        let (lanes, width) = (self.lanes, self.width());
        (0..columns).step_by(width).map(move |first| {
            let count = width.min(columns - first);
            [first, count, count.next_multiple_of(lanes)]
        })
    }

    /// Columns with those that the last panel is wider.
    pub(in crate::exec::cpu) fn padded(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.lanes)
    }

    /// Rows of the largest of the tiles that so many rows are cut into.
    pub(in crate::exec::cpu) fn size(&self, rows: usize) -> usize {
        rows.div_ceil(rows.div_ceil(self.most()).max(1)).max(1)
    }

    /// So many rows cut into tiles whose rows differ by one at most.
    pub(in crate::exec::cpu) fn cut(
        &self,
        rows: usize,
    ) -> impl Iterator<Item = Range<usize>> + use<T> {
        let tiles = rows.div_ceil(self.most());
        (0..tiles).map(move |i| i * rows / tiles..(i + 1) * rows / tiles)
    }

    /// Makes a tile of a whole panel, and packs the panel.
    ///
    /// # Safety
    ///
    /// As [`Pack`].
    pub(super) unsafe fn run_packing(&self, rows: usize, tile: &Tile<'_, T>, source: Source<T>) {
        // SAFETY: the caller's tile and source.
        unsafe { self.pack[rows - 1](tile, source) };
    }

    /// Writes rows next to each other, as [`pack`], at these offsets of `from`. Returns the place behind them.
    ///
    /// # Safety
    ///
    /// As [`pack`].
    pub(in crate::exec::cpu) unsafe fn pack_rows(
        &self,
        from: *const T,
        rows: &[isize],
        (count, step): (usize, isize),
        width: usize,
        to: *mut T,
    ) -> *mut T {
        // SAFETY: the caller's rows and room.
        unsafe {
            if step == 1 {
                (self.pack_rows)(from, rows, [count, width], to);
            } else {
                pack(from, rows.iter().copied(), (count, step), width, to);
            }
        }
        to.wrapping_add(rows.len() * width)
    }

    /// Makes the first `count` columns of a panel of `width`.
    ///
    /// # Safety
    ///
    /// As [`Compute`], for the first `count` columns at `to`.
    pub(in crate::exec::cpu) unsafe fn run(
        &self,
        rows: usize,
        [count, width]: [usize; 2],
        tile: Tile<'_, T>,
    ) {
        let compute = self.compute[usize::from(width > self.lanes)][rows - 1];
        if count == width {
            // SAFETY: the caller's tile.
            return unsafe { compute(&tile) };
        }
        let mut buffer = Buffer([T::default(); MOST * WIDEST]);
        let buffer = buffer.0.as_mut_ptr();
        let (to, accumulate) = (tile.to, tile.accumulate);
        let held: [_; MOST] = std::array::from_fn(|p| buffer.wrapping_add(p * WIDEST));
        let tile = Tile { to: &held, accumulate: false, ..tile };
        // SAFETY: the caller's tile, whose vectors the buffer has room for; of each row the first
        // columns are copied.
        unsafe {
            compute(&tile);
            for (p, &to) in to[..rows].iter().enumerate() {
                for j in 0..count {
                    let (from, to) = (*held[p].add(j), to.add(j));
                    if accumulate {
                        *to += from;
                    } else {
                        *to = from;
                    }
                }
            }
        }
    }
}

/// f32 and f64.
pub(in crate::exec::cpu) trait Tiled:
    Copy + Send + Default + AddAssign + 'static
{
    /// The tiles of an instruction set, if it has some: AVX-512, or AVX2 with FMA.
    fn tiles(isa: Isa) -> Option<Tiles<Self>>;
}

/// The tiles of so many rows: as many as leave registers for the vectors and for an element.
#[cfg(target_arch = "x86_64")]
macro_rules! by_rows {
    ($tile:ident, $v:ty, $n:literal: $($p:literal)*) => {
        vec![$(x86::$tile::<$v, $p, $n> as Compute<_>),*]
    };
    ($tile:ident, $v:ty: $($p:literal)*) => {
        vec![$(x86::$tile::<$v, $p> as Pack<_>),*]
    };
}

macro_rules! tiled {
    ($($t:ty, $half:ident, $full:ident;)*) => {$(
        impl Tiled for $t {
            #[cfg(target_arch = "x86_64")]
            fn tiles(isa: Isa) -> Option<Tiles<Self>> {
                use crate::exec::cpu::vector::Vector;
                use std::arch::x86_64::{$full, $half};
                match isa {
                    Isa::Avx512 => Some(Tiles {
                        lanes: <$full as Vector>::LANES,
                        compute: [
                            by_rows!(avx512, $full, 1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                            by_rows!(avx512, $full, 2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                        ],
                        pack: by_rows!(avx512_pack, $full: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                        pack_rows: x86::avx512_rows::<$full>,
                    }),
                    Isa::Avx2 => Some(Tiles {
                        lanes: <$half as Vector>::LANES,
                        compute: [
                            by_rows!(avx2, $half, 1: 1 2 3 4 5 6),
                            by_rows!(avx2, $half, 2: 1 2 3 4 5 6),
                        ],
                        pack: by_rows!(avx2_pack, $half: 1 2 3 4 5 6),
                        pack_rows: pack_rows::<$t>,
                    }),
                    Isa::Portable => None,
                }
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn tiles(_: Isa) -> Option<Tiles<Self>> {
                None
            }
        }
    )*};
}
tiled! {
    f32, __m256, __m512;
    f64, __m256d, __m512d;
}

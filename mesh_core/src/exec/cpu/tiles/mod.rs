//! Products by tiles: sums of a few rows by one or two vectors, held in registers.
//!
//! `to[row][lane] = sum over t of rows[row][t] * b[t][lane]`, where the `b[t]` are packed next to each
//! other and the elements of a row lie where they lie: nothing is gathered and no zeros are multiplied.
//! A row of two vectors needs one element for two products, so the loads stay below what a core can do.

mod product;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(super) use product::{Planned, TileProduct};

use super::isa::Isa;
use super::vector::{Vector, put};
use std::ops::{AddAssign, Range};

/// Most rows of a tile.
pub(super) const MOST: usize = 14;

/// Lanes of two of the widest vectors.
const WIDEST: usize = 32;

/// Room for a tile.
#[repr(align(64))]
struct Buffer<T>([T; MOST * WIDEST]);

/// Elements of each row, and vectors, that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// Where the first element is in a row.
    pub(super) a: i32,
    /// The number of the first vector.
    pub(super) b: i32,
    pub(super) len: u32,
}

/// What a tile is made of.
pub(super) struct Tile<'a, T> {
    pub(super) rows: [*const T; MOST],
    pub(super) runs: &'a [Run],
    /// From an element of a run to the next.
    pub(super) step: isize,
    pub(super) b: *const T,
    pub(super) to: [*mut T; MOST],
    /// Whether what is at `to` is added.
    pub(super) accumulate: bool,
}

/// # Safety
///
/// All runs lie within `rows` and `b`, and `to` is valid for the tile's vectors.
type Compute<T> = unsafe fn(&Tile<'_, T>);

/// `P` rows of `N` vectors.
#[inline(always)]
pub(super) unsafe fn compute<V: Vector, const P: usize, const N: usize>(
    tile: &Tile<'_, V::Element>,
) {
    let mut rows = [std::ptr::null(); P];
    rows.copy_from_slice(&tile.rows[..P]);
    let step = tile.step;
    if tile.accumulate {
        for &to in &tile.to[..P] {
            V::fetch(to);
        }
    }
    // SAFETY: the runs lie within the operands, and the machine has the vector's instructions.
    unsafe {
        let mut sums = [[V::zero(); N]; P];
        for run in tile.runs {
            let mut a = run.a as isize;
            let mut b = tile.b.offset(run.b as isize * (N * V::LANES) as isize);
            for _ in 0..run.len {
                let mut vectors = [V::zero(); N];
                for (n, vector) in vectors.iter_mut().enumerate() {
                    *vector = V::load(b.add(n * V::LANES));
                }
                for (sums, row) in sums.iter_mut().zip(rows) {
                    let x = V::spread(*row.offset(a));
                    for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                        *sum = sum.add_product(x, vector);
                    }
                }
                a = a.wrapping_add(step);
                b = b.wrapping_add(N * V::LANES);
            }
        }
        for (sums, to) in sums.into_iter().zip(tile.to) {
            for (n, sum) in sums.into_iter().enumerate() {
                put(sum, to.add(n * V::LANES), tile.accumulate);
            }
        }
    }
}

/// The tiles of an instruction set.
pub(super) struct Tiles<T> {
    /// Most rows.
    pub(super) rows: usize,
    /// Lanes of a vector.
    lanes: usize,
    /// Of one vector and of two; by rows.
    compute: [Vec<Compute<T>>; 2],
}

impl<T: Tiled> Tiles<T> {
    /// Columns of most tiles.
    pub(super) fn width(&self) -> usize {
        2 * self.lanes
    }

    /// First column, number of columns and width of each panel.
    pub(super) fn panels(&self, columns: usize) -> impl Iterator<Item = [usize; 3]> + use<T> {
        let (lanes, width) = (self.lanes, self.width());
        (0..columns).step_by(width).map(move |first| {
            let count = width.min(columns - first);
            [first, count, count.next_multiple_of(lanes)]
        })
    }

    /// Columns with those that the last panel is wider.
    pub(super) fn padded(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.lanes)
    }

    /// Rows of the largest of the tiles that so many rows are cut into.
    pub(super) fn size(&self, rows: usize) -> usize {
        rows.div_ceil(rows.div_ceil(self.rows).max(1)).max(1)
    }

    /// So many rows cut into tiles whose rows differ by one at most.
    pub(super) fn cut(&self, rows: usize) -> impl Iterator<Item = Range<usize>> + use<T> {
        let tiles = rows.div_ceil(self.rows);
        (0..tiles).map(move |i| i * rows / tiles..(i + 1) * rows / tiles)
    }

    /// Makes the first `count` columns of a panel of `width`.
    ///
    /// # Safety
    ///
    /// As [`Compute`], for the first `count` columns at `to`.
    pub(super) unsafe fn run(
        &self,
        rows: usize,
        [count, width]: [usize; 2],
        mut tile: Tile<'_, T>,
    ) {
        let compute = self.compute[usize::from(width > self.lanes)][rows - 1];
        if count == width {
            // SAFETY: the caller's tile.
            return unsafe { compute(&tile) };
        }
        let mut buffer = Buffer([T::default(); MOST * WIDEST]);
        let buffer = buffer.0.as_mut_ptr();
        let (to, accumulate) = (tile.to, tile.accumulate);
        let held = |p: usize| buffer.wrapping_add(p * WIDEST);
        tile.to = std::array::from_fn(held);
        tile.accumulate = false;
        // SAFETY: the caller's tile, whose vectors the buffer has room for; of each row the first
        // columns are copied.
        unsafe {
            compute(&tile);
            for (p, &to) in to[..rows].iter().enumerate() {
                for j in 0..count {
                    let (from, to) = (*held(p).add(j), to.add(j));
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
pub(super) trait Tiled: Copy + Send + Default + AddAssign + 'static {
    /// The tiles of an instruction set that the machine has; the portable one has none.
    fn tiles(isa: Isa) -> Option<Tiles<Self>>;
}

#[cfg(target_arch = "x86_64")]
macro_rules! by_rows {
    ($of:ident, $v:ty, $n:literal: $($p:literal)*) => {
        vec![$(x86::$of::<$v, $p, $n> as Compute<_>),*]
    };
}

macro_rules! tiled {
    ($($t:ty, $half:ident, $full:ident;)*) => {$(
        impl Tiled for $t {
            #[cfg(target_arch = "x86_64")]
            fn tiles(isa: Isa) -> Option<Tiles<Self>> {
                use std::arch::x86_64::{$full, $half};
                match isa {
                    Isa::Avx512 => Some(Tiles {
                        rows: 14,
                        lanes: <$full as Vector>::LANES,
                        compute: [
                            by_rows!(avx512_tile, $full, 1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                            by_rows!(avx512_tile, $full, 2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                        ],
                    }),
                    Isa::Avx2 => Some(Tiles {
                        rows: 6,
                        lanes: <$half as Vector>::LANES,
                        compute: [
                            by_rows!(avx2_tile, $half, 1: 1 2 3 4 5 6),
                            by_rows!(avx2_tile, $half, 2: 1 2 3 4 5 6),
                        ],
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

/// Copies few elements; the usual numbers without a call.
///
/// # Safety
///
/// Both sides are valid for `count` elements, and apart.
#[inline(always)]
unsafe fn copy<T: Copy>(from: *const T, to: *mut T, count: usize) {
    macro_rules! usual {
        ($($n:literal)*) => {
            match count {
                // SAFETY: the caller's elements.
                $($n => unsafe { to.cast::<[T; $n]>().write_unaligned(from.cast::<[T; $n]>().read_unaligned()) },)*
                // SAFETY: the caller's elements.
                _ => unsafe { std::ptr::copy_nonoverlapping(from, to, count) },
            }
        };
    }
    usual!(3 4 5 6 8 10 11 12 13 14 16 32);
}

/// Writes rows of `count` elements next to each other, with zeros behind each up to `width`.
///
/// # Safety
///
/// `from` is valid at the rows' offsets for `count` elements `step` apart, `to` for the rows.
pub(super) unsafe fn pack<T: Tiled>(
    from: *const T,
    rows: impl Iterator<Item = isize>,
    (count, step): (usize, isize),
    width: usize,
    mut to: *mut T,
) {
    rows.for_each(|row| {
        // SAFETY: a row of the source; `to` has room for all rows.
        unsafe {
            let from = from.offset(row);
            if step == 1 {
                copy(from, to, count);
            } else {
                for j in 0..count {
                    *to.add(j) = *from.offset(j as isize * step);
                }
            }
            for j in count..width {
                *to.add(j) = T::default();
            }
            to = to.add(width);
        }
    });
}

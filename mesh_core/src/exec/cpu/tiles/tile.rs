//! The inner loop: a tile of sums.

use crate::exec::cpu::vector::{Vector, put};

/// Most rows of a tile of any instruction set.
pub(in crate::exec::cpu) const MOST: usize = 14;

/// Elements of each row, and vectors, that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::exec::cpu) struct Run {
    /// Where the first element is in a row.
    pub(in crate::exec::cpu) a: i32,
    /// The number of the first vector.
    pub(in crate::exec::cpu) b: i32,
    pub(in crate::exec::cpu) len: u32,
}

/// What a tile is made of.
pub(in crate::exec::cpu) struct Tile<'a, T> {
    pub(in crate::exec::cpu) rows: &'a [*const T; MOST],
    pub(in crate::exec::cpu) runs: &'a [Run],
    /// From an element of a run to the next.
    pub(in crate::exec::cpu) step: isize,
    pub(in crate::exec::cpu) b: *const T,
    pub(in crate::exec::cpu) to: &'a [*mut T; MOST],
    /// Whether what is at `to` is added.
    pub(in crate::exec::cpu) accumulate: bool,
}

/// Where vectors lie that are not packed yet: the first one's place, and how far apart they are.
#[derive(Clone, Copy)]
pub(in crate::exec::cpu) struct Source<T> {
    pub(in crate::exec::cpu) at: *const T,
    pub(in crate::exec::cpu) step: isize,
}

/// # Safety
///
/// All runs lie within `rows` and `b`, and `to` is valid for the tile's vectors.
pub(super) type Compute<T> = unsafe fn(&Tile<'_, T>);

/// As [`Compute`], of one run that begins at the first vector: vectors come from the source, and are packed at `b`.
///
/// # Safety
///
/// As [`Compute`]; the source is valid for all vectors, and `b` may be written.
pub(super) type Pack<T> = unsafe fn(&Tile<'_, T>, Source<T>);

/// `P` rows of `N` vectors.
#[inline(always)]
pub(super) unsafe fn compute<V: Vector, const P: usize, const N: usize>(
    tile: &Tile<'_, V::Element>,
) {
    let source = Source { at: tile.b, step: 0 };
    // SAFETY: the caller's tile.
    unsafe { sums::<V, P, N, false>(tile, source) };
}

/// Rows of a matrix that are asked for ahead while they are packed.
pub(super) const AHEAD: isize = 16;

/// [`Compute`], or, if it `PACKS`, [`Pack`].
#[inline(always)]
pub(super) unsafe fn sums<V: Vector, const P: usize, const N: usize, const PACKS: bool>(
    tile: &Tile<'_, V::Element>,
    source: Source<V::Element>,
) {
    let mut rows = [std::ptr::null(); P];
    rows.copy_from_slice(&tile.rows[..P]);
    let step = tile.step;
    for &to in &tile.to[..P] {
        V::fetch(to);
    }
    // SAFETY: the runs lie within the operands, and the machine has the vector's instructions.
    unsafe {
        let mut sums = [[V::zero(); N]; P];
        for run in tile.runs {
            let mut a = run.a as isize;
            let mut b = tile.b.offset(run.b as isize * (N * V::LANES) as isize);
            let mut from = source.at;
            for _ in 0..run.len {
                a = V::opaque(a);
                let mut vectors = [V::zero(); N];
                for (n, vector) in vectors.iter_mut().enumerate() {
                    *vector = V::load(if PACKS { from } else { b }.add(n * V::LANES));
                }
                if PACKS {
                    V::fetch(from.wrapping_offset(AHEAD * source.step));
                    from = from.wrapping_offset(source.step);
                    for (n, vector) in vectors.into_iter().enumerate() {
                        vector.store(b.cast_mut().add(n * V::LANES));
                    }
                }
                for (p, sums) in sums.iter_mut().enumerate() {
                    let x = V::spread(*rows[p].offset(a));
                    for (n, sum) in sums.iter_mut().enumerate() {
                        *sum = sum.add_product(x, vectors[n]);
                    }
                }
                a = a.wrapping_add(step);
                b = b.wrapping_add(N * V::LANES);
            }
        }
        for (sums, &to) in sums.into_iter().zip(tile.to) {
            for (n, sum) in sums.into_iter().enumerate() {
                put(sum, to.add(n * V::LANES), tile.accumulate);
            }
        }
    }
}

//! The inner loop of convolutions: a block of sums held in vector registers.
//!
//! `c[p][lane] = sum over t of a[rows[p] + steps[t].0] * b[steps[t].1 + lane]`: row offsets and step
//! offsets are tables, so one loop serves all three directions, any number of windows and any
//! strides, and no image is ever unrolled into a matrix.

use crate::exec::cpu::isa::Isa;

/// Offsets of one step in the scalar operand and in the vector operand.
pub(super) type Offsets = [i32; 2];

/// Most rows of a block.
pub(super) const MOST_ROWS: usize = 28;
/// Most lanes of a block.
pub(super) const MOST_LANES: usize = 16;

/// What a block is made of.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, T> {
    pub(super) a: *const T,
    pub(super) rows: &'a [isize; MOST_ROWS],
    pub(super) steps: &'a [Offsets],
    pub(super) b: *const T,
    /// Row by row; read first if `accumulate`.
    pub(super) c: *mut T,
    pub(super) accumulate: bool,
}

/// # Safety
///
/// All offsets lie within `a` and `b`, and `c` is valid for the block.
pub(super) type Run<T> = unsafe fn(Block<'_, T>);

/// The loops of one width.
#[derive(Clone, Copy)]
pub(super) struct Micro<T> {
    /// Lanes of the vector operand.
    pub(super) lanes: usize,
    /// Rows of the large block.
    pub(super) rows: usize,
    large: Run<T>,
    /// As `large`, for rows in groups of seven that are equally far apart.
    even: Option<Run<T>>,
    /// Four rows.
    small: Run<T>,
}

/// Rows of an even group.
pub(super) const EVEN: usize = 7;

/// Whether rows come in groups of [`EVEN`], all with the same distance between neighbours.
fn is_even(rows: &[isize; MOST_ROWS]) -> bool {
    let step = rows[1] - rows[0];
    rows.chunks_exact(EVEN).all(|group| (1..EVEN).all(|i| group[i] - group[0] == i as isize * step))
}

impl<T> Micro<T> {
    /// How many of `left` rows to take next.
    pub(super) fn take(&self, left: usize) -> usize {
        if left >= self.rows || left * 2 > self.rows { left.min(self.rows) } else { left.min(4) }
    }

    /// Computes the block of `count` rows, of which [`Micro::take`] says how many there may be.
    ///
    /// # Safety
    ///
    /// As for [`Run`]; rows from `count` on are valid offsets too.
    pub(super) unsafe fn run(&self, count: usize, block: Block<'_, T>) {
        let run = match self.even {
            Some(even) if count == self.rows && is_even(block.rows) => even,
            _ if count > 4 => self.large,
            _ => self.small,
        };
        // SAFETY: the caller's promise.
        unsafe { run(block) };
    }
}

/// f32 and f64.
pub(super) trait Element: Copy + Send + Default + std::ops::AddAssign + 'static {
    /// The loops for rows of `lanes` elements; the machine has the instructions.
    fn micro(isa: Isa, lanes: usize) -> Micro<Self>;
}

/// One vector register, or something like it.
pub(super) trait Vector: Copy {
    type Element: Copy;
    const LANES: usize;
    /// # Safety
    ///
    /// The machine has the instructions; `at` is valid for the lanes.
    unsafe fn load(at: *const Self::Element) -> Self;
    /// # Safety
    ///
    /// As `load`.
    unsafe fn store(self, at: *mut Self::Element);
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn zero() -> Self;
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn add(self, other: Self) -> Self;
    /// `self + a * b`, `a` in every lane.
    ///
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn add_product(self, a: Self::Element, b: Self) -> Self;
}

#[inline(always)]
pub(super) unsafe fn block<V: Vector, const P: usize, const N: usize>(
    block: Block<'_, V::Element>,
) {
    let Block { a, rows, steps, b, c, accumulate } = block;
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::zero(); N]; P];
        for &[in_a, in_b] in steps {
            let a = a.offset(in_a as isize);
            let b = b.offset(in_b as isize);
            let mut vectors = [V::zero(); N];
            for (n, vector) in vectors.iter_mut().enumerate() {
                *vector = V::load(b.add(n * V::LANES));
            }
            for (sums, &row) in sums.iter_mut().zip(rows) {
                let x = *a.offset(row);
                for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                    *sum = sum.add_product(x, vector);
                }
            }
        }
        for (p, sums) in sums.into_iter().enumerate() {
            for (n, mut sum) in sums.into_iter().enumerate() {
                let at = c.add((p * N + n) * V::LANES);
                if accumulate {
                    sum = sum.add(V::load(at));
                }
                sum.store(at);
            }
        }
    }
}

/// Four elements without any particular instructions.
#[derive(Clone, Copy)]
struct Plain<T>([T; 4]);

macro_rules! plain {
    ($($t:ty)*) => {$(
        impl Vector for Plain<$t> {
            type Element = $t;
            const LANES: usize = 4;
            #[inline(always)]
            unsafe fn load(at: *const $t) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { at.cast::<[$t; 4]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, at: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { at.cast::<[$t; 4]>().write(self.0) };
            }
            #[inline(always)]
            unsafe fn zero() -> Self {
                Self([0.0; 4])
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            unsafe fn add_product(self, a: $t, b: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + a * b.0[i]))
            }
        }
    )*};
}
plain! { f32 f64 }

fn portable<T: Element>() -> Micro<T>
where
    Plain<T>: Vector<Element = T>,
{
    Micro {
        lanes: 4,
        rows: 6,
        large: block::<Plain<T>, 6, 1>,
        small: block::<Plain<T>, 4, 1>,
        even: None,
    }
}

macro_rules! elements {
    ($($t:ty, $half:ident, $full:ident, $lanes:literal, $even:path;)*) => {$(
        impl Element for $t {
            #[cfg(target_arch = "x86_64")]
            fn micro(isa: Isa, lanes: usize) -> Micro<Self> {
                use super::x86::{avx2, avx512};
                use std::arch::x86_64::{$full, $half};
                match isa {
                    Isa::Avx512 => Micro {
                        lanes: $lanes,
                        rows: 28,
                        large: avx512::<$full, 28, 1>,
                        even: Some($even),
                        small: avx512::<$full, 4, 1>,
                    },
                    Isa::Avx2 if lanes > $lanes / 2 => Micro {
                        lanes: $lanes,
                        rows: 6,
                        large: avx2::<$half, 6, 2>,
                        even: None,
                        small: avx2::<$half, 4, 2>,
                    },
                    Isa::Avx2 => Micro {
                        lanes: $lanes / 2,
                        rows: 12,
                        large: avx2::<$half, 12, 1>,
                        even: None,
                        small: avx2::<$half, 4, 1>,
                    },
                    Isa::Portable => portable(),
                }
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn micro(_: Isa, _: usize) -> Micro<Self> {
                portable()
            }
        }
    )*};
}
elements! {
    f32, __m256, __m512, 16, super::x86::even_f32;
    f64, __m256d, __m512d, 8, super::x86::even_f64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::isa::isa;

    /// Rows nine apart, groups of seven `gap` more: even rows.
    fn check<T: Element + From<i16> + PartialEq + std::fmt::Debug>(
        isa: Isa,
        lanes: usize,
        gap: isize,
    ) {
        let micro = T::micro(isa, lanes);
        assert!(micro.lanes <= MOST_LANES && micro.rows <= MOST_ROWS);
        let number = |i: usize| T::from((i * 7 % 11) as i16 - 5);
        let (a, b): (Vec<T>, Vec<T>) =
            ((0..900).map(number).collect(), (0..900).map(number).collect());
        let steps: Vec<Offsets> = (0..13).map(|t| [t * t, t * 40]).collect();
        let mut rows = [0; MOST_ROWS];
        (0..MOST_ROWS).for_each(|p| rows[p] = p as isize * 9 + p as isize / 7 * gap);
        for count in [1, 2, 4, 5, micro.rows] {
            let mut c = vec![T::from(1); MOST_ROWS * MOST_LANES];
            for accumulate in [false, true] {
                let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
                let block = Block { a, rows: &rows, steps: &steps, b, c, accumulate };
                // SAFETY: offsets are below 169 + 28 * 9 + 4 * gap and 480 + 16.
                unsafe { micro.run(count, block) };
            }
            for p in 0..count {
                for lane in 0..micro.lanes {
                    let term = |[x, y]: &Offsets| {
                        let x = (*x as usize + rows[p] as usize) * 7 % 11;
                        let y = (*y as usize + lane) * 7 % 11;
                        (x as i16 - 5) * (y as i16 - 5)
                    };
                    let twice = 2 * steps.iter().map(term).sum::<i16>();
                    assert_eq!(c[p * micro.lanes + lane], T::from(twice), "{isa:?} {p} {lane}");
                }
            }
        }
    }

    #[test]
    fn every_instruction_set_computes_the_same_blocks() {
        let all = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        let here = all.iter().position(|&other| other == isa()).unwrap();
        for &isa in &all[..=here] {
            for lanes in [1, 4, 8, 16, 100] {
                for gap in [0, 5] {
                    check::<f32>(isa, lanes, gap);
                    check::<f64>(isa, lanes, gap);
                }
            }
        }
    }
}

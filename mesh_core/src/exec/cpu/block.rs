//! The inner loop of convolutions: a block of sums held in vector registers.
//!
//! `c[p][lane] = sum over t of a[rows[p] + steps[t].0] * b[steps[t].1 + lane]`: row offsets and step
//! offsets are tables, so one loop serves all three directions, any number of windows and any
//! strides, and no image is ever unrolled into a matrix.

use super::isa::{Isa, isa};

/// Offsets of one step in the scalar operand and in the vector operand.
pub(super) type Offsets = [i32; 2];

/// Most rows of a block.
pub(super) const MOST_ROWS: usize = 28;
/// Most lanes of a block.
pub(super) const MOST_LANES: usize = 32;

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
type Run<T> = unsafe fn(Block<'_, T>);

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
const EVEN: usize = 7;

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
    /// The loops for vectors of `lanes` elements that are worth filling.
    fn micro(lanes: usize) -> Micro<Self>;
}

/// One vector register, or something like it.
trait Vector: Copy {
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
unsafe fn block<V: Vector, const P: usize, const N: usize>(block: Block<'_, V::Element>) {
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Block, EVEN, Vector, block};
    use std::arch::x86_64::*;

    macro_rules! vectors {
        ($($v:ty, $t:ty, $lanes:literal, $load:ident $store:ident $zero:ident $set:ident
            $add:ident $fma:ident;)*) => {$(
            impl Vector for $v {
                type Element = $t;
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn load(at: *const $t) -> Self {
                    // SAFETY: the caller's promise.
                    unsafe { $load(at) }
                }
                #[inline(always)]
                unsafe fn store(self, at: *mut $t) {
                    // SAFETY: the caller's promise.
                    unsafe { $store(at, self) };
                }
                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the caller's promise.
                    unsafe { $zero() }
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: the caller's promise.
                    unsafe { $add(self, other) }
                }
                #[inline(always)]
                unsafe fn add_product(self, a: $t, b: Self) -> Self {
                    // SAFETY: the caller's promise.
                    unsafe { $fma($set(a), b, self) }
                }
            }
        )*};
    }
    vectors! {
        __m512, f32, 16, _mm512_loadu_ps _mm512_storeu_ps _mm512_setzero_ps _mm512_set1_ps
            _mm512_add_ps _mm512_fmadd_ps;
        __m512d, f64, 8, _mm512_loadu_pd _mm512_storeu_pd _mm512_setzero_pd _mm512_set1_pd
            _mm512_add_pd _mm512_fmadd_pd;
        __m256, f32, 8, _mm256_loadu_ps _mm256_storeu_ps _mm256_setzero_ps _mm256_set1_ps
            _mm256_add_ps _mm256_fmadd_ps;
        __m256d, f64, 4, _mm256_loadu_pd _mm256_storeu_pd _mm256_setzero_pd _mm256_set1_pd
            _mm256_add_pd _mm256_fmadd_pd;
    }

    /// # Safety
    ///
    /// As [`super::Run`], and the machine has AVX-512.
    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
    pub(super) unsafe fn avx512<V: Vector, const P: usize, const N: usize>(
        args: Block<'_, V::Element>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { block::<V, P, N>(args) };
    }

    /// # Safety
    ///
    /// As [`super::Run`], and the machine has AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2<V: Vector, const P: usize, const N: usize>(
        args: Block<'_, V::Element>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { block::<V, P, N>(args) };
    }

    /// A block of 28 rows by one vector with every address in registers. Compilers keep the 28 row
    /// offsets in memory, which costs a load per product; in groups of seven, `base + i * step` is
    /// one addressing mode.
    macro_rules! even {
        ($name:ident, $t:ty, $v:ty, $size:literal, $fma:literal, $memory:literal, $spread:literal) => {
            /// # Safety
            ///
            /// As [`super::Run`], the machine has AVX-512, and rows are even.
            #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
            pub(super) unsafe fn $name(block: Block<'_, $t>) {
                let Block { a, rows, steps, b, c, accumulate } = block;
                let step = (rows[1] - rows[0]) * $size;
                let (step3, step5) = (step * 3, step * 5);
                let bases = [0, 7, 14, 21].map(|p| a.wrapping_offset(rows[p]));
                // SAFETY: the machine has the instructions.
                let mut sums = [[unsafe { <$v>::zero() }; EVEN]; 4];
                for &[in_a, in_b] in steps {
                    // SAFETY: the caller's offsets.
                    let vector = unsafe { <$v>::load(b.offset(in_b as isize)) };
                    for (base, sums) in bases.iter().zip(&mut sums) {
                        let base = base.wrapping_offset(in_a as isize);
                        // SAFETY: the seven rows' elements at this step are valid.
                        unsafe {
                            std::arch::asm!(
                                concat!($fma, " {s0}, {v}, ", $memory, " ptr [{a}]", $spread),
                                concat!($fma, " {s1}, {v}, ", $memory, " ptr [{a} + {d}]", $spread),
                                concat!($fma, " {s2}, {v}, ", $memory, " ptr [{a} + 2*{d}]", $spread),
                                concat!($fma, " {s3}, {v}, ", $memory, " ptr [{a} + {d3}]", $spread),
                                concat!($fma, " {s4}, {v}, ", $memory, " ptr [{a} + 4*{d}]", $spread),
                                concat!($fma, " {s5}, {v}, ", $memory, " ptr [{a} + {d5}]", $spread),
                                concat!($fma, " {s6}, {v}, ", $memory, " ptr [{a} + 2*{d3}]", $spread),
                                v = in(zmm_reg) vector,
                                a = in(reg) base,
                                d = in(reg) step,
                                d3 = in(reg) step3,
                                d5 = in(reg) step5,
                                s0 = inout(zmm_reg) sums[0],
                                s1 = inout(zmm_reg) sums[1],
                                s2 = inout(zmm_reg) sums[2],
                                s3 = inout(zmm_reg) sums[3],
                                s4 = inout(zmm_reg) sums[4],
                                s5 = inout(zmm_reg) sums[5],
                                s6 = inout(zmm_reg) sums[6],
                                options(pure, readonly, nostack, preserves_flags),
                            );
                        }
                    }
                }
                for (p, mut sum) in sums.into_iter().flatten().enumerate() {
                    // SAFETY: `c` has room for the block.
                    unsafe {
                        let at = c.add(p * <$v>::LANES);
                        if accumulate {
                            sum = Vector::add(sum, <$v>::load(at));
                        }
                        Vector::store(sum, at);
                    }
                }
            }
        };
    }
    even!(even_f32, f32, __m512, 4, "vfmadd231ps", "dword", "{{1to16}}");
    even!(even_f64, f64, __m512d, 8, "vfmadd231pd", "qword", "{{1to8}}");

    pub(super) use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};
}

macro_rules! elements {
    ($($t:ty, $half:ident, $full:ident, $lanes:literal, $even:path;)*) => {$(
        impl Element for $t {
            #[cfg(target_arch = "x86_64")]
            fn micro(lanes: usize) -> Micro<Self> {
                use x86::{$full, $half, avx2, avx512};
                match isa() {
                    Isa::Avx512 if lanes > 1000000 => Micro {
                        lanes: 2 * $lanes,
                        rows: 14,
                        large: avx512::<$full, 14, 2>,
                        even: None,
                        small: avx512::<$full, 4, 2>,
                    },
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
            fn micro(_: usize) -> Micro<Self> {
                portable()
            }
        }
    )*};
}
elements! {
    f32, __m256, __m512, 16, x86::even_f32;
    f64, __m256d, __m512d, 8, x86::even_f64;
}

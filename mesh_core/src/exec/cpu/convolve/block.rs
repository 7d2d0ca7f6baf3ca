//! The inner loops of convolutions: a block of sums held in vector registers.
//!
//! `c[row][lane] = sum over t of a[rows[row] + steps[t].0] * b[steps[t].1 + lane]`: row offsets and
//! step offsets are tables, so one loop serves all three directions, any number of windows and any
//! strides, and no image is ever unrolled into a matrix.
//!
//! A block of one vector per row needs a load per product, which is all that loads can do. Where
//! windows slide, the element that row `p` meets at tap `t + 1` is what row `p + 1` meets at tap
//! `t`: blocks of such rows take several taps at once and load every element once.

use crate::exec::cpu::isa::Isa;

/// Offsets of one step in the scalar operand and in the vector operand.
pub(super) type Offsets = [i32; 2];

/// Most rows of a block.
pub(super) const MOST_ROWS: usize = 28;
/// Most elements of a block.
pub(super) const MOST_ELEMENTS: usize = 28 * 16;

/// What a block is made of.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, T> {
    pub(super) a: *const T,
    /// Per group of rows: where the first begins.
    pub(super) rows: &'a [isize; MOST_ROWS],
    /// From a row of a group to the next, and from a tap of a step to the next.
    pub(super) slide: isize,
    /// Steps of as many taps as [`Micro::taps`] says.
    pub(super) steps: [&'a [Offsets]; 2],
    pub(super) b: *const T,
    /// From a tap of a step to the next in `b`.
    pub(super) b_slide: isize,
    pub(super) c: *mut T,
    /// Per row: where its vectors go.
    pub(super) to: &'a [isize; MOST_ROWS],
    /// Whether `c` is read first.
    pub(super) accumulate: bool,
}

/// # Safety
///
/// All offsets lie within `a`, `b` and `c`.
pub(super) type Run<T> = unsafe fn(Block<'_, T>);

/// The loops of one shape of block.
#[derive(Clone, Copy)]
pub(super) struct Micro<T> {
    /// Lanes of the vector operand.
    pub(super) lanes: usize,
    /// Groups of the large block.
    pub(super) groups: usize,
    /// Rows of a group.
    pub(super) rows: usize,
    /// Taps of each kind of step.
    pub(super) taps: [usize; 2],
    large: Run<T>,
    /// As `large`, for rows in groups of seven that are equally far apart.
    even: Option<Run<T>>,
    /// Four groups.
    small: Option<Run<T>>,
}

/// Rows of an even group.
pub(super) const EVEN: usize = 7;

/// Whether rows come in groups of [`EVEN`], all with the same distance between neighbours.
fn is_even(rows: &[isize; MOST_ROWS]) -> bool {
    let step = rows[1] - rows[0];
    rows.chunks_exact(EVEN).all(|group| (1..EVEN).all(|i| group[i] - group[0] == i as isize * step))
}

impl<T> Micro<T> {
    /// How many of `left` groups to take next.
    pub(super) fn take(&self, left: usize) -> usize {
        let few = self.small.is_some() && left * 2 <= self.groups;
        left.min(if few { 4 } else { self.groups })
    }

    /// Computes the block of `count` groups, of which [`Micro::take`] says how many there may be.
    ///
    /// # Safety
    ///
    /// As for [`Run`]; groups from `count` on are valid too.
    pub(super) unsafe fn run(&self, count: usize, block: Block<'_, T>) {
        let run = match (self.small, self.even) {
            (Some(small), _) if count <= 4 => small,
            (_, Some(even)) if count == self.groups && is_even(block.rows) => even,
            _ => self.large,
        };
        // SAFETY: the caller's promise.
        unsafe { run(block) };
    }
}

/// f32 and f64.
pub(super) trait Element: Copy + Send + Default + std::ops::AddAssign + 'static {
    /// The loops for rows of `lanes` elements, anywhere; the machine has the instructions.
    fn micro(isa: Isa, lanes: usize) -> Micro<Self>;
    /// The loops for groups of `rows` rows, where they are faster.
    fn slide(isa: Isa, rows: usize) -> Option<Micro<Self>>;
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
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn spread(a: Self::Element) -> Self;
    /// `self + a * b`.
    ///
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
}

/// Writes or adds a row's vector.
#[inline(always)]
pub(super) unsafe fn put<V: Vector>(mut sum: V, at: *mut V::Element, accumulate: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if accumulate {
            sum = sum.add(V::load(at));
        }
        sum.store(at);
    }
}

/// `P` groups of one row of `N` vectors; steps of one tap, of the first kind.
#[inline(always)]
pub(super) unsafe fn anywhere<V: Vector, const P: usize, const N: usize>(
    block: Block<'_, V::Element>,
) {
    let Block { a, rows, steps, b, c, to, accumulate, .. } = block;
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::zero(); N]; P];
        for &[in_a, in_b] in steps[0] {
            let a = a.offset(in_a as isize);
            let b = b.offset(in_b as isize);
            let mut vectors = [V::zero(); N];
            for (n, vector) in vectors.iter_mut().enumerate() {
                *vector = V::load(b.add(n * V::LANES));
            }
            for (sums, &row) in sums.iter_mut().zip(rows) {
                let x = V::spread(*a.offset(row));
                for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                    *sum = sum.add_product(x, vector);
                }
            }
        }
        for (sums, &to) in sums.into_iter().zip(to) {
            for (n, sum) in sums.into_iter().enumerate() {
                put(sum, c.offset(to).add(n * V::LANES), accumulate);
            }
        }
    }
}

/// `G` groups of `P` rows of one vector; steps of three taps and of two.
#[inline(always)]
pub(super) unsafe fn sliding<V: Vector, const G: usize, const P: usize>(
    block: Block<'_, V::Element>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::zero(); P]; G];
        taps::<V, G, P, 3>(&block, block.steps[0], &mut sums);
        taps::<V, G, P, 2>(&block, block.steps[1], &mut sums);
        for (sum, &to) in sums.into_iter().flatten().zip(block.to) {
            put(sum, block.c.offset(to), block.accumulate);
        }
    }
}

/// Adds steps of `T` taps.
#[inline(always)]
unsafe fn taps<V: Vector, const G: usize, const P: usize, const T: usize>(
    block: &Block<'_, V::Element>,
    steps: &[Offsets],
    sums: &mut [[V; P]; G],
) {
    let Block { a, rows, slide, b, b_slide, .. } = *block;
    let bases: [_; G] = std::array::from_fn(|g| a.wrapping_offset(rows[g]));
    // SAFETY: the caller's promise.
    unsafe {
        for &[in_a, in_b] in steps {
            let mut vectors = [V::zero(); T];
            for (t, vector) in vectors.iter_mut().enumerate() {
                *vector = V::load(b.offset(in_b as isize + t as isize * b_slide));
            }
            for (base, sums) in bases.iter().zip(sums.iter_mut()) {
                let mut at = base.wrapping_offset(in_a as isize);
                for q in 0..P + T - 1 {
                    let x = V::spread(*at);
                    at = at.wrapping_offset(slide);
                    for t in q.saturating_sub(P - 1)..T.min(q + 1) {
                        sums[q - t] = sums[q - t].add_product(x, vectors[t]);
                    }
                }
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
            unsafe fn spread(a: $t) -> Self {
                Self([a; 4])
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
            }
        }
    )*};
}
plain! { f32 f64 }

/// Blocks of rows anywhere.
fn plain<T>(lanes: usize, groups: usize, large: Run<T>, small: Run<T>) -> Micro<T> {
    Micro { lanes, groups, rows: 1, taps: [1, 0], large, even: None, small: Some(small) }
}

fn portable<T: Element>() -> Micro<T>
where
    Plain<T>: Vector<Element = T>,
{
    plain(4, 6, anywhere::<Plain<T>, 6, 1>, anywhere::<Plain<T>, 4, 1>)
}

macro_rules! elements {
    ($($t:ty, $half:ident, $full:ident, $lanes:literal, $even:path;)*) => {$(
        impl Element for $t {
            #[cfg(target_arch = "x86_64")]
            fn micro(isa: Isa, lanes: usize) -> Micro<Self> {
                use super::x86::{avx2, avx512};
                use std::arch::x86_64::{$full, $half};
                match isa {
                    Isa::Avx512 => {
                        let (large, small) = (avx512::<$full, 28, 1>, avx512::<$full, 4, 1>);
                        Micro { even: Some($even), ..plain($lanes, 28, large, small) }
                    }
                    Isa::Avx2 if lanes > $lanes / 2 => {
                        plain($lanes, 6, avx2::<$half, 6, 2>, avx2::<$half, 4, 2>)
                    }
                    Isa::Avx2 => plain($lanes / 2, 12, avx2::<$half, 12, 1>, avx2::<$half, 4, 1>),
                    Isa::Portable => portable(),
                }
            }

            #[cfg(target_arch = "x86_64")]
            fn slide(isa: Isa, rows: usize) -> Option<Micro<Self>> {
                use super::x86::avx512_sliding;
                use std::arch::x86_64::$full;
                let (groups, large): (_, Run<Self>) = match (isa, rows) {
                    (Isa::Avx512, 3) => (7, avx512_sliding::<$full, 7, 3>),
                    (Isa::Avx512, 4) => (6, avx512_sliding::<$full, 6, 4>),
                    (Isa::Avx512, 5) => (5, avx512_sliding::<$full, 5, 5>),
                    (Isa::Avx512, 7) => (4, avx512_sliding::<$full, 4, 7>),
                    (Isa::Avx512, 8) => (3, avx512_sliding::<$full, 3, 8>),
                    (Isa::Avx512, 9) => (3, avx512_sliding::<$full, 3, 9>),
                    _ => return None,
                };
                Some(Micro { lanes: $lanes, groups, rows, taps: [3, 2], large, even: None, small: None })
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn micro(_: Isa, _: usize) -> Micro<Self> {
                portable()
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn slide(_: Isa, _: usize) -> Option<Micro<Self>> {
                None
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

    /// Groups anywhere; rows of a group and taps of a step nine apart.
    fn check<T: Element + From<i16> + PartialEq + std::fmt::Debug>(micro: Micro<T>) {
        // In the first, rows are even.
        check_rows(micro, |g| g * 29);
        check_rows(micro, |g| g * 31 + g * g % 7);
    }

    fn check_rows<T: Element + From<i16> + PartialEq + std::fmt::Debug>(
        micro: Micro<T>,
        row: impl Fn(usize) -> usize,
    ) {
        let Micro { lanes, groups, rows, taps, .. } = micro;
        assert!(groups * rows <= MOST_ROWS && groups * rows * lanes <= MOST_ELEMENTS);
        let number = |i: usize| (i * 7 % 11) as i16 - 5;
        let all: Vec<T> = (0..1500).map(|i| T::from(number(i))).collect();
        let steps = [13, 5].map(|n| (0..n).map(|t| [t * t, t * 40]).collect::<Vec<Offsets>>());
        let mut first = [0; MOST_ROWS];
        (0..MOST_ROWS).for_each(|g| first[g] = row(g) as isize);
        let mut to = [0; MOST_ROWS];
        (0..groups * rows).for_each(|p| to[p] = ((groups * rows - 1 - p) * lanes) as isize);
        for count in [1, 2, 4, 5, groups].into_iter().filter(|&n| n == micro.take(n)) {
            let mut c = vec![T::from(1); MOST_ELEMENTS];
            for accumulate in [false, true] {
                let (a, b, c) = (all.as_ptr(), all.as_ptr(), c.as_mut_ptr());
                let steps = [&steps[0][..], &steps[1][..]];
                let (rows, to) = (&first, &to);
                let slides = (9, 50);
                let (slide, b_slide) = slides;
                let block = Block { a, rows, slide, steps, b, b_slide, c, to, accumulate };
                // SAFETY: offsets are below 169 + 27 * 31 + 7 + 11 * 9 and 480 + 100 + 32.
                unsafe { micro.run(count, block) };
            }
            for (p, lane) in (0..count * rows).flat_map(|p| (0..lanes).map(move |l| (p, l))) {
                let row = first[p / rows] as usize + p % rows * 9;
                let step = |&[x, y]: &Offsets, taps: usize| -> i16 {
                    let at = |t| (x as usize + row + t * 9, y as usize + lane + t * 50);
                    (0..taps).map(at).map(|(x, y)| number(x) * number(y)).sum()
                };
                let of = |k: usize| steps[k].iter().map(|s| step(s, taps[k])).sum::<i16>();
                let found = c[to[p] as usize + lane];
                assert_eq!(found, T::from(2 * (of(0) + of(1))), "{p} {lane} of {groups}x{rows}");
            }
        }
    }

    #[test]
    fn every_instruction_set_computes_the_same_blocks() {
        let all = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        let here = all.iter().position(|&other| other == isa()).unwrap();
        for &isa in &all[..=here] {
            for lanes in [1, 4, 8, 16, 32, 100] {
                check(f32::micro(isa, lanes));
                check(f64::micro(isa, lanes));
            }
            (0..12).filter_map(|rows| f32::slide(isa, rows)).for_each(check);
            (0..12).filter_map(|rows| f64::slide(isa, rows)).for_each(check);
        }
    }
}

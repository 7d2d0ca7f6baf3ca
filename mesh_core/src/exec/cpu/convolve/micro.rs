//! The block of each instruction set and kind of rows. Few lanes go to half vectors: a core that multiplies two of
//! these at once spends half the time of a whole one on each.

use super::block::{Block, Run, anywhere};
use crate::exec::cpu::isa::Isa;
use crate::exec::cpu::vector::{Plain, Vector};

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
    /// As `large`, for rows in groups of so many that are equally far apart.
    even: Option<(usize, Run<T>)>,
    /// Four groups.
    small: Option<Run<T>>,
}

/// Whether rows come in groups of `size`, all with the same distance between neighbours.
fn is_even(rows: &[isize], size: usize) -> bool {
    let step = rows[1] - rows[0];
    rows.chunks_exact(size).all(|group| (1..size).all(|i| group[i] - group[0] == i as isize * step))
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
            (_, Some((size, even)))
                if count == self.groups && is_even(&block.rows[..count], size) =>
            {
                even
            }
            _ => self.large,
        };
        // SAFETY: all offsets of the block lie within its operands; `Element` chose a block whose
        // instructions the machine has.
        unsafe { run(block) };
    }
}

/// f32 and f64.
pub(super) trait Element: Copy + Send + Default + std::ops::AddAssign + 'static {
    /// The loops for rows of `lanes` elements, anywhere; the machine has the instructions.
    fn micro(isa: Isa, lanes: usize) -> Micro<Self>;
    /// The loops for groups of `rows` rows of `lanes` elements, where they are faster.
    fn slide(isa: Isa, rows: usize, lanes: usize) -> Option<Micro<Self>>;
}

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

/// The loops for groups of `rows` rows of one vector, in AVX-512.
#[cfg(target_arch = "x86_64")]
fn sliding<V: Vector>(rows: usize) -> Option<Micro<V::Element>> {
    use super::x86::avx512_sliding;
    let (groups, large): (_, Run<V::Element>) = match rows {
        3 => (7, avx512_sliding::<V, 7, 3>),
        4 => (6, avx512_sliding::<V, 6, 4>),
        5 => (5, avx512_sliding::<V, 5, 5>),
        7 => (4, avx512_sliding::<V, 4, 7>),
        8 => (3, avx512_sliding::<V, 3, 8>),
        9 => (3, avx512_sliding::<V, 3, 9>),
        _ => return None,
    };
    Some(Micro { lanes: V::LANES, groups, rows, taps: [3, 2], large, even: None, small: None })
}

/// As [`sliding`], in the 16 registers of AVX2: three are vectors of taps, and one is an element.
#[cfg(target_arch = "x86_64")]
fn sliding_in_sixteen<V: Vector>(rows: usize) -> Option<Micro<V::Element>> {
    use super::x86::avx2_sliding;
    let (groups, large): (_, Run<V::Element>) = match rows {
        3 => (4, avx2_sliding::<V, 4, 3>),
        4 => (3, avx2_sliding::<V, 3, 4>),
        5 => (2, avx2_sliding::<V, 2, 5>),
        7 => (1, avx2_sliding::<V, 1, 7>),
        8 => (1, avx2_sliding::<V, 1, 8>),
        9 => (1, avx2_sliding::<V, 1, 9>),
        _ => return None,
    };
    Some(Micro { lanes: V::LANES, groups, rows, taps: [3, 2], large, even: None, small: None })
}

macro_rules! elements {
    ($($t:ty, $half:ident, $full:ident, $lanes:literal, $even_half:ident, $even:ident;)*) => {$(
        impl Element for $t {
            #[cfg(target_arch = "x86_64")]
            fn micro(isa: Isa, lanes: usize) -> Micro<Self> {
                use super::x86::{$even, $even_half, EVEN, avx2, avx2_even, avx512};
                use std::arch::x86_64::{$full, $half};
                let few = lanes <= $lanes / 2;
                match isa {
                    Isa::Avx512 if few => {
                        let (large, small) = (avx512::<$half, 28, 1>, avx512::<$half, 4, 1>);
                        Micro { even: Some((EVEN, $even_half)), ..plain($lanes / 2, 28, large, small) }
                    }
                    Isa::Avx512 => {
                        let (large, small) = (avx512::<$full, 28, 1>, avx512::<$full, 4, 1>);
                        Micro { even: Some((EVEN, $even)), ..plain($lanes, 28, large, small) }
                    }
                    Isa::Avx2 if few => {
                        let (large, small) = (avx2::<$half, 12, 1>, avx2::<$half, 4, 1>);
                        let even = Some((4, avx2_even::<$half, 3, 4> as Run<$t>));
                        Micro { even, ..plain($lanes / 2, 12, large, small) }
                    }
                    Isa::Avx2 => plain($lanes, 6, avx2::<$half, 6, 2>, avx2::<$half, 4, 2>),
                    Isa::Portable => portable(),
                }
            }

            #[cfg(target_arch = "x86_64")]
            fn slide(isa: Isa, rows: usize, lanes: usize) -> Option<Micro<Self>> {
                use std::arch::x86_64::{$full, $half};
                match isa {
                    Isa::Avx512 if lanes <= $lanes / 2 => sliding::<$half>(rows),
                    Isa::Avx512 => sliding::<$full>(rows),
                    Isa::Avx2 if lanes <= $lanes / 2 => sliding_in_sixteen::<$half>(rows),
                    _ => None,
                }
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn micro(_: Isa, _: usize) -> Micro<Self> {
                portable()
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn slide(_: Isa, _: usize, _: usize) -> Option<Micro<Self>> {
                None
            }
        }
    )*};
}
elements! {
    f32, __m256, __m512, 16, even_f32_half, even_f32;
    f64, __m256d, __m512d, 8, even_f64_half, even_f64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::convolve::block::{MOST_ELEMENTS, MOST_ROWS, Offsets};
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
            for lanes in [4, 8, 16] {
                (0..12).filter_map(|rows| f32::slide(isa, rows, lanes)).for_each(check);
                (0..12).filter_map(|rows| f64::slide(isa, rows, lanes)).for_each(check);
            }
        }
    }
}

//! The inner loops of groups of few channels: a vector of columns meets some rows, or some channels.

use super::matrices::Tap;
use super::runs::Rows;
use crate::exec::cpu::gemm::Number;
use crate::exec::cpu::isa::{Isa, Task, compiled, isa};
use crate::exec::cpu::vector::{Plain, Vector, put};
use std::marker::PhantomData;

/// Rows of the largest block: two groups have as many sums as sixteen registers hold.
const ROWS: usize = 6;
/// Channels of the largest block: as many sums as do not wait for each other.
const CHANNELS: usize = 8;
/// Lanes of the widest vector.
const WIDEST: usize = 8;

/// Rows, with how many channels and columns there are, and from one to the next in the kernel.
#[derive(Clone, Copy)]
pub(super) struct Args<T> {
    pub(super) rows: Rows<T>,
    /// From a group to another that is made with it, in source, kernel and result.
    pub(super) other: Option<[isize; 3]>,
    pub(super) channels: (usize, isize),
    pub(super) columns: (usize, isize),
}

/// # Safety
///
/// The rows and their taps are valid, and the machine has the instructions.
pub(super) type Kernel<T> = unsafe fn(Args<T>);

/// f32 and f64.
pub(super) trait Few: Number {
    /// What makes rows of the result of a packed kernel, and what adds rows to the kernel's gradient, for so many
    /// columns, a multiple of four.
    fn kernels(columns: usize) -> [Kernel<Self>; 2];
}

fn of<V: Vector<Element: Number>>() -> [Kernel<V::Element>; 2] {
    [compiled::<Sums<V>>(), compiled::<Gradient<V>>()]
}

macro_rules! few {
    ($($t:ty, $eight:ident, $four:ident;)*) => {$(
        impl Few for $t {
            fn kernels(columns: usize) -> [Kernel<Self>; 2] {
                match isa() {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 | Isa::Avx2 if columns.is_multiple_of(8) => of::<std::arch::x86_64::$eight>(),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 | Isa::Avx2 => of::<std::arch::x86_64::$four>(),
                    _ => of::<Plain<$t>>(),
                }
            }
        }
    )*};
}
few! {
    f32, __m256, __m128;
    f64, __m256d, __m256d;
}

/// Calls a function for a number of rows from 1 to [`ROWS`].
macro_rules! by_rows {
    ($rows:expr, |$r:ident| $call:expr, $($n:literal)*) => {
        match $rows {
            $($n => { const $r: usize = $n; $call })*
            _ => {}
        }
    };
}

/// Rows of the result, from a packed kernel.
struct Sums<V>(PhantomData<V>);

impl<V: Vector> Task for Sums<V> {
    type Args = Args<V::Element>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(args: Args<V::Element>) {
        let count = args.rows.count;
        let blocks = count.div_ceil(ROWS);
        for i in 0..blocks {
            let (row, end) = (i * count / blocks, (i + 1) * count / blocks);
            for column in (0..args.columns.0).step_by(V::LANES) {
                // SAFETY: the caller's rows and columns.
                unsafe {
                    match args.other {
                        None => {
                            by_rows!(end - row, |R| sums::<V, R, 1>(args, [0; 3], row, column), 1 2 3 4 5 6);
                        }
                        Some(other) => {
                            by_rows!(end - row, |R| sums::<V, R, 2>(args, other, row, column), 1 2 3 4 5 6);
                        }
                    }
                }
            }
        }
    }
}

/// A vector of columns of `R` rows of `G` groups.
#[inline(always)]
unsafe fn sums<V: Vector, const R: usize, const G: usize>(
    args: Args<V::Element>,
    other: [isize; 3],
    row: usize,
    column: usize,
) {
    let Args { rows, channels, columns, .. } = args;
    let Rows { at: [source, kernel, result], step, taps, .. } = rows;
    let row = row as isize;
    // SAFETY: the caller's rows and columns, and the machine has the vector's instructions.
    unsafe {
        let mut sums = [[V::zero(); R]; G];
        for tap in &*taps {
            let first = source.offset(tap.source + row * step[0]);
            let weights = kernel.offset(tap.kernel).add(column);
            for c in 0..channels.0 {
                for (g, sums) in sums.iter_mut().enumerate() {
                    let [from, with, _] = other.map(|step| step * g as isize);
                    let weights = V::load(weights.offset(with).add(c * columns.0));
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let at = r as isize * step[0] + c as isize;
                        let value = V::spread(*first.offset(from).offset(at));
                        *sum = sum.add_product(value, weights);
                    }
                }
            }
        }
        for (g, sums) in sums.into_iter().enumerate() {
            let to = result.cast_mut().offset(other[2] * g as isize).add(column);
            for (r, sum) in sums.into_iter().enumerate() {
                sum.store(to.offset((row + r as isize) * step[1]));
            }
        }
    }
}

/// What rows add to the kernel's gradient.
struct Gradient<V>(PhantomData<V>);

impl<V: Vector<Element: Number>> Task for Gradient<V> {
    type Args = Args<V::Element>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(args: Args<V::Element>) {
        // SAFETY: the caller's rows and taps.
        unsafe {
            for &tap in &*args.rows.taps {
                for column in (0..args.columns.0).step_by(V::LANES) {
                    let mut channel = 0;
                    while channel + CHANNELS <= args.channels.0 {
                        gradient::<V, CHANNELS>(args, tap, column, channel);
                        channel += CHANNELS;
                    }
                    while channel + 4 <= args.channels.0 {
                        gradient::<V, 4>(args, tap, column, channel);
                        channel += 4;
                    }
                    while channel < args.channels.0 {
                        gradient::<V, 1>(args, tap, column, channel);
                        channel += 1;
                    }
                }
            }
        }
    }
}

/// A vector of columns of `D` channels.
#[inline(always)]
unsafe fn gradient<V: Vector<Element: Number>, const D: usize>(
    args: Args<V::Element>,
    tap: Tap,
    column: usize,
    channel: usize,
) {
    let Args { rows, channels, columns, .. } = args;
    let Rows { at: [source, kernel, result], step, count, .. } = rows;
    // SAFETY: the caller's rows and taps, and the machine has the vector's instructions.
    unsafe {
        let mut sums = [V::zero(); D];
        let (source, result) = (source.offset(tap.source).add(channel), result.add(column));
        for row in 0..count as isize {
            let values = V::load(result.offset(row * step[1]));
            let others = source.offset(row * step[0]);
            for (d, sum) in sums.iter_mut().enumerate() {
                *sum = sum.add_product(V::spread(*others.add(d)), values);
            }
        }
        let to = kernel.cast_mut().offset(tap.kernel + column as isize * columns.1);
        for (d, sum) in sums.into_iter().enumerate() {
            let to = to.offset((channel + d) as isize * channels.1);
            if columns.1 == 1 {
                put(sum, to, true);
                continue;
            }
            let mut lanes = [V::Element::ZERO; WIDEST];
            sum.store(lanes.as_mut_ptr());
            for (l, sum) in lanes[..V::LANES].iter().enumerate() {
                let to = to.offset(l as isize * columns.1);
                *to = (*to).plus(*sum);
            }
        }
    }
}

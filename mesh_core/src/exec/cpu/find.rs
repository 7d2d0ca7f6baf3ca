//! From indices to elements: where they lead, and what lies there.

use super::isa::Task;
use std::marker::PhantomData;

/// From an index to a position along the looked-up dim.
#[derive(Clone, Copy)]
pub(super) struct Find {
    /// The index that means position 0.
    begin: i64,
    /// Positions there are.
    count: i64,
    /// Elements between neighbours.
    stride: isize,
}

impl Find {
    pub(super) fn new(begin: usize, count: usize, stride: isize) -> Result<Self, String> {
        let known = |number: usize| i64::try_from(number).map_err(|error| error.to_string());
        Ok(Self { begin: known(begin)?, count: known(count)?, stride })
    }

    /// Where along the dim an index leads, in elements; `None` if outside.
    #[inline(always)]
    pub(super) fn offset(self, index: i32) -> Option<isize> {
        let position = i64::from(index).wrapping_sub(self.begin);
        let inside = (position as u64) < self.count as u64;
        inside.then(|| position as isize * self.stride)
    }
}

/// The offset that stands for an index outside: no value is as long.
const OUTSIDE: isize = isize::MIN;

/// What is known of the offsets of a run.
#[derive(Clone, Copy)]
pub(super) enum Found {
    /// Some are [`OUTSIDE`].
    Partly,
    /// All lead to elements.
    All,
    /// The first, and each is one less than the one before: a reversed dim.
    Backwards(isize),
}

/// Finds where the indices of a run lead: indices, their stride, the input's stride along the run, room for
/// the offsets, how many.
pub(super) struct Offsets;

impl Task for Offsets {
    type Args = (Find, *const i32, isize, isize, *mut isize, usize);
    type Result = Found;

    #[inline(always)]
    unsafe fn run((find, indices, stride, along, offsets, len): Self::Args) -> Found {
        let mut outside = false;
        // The loop for neighbours is one for vectors.
        macro_rules! find {
            ($stride:expr) => {
                for i in 0..len as isize {
                    // SAFETY: the caller's indices, and room for an offset of each.
                    unsafe {
                        let offset = find.offset(*indices.offset(i * $stride));
                        outside |= offset.is_none();
                        *offsets.offset(i) = offset.map_or(OUTSIDE, |offset| offset + i * along);
                    }
                }
            };
        }
        match stride {
            1 => find!(1),
            _ => find!(stride),
        }
        if outside {
            return Found::Partly;
        }
        // SAFETY: all offsets are written.
        let offsets = unsafe { std::slice::from_raw_parts(offsets, len) };
        let [first, second, ..] = *offsets else { return Found::All };
        if second != first - 1 {
            return Found::All;
        }
        let backwards = (0..).zip(offsets).fold(true, |all, (i, at)| all & (*at == first - i));
        if backwards { Found::Backwards(first) } else { Found::All }
    }
}

/// Elements of runs at offsets that are known: result, its stride, input, offsets, how many, what is known
/// of them; how many runs, from one to the next in input and result, how many of them take turns.
pub(super) struct Along<T>(PhantomData<T>);

impl<T: Copy + Default> Task for Along<T> {
    type Args = (*mut T, isize, *const T, *const isize, usize, Found, (usize, [isize; 2], usize));
    type Result = ();

    #[inline(always)]
    unsafe fn run((out, stride, input, offsets, len, found, (runs, apart, turns)): Self::Args) {
        if turns > 1 {
            // SAFETY: the caller's runs and offsets.
            return unsafe {
                columns((out, stride), input, (offsets, len), (runs, apart[0]), turns)
            };
        }
        for run in 0..runs as isize {
            // SAFETY: the caller's runs and offsets; what is outside of the input is not read.
            unsafe {
                let (input, out) = (input.offset(run * apart[0]), out.offset(run * apart[1]));
                let put = |i: usize, x: T| *out.offset(i as isize * stride) = x;
                match found {
                    Found::Partly => (0..len).for_each(|i| {
                        let offset = *offsets.add(i);
                        let outside = offset == OUTSIDE;
                        put(i, if outside { T::default() } else { *input.offset(offset) });
                    }),
                    Found::Backwards(first) if stride == 1 => {
                        (0..len).for_each(|i| *out.add(i) = *input.offset(first - i as isize));
                    }
                    Found::All | Found::Backwards(_) => {
                        (0..len).for_each(|i| put(i, *input.offset(*offsets.add(i))));
                    }
                }
            }
        }
    }
}

/// The elements that indices find in runs which are neighbours in the result, `turns` runs after the other.
///
/// # Safety
///
/// As [`Along`] runs.
#[inline(always)]
unsafe fn columns<T: Copy + Default>(
    (out, stride): (*mut T, isize),
    input: *const T,
    (offsets, len): (*const isize, usize),
    (runs, apart): (usize, isize),
    turns: usize,
) {
    for first in (0..runs).step_by(turns) {
        let last = runs.min(first + turns) as isize;
        for i in 0..len {
            // SAFETY: the caller's runs and offsets; what is outside of the input is not read.
            unsafe {
                let (offset, out) = (*offsets.add(i), out.offset(i as isize * stride));
                let input = input.wrapping_offset(offset);
                for run in first as isize..last {
                    let x =
                        if offset == OUTSIDE { T::default() } else { *input.offset(run * apart) };
                    *out.offset(run) = x;
                }
            }
        }
    }
}

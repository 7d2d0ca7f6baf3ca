//! Copies of short rows, and elements that are each repeated: what takes less in place than by a call for each
//! row.

use super::fetch;
use super::isa::{Task, compiled};
use std::marker::PhantomData;
use std::ops::RangeInclusive;

/// Elements of one size, whatever they mean.
macro_rules! by_size {
    ($size:expr, $type:ident => $do:expr) => {
        match $size {
            1 => {
                type $type = u8;
                $do
            }
            2 => {
                type $type = u16;
                $do
            }
            4 => {
                type $type = u32;
                $do
            }
            _ => {
                type $type = u64;
                $do
            }
        }
    };
}
pub(super) use by_size;

/// Bytes of rows that are copied in place: to call the system's copy takes longer.
pub(super) const SHORT: RangeInclusive<usize> = CHUNK..=2048;
/// Bytes that are copied at once.
const CHUNK: usize = 64;
/// Bytes of rows by which what is written is asked for ahead. The machine does so for one run of memory, but not
/// where others lie between the rows.
const AHEAD: usize = 1024;

/// Copies as many rows of [`SHORT`] bytes; of each side, where and the bytes from row to row.
///
/// # Safety
///
/// Both sides are valid for the rows, and do not overlap.
pub(super) unsafe fn copy_rows(
    [rows, bytes]: [usize; 2],
    from: (*const u8, isize),
    to: (*mut u8, isize),
) {
    // SAFETY: as this function requires; compiled for this machine.
    unsafe { compiled::<Rows>()((rows, bytes, from, to)) };
}

struct Rows;

impl Task for Rows {
    type Args = (usize, usize, (*const u8, isize), (*mut u8, isize));
    type Result = ();

    #[inline(always)]
    unsafe fn run((rows, bytes, (from, from_step), (to, to_step)): Self::Args) {
        let (chunks, last) = (bytes / CHUNK, bytes - CHUNK);
        let ahead = AHEAD.div_ceil(bytes) as isize * to_step;
        for row in 0..rows as isize {
            let (from, to) =
                (from.wrapping_offset(row * from_step), to.wrapping_offset(row * to_step));
            // SAFETY: chunks lie within the rows, which are at least one long; the last may overlap the one
            // before, and writes the same again.
            unsafe {
                let copy = |at: usize| {
                    let chunk = from.add(at).cast::<[u8; CHUNK]>().read_unaligned();
                    to.add(at).cast::<[u8; CHUNK]>().write_unaligned(chunk);
                };
                for at in (0..chunks).map(|chunk| chunk * CHUNK) {
                    fetch::to_write(to.wrapping_offset(ahead).wrapping_add(at));
                    copy(at);
                }
                if chunks * CHUNK < bytes {
                    copy(last);
                }
            }
        }
    }
}

/// Repeats elements, `times` each; of each side, where and the elements from one to the next.
///
/// # Safety
///
/// `from` is valid for the elements and `to` for their runs; they do not overlap.
pub(super) unsafe fn spread(
    [count, times]: [usize; 2],
    size: usize,
    from: (*const u8, isize),
    to: (*mut u8, isize),
) {
    by_size!(size, T => {
        let args = (count, times, (from.0.cast::<T>(), from.1), (to.0.cast::<T>(), to.1));
        let task = match times {
            0..=4 => compiled::<Spread<T, 4>>(),
            5..=8 => compiled::<Spread<T, 8>>(),
            _ => compiled::<Spread<T, 16>>(),
        };
        // SAFETY: as this function requires; compiled for this machine.
        unsafe { task(args) };
    });
}

/// Repeats elements, by `W` at once.
struct Spread<T, const W: usize>(PhantomData<T>);

impl<T: Copy, const W: usize> Task for Spread<T, W> {
    type Args = (usize, usize, (*const T, isize), (*mut T, isize));
    type Result = ();

    #[inline(always)]
    unsafe fn run((count, times, (from, from_step), (to, to_step)): Self::Args) {
        // What stands behind a short run is the next ones, as long as there are enough of them.
        let whole = match to_step == times as isize && times <= W {
            true => count.saturating_sub(W.div_ceil(times)),
            false => 0,
        };
        for i in 0..count as isize {
            // SAFETY: offsets of the elements and their runs; `W` elements end before the last run does.
            unsafe {
                let (x, run) = (*from.offset(i * from_step), to.offset(i * to_step));
                if i < whole as isize {
                    run.cast::<[T; W]>().write_unaligned([x; W]);
                } else {
                    (0..times).for_each(|k| *run.add(k) = x);
                }
            }
        }
    }
}

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

/// Rows that a row of a result has its bytes of.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) from: *const u8,
    /// Bytes from row to row.
    pub(super) step: isize,
    /// Of a row: as many as [`SHORT`] has.
    pub(super) bytes: usize,
    /// Bytes from where a row of the result begins.
    pub(super) to: usize,
}

/// Copies as many rows of each source, one row of the result after the other: where the first begins, and the bytes
/// from row to row.
///
/// # Safety
///
/// Sources and result are valid for the rows; the result overlaps no source.
pub(super) unsafe fn copy_rows(rows: usize, sources: &[Source], to: (*mut u8, isize)) {
    // SAFETY: as this function requires; compiled for this machine.
    unsafe {
        match *sources {
            [source] => compiled::<Rows>()((rows, source, to)),
            _ => compiled::<Beside>()((rows, (sources.as_ptr(), sources.len()), to)),
        }
    }
}

/// Rows of one source.
struct Rows;

impl Task for Rows {
    type Args = (usize, Source, (*mut u8, isize));
    type Result = ();

    #[inline(always)]
    unsafe fn run((rows, source, to): Self::Args) {
        let ahead = AHEAD.div_ceil(source.bytes.max(1)) as isize * to.1;
        for row in 0..rows as isize {
            // SAFETY: the caller's rows.
            unsafe { copy_row(source, row, to, Some(ahead)) };
        }
    }
}

/// Rows of several sources, which make one run of memory.
struct Beside;

impl Task for Beside {
    type Args = (usize, (*const Source, usize), (*mut u8, isize));
    type Result = ();

    #[inline(always)]
    unsafe fn run((rows, (sources, count), to): Self::Args) {
        // SAFETY: a slice, as the caller says.
        let sources = unsafe { std::slice::from_raw_parts(sources, count) };
        for row in 0..rows as isize {
            for &source in sources {
                // SAFETY: the caller's rows.
                unsafe { copy_row(source, row, to, None) };
            }
        }
    }
}

/// Copies a row, and asks for what lies so many bytes ahead of where it comes.
///
/// # Safety
///
/// Both sides are valid for the row, which has at least one chunk.
#[inline(always)]
unsafe fn copy_row(source: Source, row: isize, (to, step): (*mut u8, isize), ahead: Option<isize>) {
    let Source { from, bytes, .. } = source;
    let from = from.wrapping_offset(row * source.step);
    let to = to.wrapping_offset(row * step).wrapping_add(source.to);
    // SAFETY: chunks lie within the rows; the last may overlap the one before, and writes the same again.
    unsafe {
        let chunk = |at: usize| {
            let chunk = from.add(at).cast::<[u8; CHUNK]>().read_unaligned();
            to.add(at).cast::<[u8; CHUNK]>().write_unaligned(chunk);
        };
        for at in (0..bytes / CHUNK).map(|chunk| chunk * CHUNK) {
            if let Some(ahead) = ahead {
                fetch::to_write(to.wrapping_offset(ahead).wrapping_add(at));
            }
            chunk(at);
        }
        if !bytes.is_multiple_of(CHUNK) {
            chunk(bytes - CHUNK);
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

//! Into and out of the register blocks of convolutions.

use super::block::MOST_ELEMENTS;
use super::micro::Element;

/// Aligned for any vector.
#[repr(align(64))]
pub(super) struct Buffer<T>(pub(super) [T; MOST_ELEMENTS]);

/// Rows of vectors, each gathered from `lane.0` offsets `lane.1`, the rest zeros.
///
/// # Safety
///
/// `from` is valid at the sums of offsets, `to` for the vectors.
pub(super) unsafe fn pack<T: Element>(
    from: *const T,
    rows: impl Iterator<Item = isize>,
    (count, lane): (usize, impl Fn(usize) -> isize),
    lanes: usize,
    to: *mut T,
) {
    let run = is_run((0..count).map(&lane));
    for (i, row) in rows.enumerate() {
        // SAFETY: `to` has room for `lanes` elements per row, and the rows lie within `from`.
        unsafe {
            let to = std::slice::from_raw_parts_mut(to.add(i * lanes), lanes);
            let from = from.offset(row);
            if run {
                let from = std::slice::from_raw_parts(from.offset(lane(0)), count);
                to[..count].copy_from_slice(from);
            } else {
                for (j, to) in to[..count].iter_mut().enumerate() {
                    *to = *from.offset(lane(j));
                }
            }
            to[count..].fill(T::default());
        }
    }
}

/// Writes the rows of a block to where they belong, or adds them; `run` if lanes are neighbours.
///
/// # Safety
///
/// `out` is valid at the sums of offsets, `c` for the rows.
pub(super) unsafe fn store<T: Element>(
    out: *mut T,
    rows: &[isize],
    (count, lane): (usize, impl Fn(usize) -> isize),
    run: bool,
    (c, lanes): (*const T, usize),
    add: bool,
) {
    for (p, &row) in rows.iter().enumerate() {
        // SAFETY: `c` holds `lanes` elements per row, and the rows lie within `out`.
        unsafe {
            let from = std::slice::from_raw_parts(c.add(p * lanes), count);
            let out = out.offset(row);
            if run && !add {
                std::slice::from_raw_parts_mut(out.offset(lane(0)), count).copy_from_slice(from);
                continue;
            }
            for (j, &x) in from.iter().enumerate() {
                let out = out.offset(lane(j));
                if add {
                    *out += x;
                } else {
                    *out = x;
                }
            }
        }
    }
}

/// Whether offsets follow each other in memory.
pub(super) fn is_run(offsets: impl Iterator<Item = isize>) -> bool {
    let mut next = None;
    offsets.into_iter().all(|at| next.replace(at + 1).is_none_or(|next| next == at))
}

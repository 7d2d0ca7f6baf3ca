//! Rows put next to each other.

use super::tile::AHEAD;
use crate::exec::cpu::fetch;
use crate::exec::cpu::vector::Masked;

/// Copies few elements; the usual numbers without a call.
///
/// # Safety
///
/// Both sides are valid for `count` elements, and apart.
#[inline(always)]
pub(super) unsafe fn copy<T: Copy>(from: *const T, to: *mut T, count: usize) {
    macro_rules! usual {
        ($($n:literal)*) => {
            match count {
                // SAFETY: the caller's elements.
                $($n => unsafe { to.cast::<[T; $n]>().write_unaligned(from.cast::<[T; $n]>().read_unaligned()) },)*
                // SAFETY: the caller's elements.
                _ => unsafe { std::ptr::copy_nonoverlapping(from, to, count) },
            }
        };
    }
    usual!(3 4 5 6 8 10 11 12 13 14 16 32);
}

/// Writes rows of `count` elements next to each other, with zeros behind each up to `width`.
///
/// # Safety
///
/// `from` is valid at the rows' offsets for `count` elements `step` apart, `to` for the rows.
pub(super) unsafe fn pack<T: Copy + Default>(
    from: *const T,
    rows: impl Iterator<Item = isize>,
    (count, step): (usize, isize),
    width: usize,
    mut to: *mut T,
) {
    rows.for_each(|row| {
        // SAFETY: a row of the source; `to` has room for all rows.
        unsafe {
            let from = from.offset(row);
            if step == 1 {
                copy(from, to, count);
            } else {
                for j in 0..count {
                    *to.add(j) = *from.offset(j as isize * step);
                }
            }
            for j in count..width {
                *to.add(j) = T::default();
            }
            to = to.add(width);
        }
    });
}

/// [`pack`] of rows at these offsets, of `[count, width]` elements that lie side by side; a width of two vectors at most.
///
/// # Safety
///
/// As [`pack`].
pub(super) type PackRows<T> = unsafe fn(*const T, &[isize], [usize; 2], *mut T);

/// A [`PackRows`].
///
/// # Safety
///
/// As [`pack`].
pub(super) unsafe fn pack_rows<T: Copy + Default>(
    from: *const T,
    rows: &[isize],
    [count, width]: [usize; 2],
    to: *mut T,
) {
    // SAFETY: the caller's rows and room.
    unsafe { pack(from, rows.iter().copied(), (count, 1), width, to) };
}

/// A [`PackRows`] by `N` vectors a row, which asks for rows ahead.
///
/// # Safety
///
/// As [`pack`]; the width is that of `N` vectors at most, and the machine has their instructions.
#[inline(always)]
pub(super) unsafe fn pack_vectors<V: Masked, const N: usize>(
    from: *const V::Element,
    rows: &[isize],
    [count, width]: [usize; 2],
    mut to: *mut V::Element,
) {
    let masks = |len: usize| -> [V::Mask; N] {
        std::array::from_fn(|n| V::first(len.saturating_sub(n * V::LANES)))
    };
    let (read, written) = (masks(count), masks(width));
    let ahead = match rows {
        [first, second, ..] => AHEAD * (second - first),
        _ => 0,
    };
    for &row in rows {
        let from = from.wrapping_offset(row);
        for n in 0..N {
            let at = from.wrapping_add(n * V::LANES);
            fetch::to_first(at.wrapping_offset(ahead).cast());
            // SAFETY: the masks' lanes are elements of the row, and places of it in `to`.
            unsafe {
                V::load_some(read[n], at).store_some(written[n], to.wrapping_add(n * V::LANES));
            }
        }
        to = to.wrapping_add(width);
    }
}

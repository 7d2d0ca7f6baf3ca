//! Copies between two strided layouts of the same elements.
#![allow(unsafe_code, reason = "copies between buffers of several threads")]

use std::ptr;

use smallvec::SmallVec;

/// One loop of a copy: how often, and by how many bytes each side advances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Dim {
    extent: usize,
    from: isize,
    to: isize,
}

/// A copy as few and as long runs as the strides allow.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// Outermost first, none of extent 1.
    dims: SmallVec<[Dim; 6]>,
    /// Bytes that are adjacent on both sides.
    run: usize,
}

impl Walk {
    /// From `(extent, stride of the source, stride of the target)` per dim, strides in bytes, and
    /// the size of an element.
    pub(crate) fn new(
        dims: impl IntoIterator<Item = (usize, isize, isize)>,
        element: usize,
    ) -> Self {
        let dims = dims.into_iter().map(|(extent, from, to)| Dim { extent, from, to });
        let mut dims: SmallVec<[Dim; 6]> = dims.filter(|dim| dim.extent != 1).collect();
        // Writing goes through memory in order.
        dims.sort_by_key(|dim| std::cmp::Reverse(dim.to.unsigned_abs()));
        let mut merged: SmallVec<[Dim; 6]> = SmallVec::new();
        for dim in dims {
            match merged.last_mut() {
                Some(outer)
                    if outer.from == dim.from * dim.extent as isize
                        && outer.to == dim.to * dim.extent as isize =>
                {
                    *outer = Dim { extent: outer.extent * dim.extent, ..dim };
                }
                _ => merged.push(dim),
            }
        }
        let mut run = element;
        if let Some(last) = merged.last()
            && (last.from, last.to) == (element as isize, element as isize)
        {
            run *= last.extent;
            merged.pop();
        }
        Self { dims: merged, run }
    }

    /// Copies.
    ///
    /// # Safety
    ///
    /// Every element that the strides reach from `from` is readable, from `to` writable; the two
    /// sides do not overlap, nobody else touches the target or writes to the source.
    pub(crate) unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        // SAFETY: `from` and `to` are good for the walk's dims; its run divides their strides.
        unsafe {
            match self.run {
                1 => walk(&self.dims, from, to, &|from, to| element::<u8>(from, to)),
                2 => walk(&self.dims, from, to, &|from, to| element::<u16>(from, to)),
                4 => walk(&self.dims, from, to, &|from, to| element::<u32>(from, to)),
                8 => walk(&self.dims, from, to, &|from, to| element::<u64>(from, to)),
                run => walk(&self.dims, from, to, &|from, to| {
                    ptr::copy_nonoverlapping(from, to, run);
                }),
            }
        }
    }
}

/// # Safety
///
/// Both are good for a `T`.
unsafe fn element<T>(from: *const u8, to: *mut u8) {
    // SAFETY: good for a `T`; alignment is not needed.
    unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) }
}

/// # Safety
///
/// As [`Walk::copy`].
unsafe fn walk(
    dims: &[Dim],
    mut from: *const u8,
    mut to: *mut u8,
    run: &impl Fn(*const u8, *mut u8),
) {
    let Some((dim, inner)) = dims.split_first() else {
        return run(from, to);
    };
    for _ in 0..dim.extent {
        // SAFETY: each position of the outer dim begins a walk of the inner ones, for which both
        // pointers are good.
        unsafe { walk(inner, from, to, run) };
        // The last step may leave the buffer; nothing is read there.
        from = from.wrapping_offset(dim.from);
        to = to.wrapping_offset(dim.to);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array3, Axis};

    use super::*;

    fn copied(turn: [usize; 3], flip: bool) {
        let source = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (100 * i + 10 * j + k) as i32);
        let mut view = source.view().permuted_axes(turn);
        if flip {
            view.invert_axis(Axis(1));
        }
        let mut target = Array3::<i32>::zeros(view.raw_dim());
        let strides = view.strides().iter().zip(target.strides());
        let dims = view.shape().iter().zip(strides).map(|(&e, (&f, &t))| (e, f * 4, t * 4));
        let walk = Walk::new(dims, 4);
        // SAFETY: strides and extents are the arrays' own.
        unsafe { walk.copy(view.as_ptr().cast(), target.as_mut_ptr().cast()) };
        assert_eq!(target, view);
    }

    #[test]
    fn any_order_and_direction() {
        for turn in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            copied(turn, false);
            copied(turn, true);
        }
    }

    #[test]
    fn adjacent_dims_become_one_run() {
        let rows = Walk::new([(2, 400, 96), (3, 32, 32), (8, 4, 4)], 4);
        assert_eq!((rows.dims.len(), rows.run), (1, 96));
        let whole = Walk::new([(2, 96, 96), (1, 7, 9), (3, 32, 32), (8, 4, 4)], 4);
        assert_eq!((whole.dims.len(), whole.run), (0, 192));
        assert_eq!(Walk::new([], 2).run, 2);
    }
}

//! Copies between the callers' global arrays and the processors' slices.
#![allow(unsafe_code, reason = "several processors write disjoint slices of one array")]

use std::ptr;

use smallvec::SmallVec;

use super::strided::Walk;
use crate::array::{Array, ArrayRef};
use crate::names::Mesh;
use crate::program::{Extents, Slot, Value};

/// A caller's array, without its lifetime.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    first: *mut u8,
    /// In bytes.
    strides: SmallVec<[isize; 6]>,
}

// SAFETY: a pointer without meaning; whoever goes through it answers for who else does.
unsafe impl Send for Global {}
// SAFETY: a pointer and a length, of which nothing changes; whoever shares it dereferences
// nothing.
unsafe impl Sync for Global {}

impl Global {
    fn new<T>(first: *mut T, strides: &[isize]) -> Self {
        let size = size_of::<T>() as isize;
        let strides = strides.iter().map(|stride| stride * size).collect();
        Self { first: first.cast(), strides }
    }

    /// An array that is read.
    pub(crate) fn of(array: &ArrayRef<'_>) -> Self {
        match array {
            ArrayRef::F32(array) => Self::new(array.as_ptr().cast_mut(), array.strides()),
            ArrayRef::F64(array) => Self::new(array.as_ptr().cast_mut(), array.strides()),
            ArrayRef::BF16(array) => Self::new(array.as_ptr().cast_mut(), array.strides()),
            ArrayRef::I32(array) => Self::new(array.as_ptr().cast_mut(), array.strides()),
            ArrayRef::Bool(array) => Self::new(array.as_ptr().cast_mut(), array.strides()),
            // No feed is of these: what a program is fed has a dtype.
            ArrayRef::Integers(_) => Self::new(ptr::null_mut::<u8>(), &[]),
        }
    }

    /// The array of which this one is what begins at these indices, by the dims; the rest of it is
    /// nowhere.
    pub(super) fn beginning_at(mut self, begins: impl Iterator<Item = usize>) -> Self {
        let offset = offset(begins, &self.strides);
        self.first = self.first.wrapping_offset(offset.wrapping_neg());
        self
    }

    /// An array that is written.
    pub(crate) fn of_mut(array: &mut Array) -> Self {
        match array {
            Array::F32(array) => Self::new(array.as_mut_ptr(), array.strides()),
            Array::F64(array) => Self::new(array.as_mut_ptr(), array.strides()),
            Array::BF16(array) => Self::new(array.as_mut_ptr(), array.strides()),
            Array::I32(array) => Self::new(array.as_mut_ptr(), array.strides()),
            Array::Bool(array) => Self::new(array.as_mut_ptr(), array.strides()),
        }
    }
}

/// How many bytes an element lies behind the first. What is outside of the array cancels out in the
/// end, so that it may wrap on the way.
fn offset(indices: impl Iterator<Item = usize>, strides: &[isize]) -> isize {
    let offsets =
        indices.zip(strides).map(|(index, stride)| (index as isize).wrapping_mul(*stride));
    offsets.fold(0, isize::wrapping_add)
}

/// Where one processor's slice lies in a global array.
#[derive(Clone, Debug)]
pub(crate) struct Border {
    begin: Extents,
    extents: Extents,
    /// Of the slice in memory, in bytes.
    strides: Extents,
    element: usize,
}

impl Border {
    /// A value's slice beginning at `begin`.
    pub(crate) fn new(value: &Value, begin: &[usize]) -> Self {
        let element = value.dtype.size();
        let strides = value.strides().iter().map(|stride| stride * element).collect();
        let (begin, extents) = (Extents::from_slice(begin), value.extents.clone());
        Self { begin, extents, strides, element }
    }

    /// The slice of a feed or fetch that lies on `processor`.
    pub(crate) fn of_slot(slot: &Slot, value: &Value, mesh: &Mesh, processor: usize) -> Self {
        Self::new(value, &Self::begin(slot, value, mesh, processor))
    }

    /// Where that slice begins.
    pub(super) fn begin(slot: &Slot, value: &Value, mesh: &Mesh, processor: usize) -> Extents {
        let part = |axes| mesh.group_index(processor, axes);
        let dims = slot.split.iter().zip(&value.extents);
        dims.map(|(axes, extent)| part(axes) * extent).collect()
    }

    /// The slice within a global array, if it lies there as it would in a copy.
    pub(super) fn as_is(&self, global: &Global) -> Option<*mut u8> {
        let mut dims = self.extents.iter().zip(&self.strides).zip(&global.strides);
        let same = dims.all(|((&extent, &own), &there)| extent == 1 || own as isize == there);
        same.then(|| self.first(global))
    }

    fn first(&self, global: &Global) -> *mut u8 {
        global.first.wrapping_offset(offset(self.begin.iter().copied(), &global.strides))
    }

    fn walk(&self, global: &Global, into: bool) -> (Walk, *mut u8) {
        let dims = (0..self.extents.len()).map(|d| {
            let (outside, inside) = (global.strides[d], self.strides[d] as isize);
            let (from, to) = if into { (outside, inside) } else { (inside, outside) };
            (self.extents[d], from, to)
        });
        (Walk::new(dims, self.element), self.first(global))
    }

    /// Copies the slice out of a global array.
    ///
    /// # Safety
    ///
    /// The array is alive, of the dtype and rank, and contains the slice, as does the part of it that
    /// is there; `slice` is good for it. Nobody else touches `slice`, nobody writes to the array.
    pub(crate) unsafe fn cut(&self, global: &Global, slice: *mut u8) {
        let (walk, first) = self.walk(global, true);
        // SAFETY: the walk covers the slice.
        unsafe { walk.copy(first, slice) }
    }

    /// Copies the slice into a global array.
    ///
    /// # Safety
    ///
    /// As [`cut`](Self::cut), the other way round: nobody else touches this part of the array.
    pub(crate) unsafe fn paste(&self, slice: *const u8, global: &Global) {
        let (walk, first) = self.walk(global, false);
        // SAFETY: the walk covers the slice.
        unsafe { walk.copy(slice, first) }
    }
}

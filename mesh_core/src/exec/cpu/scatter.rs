//! `Scatter`: rows added by index, in the declared order of the updates.

use super::gather::Find;
use super::isa::{Entry, Task, compiled};
use super::moves::fill;
use super::strided::{Labels, Loop, Nest};
use super::{Kernel, Memory};
use crate::names::DType;
use crate::program::{Block, Operand, ValueId};
use std::marker::PhantomData;

struct Scatter<T: Number> {
    updates: ValueId,
    indices: ValueId,
    out: ValueId,
    len: usize,
    find: Find,
    /// Loops over indices and summed dims in the updates' order. Strides: indices, updates, result.
    lookups: Nest,
    /// Loops over what one index gets, but for `run`. Strides: updates, result.
    row: Nest,
    run: Loop,
    /// The loops of `lookups` and the innermost of them, if updates of neighbouring indices lie closer
    /// together than those of one index: then each element of a row gets all of its own.
    by_element: Option<(Nest, Loop)>,
    add: Entry<Add<T>>,
}

pub(super) fn prepare(
    block: &Block,
    updates: &Operand,
    indices: &Operand,
    dim: u8,
    begin: usize,
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let value = block.value(out);
    if block.value(updates.value).dtype != value.dtype {
        return Err("a scatter keeps its dtype".to_owned());
    }
    if block.value(indices.value).dtype != DType::I32 {
        return Err("indices are i32".to_owned());
    }
    let (dim, rank) = (usize::from(dim), value.extents.len());
    let labels = Labels::new(block, &[updates, indices], out);
    if dim >= rank || labels.has[0][dim] {
        return Err("the indexed dim is not the result's alone".to_owned());
    }
    // Whatever meets in one element of the result is added in the order of these loops.
    let meets = |label: usize| labels.has[1][label] || label >= rank;
    let declared = updates.dims.iter().map(|&label| usize::from(label));
    let (met, kept): (Vec<_>, Vec<_>) = declared.partition(|&label| meets(label));
    let lookups = labels.nest(&met, &[1, 0, 2]).collapse();
    let mut row = labels.nest(&kept, &[0, 2]);
    row.sort_by(1);
    let (row, run) = row.collapse().split_inner();
    let find = Find::new(begin, labels.extents[dim], labels.strides[2][dim])?;
    let (others, next) = lookups.clone().split_inner();
    let is_near = next.strides[1].unsigned_abs() < run.strides[0].unsigned_abs();
    let by_element = (next.extent > 1 && is_near).then_some((others, next));
    let (updates, indices, len) = (updates.value, indices.value, value.len());
    macro_rules! kernel {
        ($element:ty) => {{
            let add = compiled::<Add<$element>>();
            Box::new(Scatter::<$element> {
                updates,
                indices,
                out,
                len,
                find,
                lookups,
                row,
                run,
                by_element,
                add,
            })
        }};
    }
    Ok(match value.dtype {
        DType::F32 => kernel!(f32),
        DType::F64 => kernel!(f64),
        DType::I32 => kernel!(i32),
        dtype => return Err(format!("there are no scattered sums of {dtype}")),
    })
}

/// What can be added.
trait Number: Copy + Send + 'static {
    fn plus(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($type:ty, |$a:ident, $b:ident| $sum:expr;)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sum
            }
        }
    )*};
}

numbers! {
    f32, |a, b| a + b;
    f64, |a, b| a + b;
    i32, |a, b| a.wrapping_add(b);
}

/// Adds a run onto another: results, updates, how many.
struct Add<T>(PhantomData<T>);

impl<T: Number> Task for Add<T> {
    type Args = (*mut T, *const T, usize);
    type Result = ();

    #[inline(always)]
    unsafe fn run((onto, updates, len): Self::Args) {
        // SAFETY: the caller's runs, which do not overlap.
        let (onto, updates) = unsafe {
            (std::slice::from_raw_parts_mut(onto, len), std::slice::from_raw_parts(updates, len))
        };
        for (onto, &update) in onto.iter_mut().zip(updates) {
            *onto = onto.plus(update);
        }
    }
}

impl<T: Number> Scatter<T> {
    /// Adds what all indices get of one element of a row before the next: the same order for each element
    /// of the result.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn elements(
        &self,
        (lookups, inner): &(Nest, Loop),
        indices: *const i32,
        updates: *const T,
        out: *mut T,
    ) {
        let strides = &inner.strides;
        let mut add = |[at, from, to]: [isize; 3]| {
            for i in 0..inner.extent as isize {
                // SAFETY: offsets of the nests; `find` stays inside the result.
                unsafe {
                    let index = *indices.offset(at + i * strides[0]);
                    let Some(found) = self.find.offset(index) else { continue };
                    let to = out.offset(to + i * strides[2] + found);
                    *to = (*to).plus(*updates.offset(from + i * strides[1]));
                }
            }
        };
        self.row.walk([0, 0], &mut |[from, to]| {
            for k in 0..self.run.extent as isize {
                let (from, to) = (from + k * self.run.strides[0], to + k * self.run.strides[1]);
                lookups.walk([0, from, to], &mut add);
            }
        });
    }
}

impl<T: Number> Kernel for Scatter<T> {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        let indices = memory.pointer(self.indices).cast::<i32>();
        let updates = memory.pointer(self.updates).cast::<T>().cast_const();
        let out = memory.pointer(self.out);
        // SAFETY: the result's bytes; zero is all bits zero.
        unsafe { fill(out, self.len, size_of::<T>(), 0) };
        let out = out.cast::<T>();
        let (len, strides) = (self.run.extent, &self.run.strides);
        if let Some(lookups) = &self.by_element {
            // SAFETY: as this kernel's contract says.
            return unsafe { self.elements(lookups, indices, updates, out) };
        }
        self.lookups.walk([0, 0, 0], &mut |[at, from, to]| {
            // SAFETY: an offset of the nest.
            let Some(found) = self.find.offset(unsafe { *indices.offset(at) }) else { return };
            self.row.walk([from, to + found], &mut |[from, to]| {
                // SAFETY: offsets of the nests; `find` stays inside the result.
                unsafe {
                    let (from, to) = (updates.offset(from), out.offset(to));
                    if strides[..] == [1, 1] {
                        return (self.add)((to, from, len));
                    }
                    for i in 0..len as isize {
                        let to = to.offset(i * strides[1]);
                        *to = (*to).plus(*from.offset(i * strides[0]));
                    }
                }
            });
        });
    }
}

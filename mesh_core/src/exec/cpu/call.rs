//! `Call`: hands a user's kernel its values as slices.

use super::{Kernel, Memory};
use crate::names::DType;
use crate::program::{Block, Elements, ElementsMut, Opaque, Value, ValueId, View, ViewMut};
use std::slice::{from_raw_parts, from_raw_parts_mut};

struct Call {
    kernel: Opaque,
    inputs: Vec<(ValueId, Value)>,
    outs: Vec<(ValueId, Value)>,
}

pub(super) fn prepare(
    block: &Block,
    kernel: &Opaque,
    inputs: &[ValueId],
    outs: &[ValueId],
) -> Result<Box<dyn Kernel>, String> {
    let known = |ids: &[ValueId]| -> Vec<_> {
        ids.iter().map(|&id| (id, block.value(id).clone())).collect()
    };
    let (inputs, outs) = (known(inputs), known(outs));
    if let Some((id, value)) = inputs.iter().chain(&outs).find(|(_, value)| !value.in_order()) {
        return Err(format!("{id:?} is {value}, not in declared order"));
    }
    Ok(Box::new(Call { kernel: kernel.clone(), inputs, outs }))
}

/// # Safety
///
/// The value lies at `at` and does not change for `'a`.
unsafe fn elements<'a>(value: &Value, at: *const u8) -> Elements<'a> {
    let len = value.len();
    // SAFETY: `at` is good for the value's elements, which a step has written; every kernel writes
    // bools as 0 or 1.
    unsafe {
        match value.dtype {
            DType::F32 => Elements::F32(from_raw_parts(at.cast(), len)),
            DType::F64 => Elements::F64(from_raw_parts(at.cast(), len)),
            DType::BF16 => Elements::BF16(from_raw_parts(at.cast(), len)),
            DType::I32 => Elements::I32(from_raw_parts(at.cast(), len)),
            DType::Bool => Elements::Bool(from_raw_parts(at.cast(), len)),
        }
    }
}

/// # Safety
///
/// There is room for the value at `at`, which nobody else reaches for `'a`.
unsafe fn zeros<'a>(value: &Value, at: *mut u8) -> ElementsMut<'a> {
    let len = value.len();
    // SAFETY: `at` is good for the value's bytes, which nobody else uses; zeros are elements of
    // every dtype.
    unsafe {
        at.write_bytes(0, value.bytes());
        match value.dtype {
            DType::F32 => ElementsMut::F32(from_raw_parts_mut(at.cast(), len)),
            DType::F64 => ElementsMut::F64(from_raw_parts_mut(at.cast(), len)),
            DType::BF16 => ElementsMut::BF16(from_raw_parts_mut(at.cast(), len)),
            DType::I32 => ElementsMut::I32(from_raw_parts_mut(at.cast(), len)),
            DType::Bool => ElementsMut::Bool(from_raw_parts_mut(at.cast(), len)),
        }
    }
}

impl Call {
    /// Where the views of outs stand in the scratch, behind those of inputs.
    fn outs_at(&self) -> usize {
        (self.inputs.len() * size_of::<View<'_>>()).next_multiple_of(align_of::<ViewMut<'_>>())
    }
}

impl Kernel for Call {
    fn scratch_bytes(&self) -> usize {
        self.outs_at() + self.outs.len() * size_of::<ViewMut<'_>>()
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let views = scratch.cast::<View<'_>>();
        // SAFETY: the scratch has room for the views, which need no drop; values are valid, and
        // outs overlap nothing.
        let (inputs, outs) = unsafe {
            let made = scratch.add(self.outs_at()).cast::<ViewMut<'_>>();
            for (i, (id, value)) in self.inputs.iter().enumerate() {
                let elements = elements(value, memory.pointer(*id));
                views.add(i).write(View { extents: &value.extents, elements });
            }
            for (i, (id, value)) in self.outs.iter().enumerate() {
                let elements = zeros(value, memory.pointer(*id));
                made.add(i).write(ViewMut { extents: &value.extents, elements });
            }
            (from_raw_parts(views, self.inputs.len()), from_raw_parts_mut(made, self.outs.len()))
        };
        self.kernel.run(inputs, outs);
    }
}

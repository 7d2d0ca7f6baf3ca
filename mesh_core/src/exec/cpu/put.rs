//! `Put`: rows written by index into what is there.

use super::find::Find;
use super::strided::{Labels, Nest, copy};
use super::{Kernel, Memory};
use crate::names::DType;
use crate::program::{Block, Operand, ValueId};

struct Put {
    input: ValueId,
    row: ValueId,
    indices: ValueId,
    out: ValueId,
    /// Loops over the whole. Strides: input, out.
    whole: Nest,
    find: Find,
    /// Loops over indices. Strides: indices, row, out.
    lookups: Nest,
    /// Loops over what one index puts. Strides: row, out.
    one: Nest,
    /// Bytes of an element.
    size: usize,
}

pub(super) fn prepare(
    block: &Block,
    [input, row, indices]: [&Operand; 3],
    dim: u8,
    begin: usize,
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let value = block.value(out);
    if [input, row].iter().any(|operand| block.value(operand.value).dtype != value.dtype) {
        return Err("a put keeps its dtype".to_owned());
    }
    if block.value(indices.value).dtype != DType::I32 {
        return Err("indices are i32".to_owned());
    }
    let dim = usize::from(dim);
    let labels = Labels::new(block, &[input, row, indices], out);
    if dim >= value.extents.len() || labels.has[1][dim] {
        return Err("the indexed dim is not the result's alone".to_owned());
    }
    let nest = |labels: &Labels, chosen: &[usize], operands: &[usize]| {
        let mut nest = labels.nest(chosen, operands);
        nest.sort_by(operands.len() - 1);
        nest.collapse()
    };
    let [indexed, kept] = [true, false].map(|is| {
        let of = |label: usize| label != dim && labels.has[2][label] == is;
        labels.select(of)
    });
    Ok(Box::new(Put {
        input: input.value,
        row: row.value,
        indices: indices.value,
        out,
        whole: nest(&labels, &labels.select(|_| true), &[0, 3]),
        find: Find::new(begin, labels.extents[dim], labels.strides[3][dim])?,
        lookups: nest(&labels, &indexed, &[2, 1, 3]),
        one: nest(&labels, &kept, &[1, 3]),
        size: value.dtype.size(),
    }))
}

impl Kernel for Put {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        let [input, row, out] = [self.input, self.row, self.out].map(|id| memory.pointer(id));
        let indices = memory.pointer(self.indices).cast::<i32>().cast_const();
        let first = |nest: &Nest| nest.loops.first().map_or(1, |l| l.extent);
        let (size, step) = (self.size, self.size as isize);
        if input != out {
            // SAFETY: both hold the whole, and do not overlap.
            unsafe { copy(&self.whole.loops, first(&self.whole), size, input, out) };
        }
        let extent = first(&self.one);
        self.lookups.walk([0, 0, 0], &mut |[at, from, to]| {
            // SAFETY: an offset of the nest.
            let Some(found) = self.find.offset(unsafe { *indices.offset(at) }) else { return };
            // SAFETY: offsets of the nests; `find` stays inside the result.
            unsafe {
                let (from, to) = (row.offset(from * step), out.offset((to + found) * step));
                copy(&self.one.loops, extent, size, from, to);
            }
        });
    }
}

//! CPU kernels of the local step forms, one file or folder per form.
//!
//! [`prepare`] turns a step into a [`Kernel`] for one processor: labels become strides, loops are
//! planned, offsets evaluated. What is left for [`Kernel::run`] is arithmetic on memory that
//! somebody else owns; it allocates nothing of its own. (The GEMM of `faer` keeps one packing
//! buffer per thread, made at that thread's first large product.)
//!
//! An element-by-element result depends on its operands alone, never on where in memory or in a
//! vector they lie. Sums are taken in an order that depends on extents and strides alone.

#![allow(unsafe_code, reason = "kernels read and write raw memory of the planned arena")]

mod blocks;
mod call;
mod contract;
mod convolve;
mod gather;
mod gemm;
mod generate;
pub(super) mod isa;
mod map;
mod moves;
mod normal;
mod philox;
mod product;
pub(super) mod reduce;
mod scan;
mod scatter;
mod sort;
mod strided;
mod transpose;
mod vmath;

#[cfg(test)]
mod tests;

use super::seed::Seed;
use crate::names::Mesh;
use crate::program::{Program, Step};

/// Where one processor's values lie.
pub(crate) struct Memory {
    /// One pointer per value of the program, aligned to 64 bytes; feeds that lie in callers' arrays are
    /// aligned to their elements.
    pub(crate) pointers: Vec<*mut u8>,
}

impl Memory {
    /// Where a value lies.
    pub(crate) fn pointer(&self, value: crate::program::ValueId) -> *mut u8 {
        self.pointers[value.index()]
    }
}

/// A step made ready to run on one processor.
pub(crate) trait Kernel: Send {
    /// Bytes of scratch that `run` needs.
    fn scratch_bytes(&self) -> usize {
        0
    }

    /// Does the step.
    ///
    /// # Safety
    ///
    /// Every pointer of `memory` that the step names is valid for its value's bytes and aligned to its
    /// elements. Outs overlap no input, but for an out of a `Map` that coincides with an
    /// input of equal extents, order and element size whose labels are its own dims. `scratch` is aligned to 64 bytes, valid for [`Kernel::scratch_bytes`], and
    /// overlaps nothing else.
    unsafe fn run(&self, memory: &Memory, scratch: *mut u8);
}

/// Makes a product and the map that follows it ready as one kernel; `None` where nothing is to be gained
/// by it.
pub(crate) fn prepare_joined(
    program: &Program,
    steps: [&Step; 2],
    memory: &Memory,
) -> Result<Option<Box<dyn Kernel>>, String> {
    contract::prepare_joined(program, steps, memory)
}

/// Makes a step ready for one processor; `None` for collectives and for reads and writes of
/// variables.
pub(crate) fn prepare(
    program: &Program,
    step: &Step,
    mesh: &Mesh,
    processor: usize,
    seed: &Seed,
) -> Result<Option<Box<dyn Kernel>>, String> {
    let value = |id| program.value(id);
    let kernel = match step {
        Step::Map { body, inputs, outs } => map::prepare(program, body, inputs, outs)?,
        Step::Reduce { kind, input, out } => reduce::prepare(program, *kind, input, *out)?,
        Step::Contract { lhs, rhs, out } => contract::prepare(program, lhs, rhs, *out)?,
        Step::Convolve { lhs, rhs, windows, out } => {
            convolve::prepare(program, lhs, rhs, windows, *out)?
        }
        Step::Move { pieces, fill, out } => {
            moves::prepare(program, pieces, *fill, *out, mesh, processor)?
        }
        Step::Reshape { input, out } => moves::prepare_reshape(program, *input, *out)?,
        Step::Barrier { inputs, outs } => moves::prepare_barrier(program, inputs, outs)?,
        Step::Generate { generator, salts, begin, global, out } => {
            let begin: Vec<_> = begin.iter().map(|offset| offset.at(mesh, processor)).collect();
            generate::prepare(generator, salts, &begin, global, value(*out), *out, seed)?
        }
        Step::Gather { input, indices, dim, begin, out } => {
            gather::prepare(program, input, indices, *dim, begin.at(mesh, processor), *out)?
        }
        Step::Scatter { updates, indices, dim, begin, out } => {
            scatter::prepare(program, updates, indices, *dim, begin.at(mesh, processor), *out)?
        }
        Step::Sort { inputs, dim, descending, outs } => {
            sort::prepare(program, inputs, *dim, *descending, outs)?
        }
        Step::Scan { kind, input, dim, exclusive, reverse, out } => {
            scan::prepare(program, *kind, *input, *dim, [*exclusive, *reverse], *out)?
        }
        Step::Call { kernel, inputs, outs } => call::prepare(program, kernel, inputs, outs)?,
        _ => return Ok(None),
    };
    Ok(Some(kernel))
}

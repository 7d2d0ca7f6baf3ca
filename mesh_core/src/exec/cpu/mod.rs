//! CPU kernels of the local step forms, one file or folder per form.
//!
//! [`prepare`] turns a step into a [`Kernel`] for one processor: labels become strides, loops are
//! planned, offsets evaluated. What is left for [`Kernel::run`] is arithmetic on memory that
//! somebody else owns; it allocates nothing of its own. (The crate that makes large products on x86-64
//! keeps one packing buffer per thread, made at that thread's first.)
//!
//! An element-by-element result depends on its operands alone, never on where in memory or in a
//! vector they lie. Sums are taken in an order that depends on extents and strides alone.

#![allow(unsafe_code, reason = "kernels read and write raw memory of the planned arena")]

mod blocks;
pub(super) mod cache;
mod call;
mod contract;
mod convolve;
mod fetch;
mod find;
mod gather;
mod gemm;
mod generate;
pub(super) mod isa;
mod kernel;
mod map;
mod moves;
mod pool;
mod product;
mod put;
pub(super) mod reduce;
mod rows;
mod scan;
mod scatter;
mod sort;
mod strided;
mod tiles;
mod transpose;
mod vector;
mod vmath;

#[cfg(test)]
mod tests;

pub(crate) use fetch::Coming;
pub(crate) use kernel::{Kernel, Memory};

use super::seed::Seed;
use crate::names::Mesh;
use crate::program::{Block, Form, Offset, Step};

/// In which way a step is run, of several that there are for its form.
pub(crate) fn way(block: &Block, step: &Step) -> Option<&'static str> {
    match (&step.form, &step.inputs[..], &step.outs[..]) {
        (Form::Convolve(form), [lhs, rhs], [out]) => {
            convolve::way(block, lhs, rhs, &form.windows, *out)
        }
        _ => None,
    }
}

/// Makes a step ready for one processor; `None` for collectives, reads and writes of variables, and
/// loops.
pub(crate) fn prepare(
    block: &Block,
    step: &Step,
    mesh: &Mesh,
    processor: usize,
    seed: &Seed,
) -> Result<Option<Box<dyn Kernel>>, String> {
    let Step { inputs, outs, .. } = step;
    let at = |offset: &Offset| offset.at(mesh, processor);
    // A verified step has them.
    let missing = || "it lacks an input or an out".to_owned();
    let input = |i: usize| inputs.get(i).ok_or_else(missing);
    let out = || outs.first().copied().ok_or_else(missing);
    let kernel = match &step.form {
        Form::Map(form) => map::prepare(block, form, inputs, outs, &at)?,
        Form::Reduce(form) => match &form.body {
            None => reduce::prepare(block, form.kind, input(0)?, out()?)?,
            Some(body) => map::prepare_fold(block, (form.kind, body), inputs, out()?)?,
        },
        Form::Contract(_) => contract::prepare(block, input(0)?, input(1)?, out()?)?,
        Form::Convolve(form) => {
            convolve::prepare(block, input(0)?, input(1)?, &form.windows, out()?)?
        }
        Form::Pool(form) => pool::prepare(block, form, inputs, out()?)?,
        Form::Move(form) => moves::prepare(block, form, inputs, out()?, mesh, processor)?,
        Form::Reshape(_) => moves::prepare_reshape(block, input(0)?.value, out()?)?,
        Form::Barrier(_) => moves::prepare_barrier(block, inputs, outs)?,
        Form::Generate(form) => {
            let begin: Vec<_> = form.begin.iter().map(at).collect();
            let given: Vec<_> = step.reads().collect();
            let (value, out) = (block.value(out()?), out()?);
            generate::prepare(form, &given, &begin, value, out, seed)?
        }
        Form::Gather(form) => {
            gather::prepare(block, input(0)?, input(1)?, form.dim, at(&form.begin), out()?)?
        }
        Form::Scatter(form) => {
            let to = (form.dim, at(&form.begin), out()?);
            scatter::prepare(block, form.kind, inputs, to)?
        }
        Form::Put(form) => {
            let operands = [input(0)?, input(1)?, input(2)?];
            put::prepare(block, operands, form.dim, at(&form.begin), out()?)?
        }
        Form::Sort(form) => sort::prepare(block, inputs, form.dim, form.descending, outs)?,
        Form::Scan(form) => {
            let order = [form.exclusive, form.reverse];
            scan::prepare(block, form.kind, input(0)?.value, form.dim, order, out()?)?
        }
        Form::Call(form) => {
            let inputs: Vec<_> = step.reads().collect();
            call::prepare(block, &form.kernel, &inputs, outs)?
        }
        _ => return Ok(None),
    };
    Ok(Some(kernel))
}

//! `Scan`: running folds, row by row where memory runs across the dim, line by line elsewhere.

use super::isa::{Entry, Task, compiled};
use super::reduce::{All, Any, Fold, Max, Min, Prod, Sum};
use super::strided::{Loop, Nest};
use super::{Kernel, Memory};
use crate::names::{DType, ReduceKind};
use crate::program::{Block, Extents, ValueId};
use std::marker::PhantomData;

/// Lines that are folded at once.
const WIDTH: usize = 1024;

struct Scan<F: Fold> {
    input: ValueId,
    out: ValueId,
    /// Loops over lines, but for `across`. Strides: input, result.
    lines: Nest,
    /// Lines that lie side by side in both.
    across: Option<usize>,
    /// Along a line, from its first position in order of the scan.
    along: Loop,
    start: [isize; 2],
    exclusive: bool,
    step: Entry<Step<F>>,
}

pub(super) fn prepare(
    block: &Block,
    kind: ReduceKind,
    input: ValueId,
    dim: u8,
    [exclusive, reverse]: [bool; 2],
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let (from, to) = (block.value(input), block.value(out));
    let dim = usize::from(dim);
    if from.dtype != to.dtype || from.extents != to.extents || dim >= to.extents.len() {
        return Err("a scan keeps its type".to_owned());
    }
    let signed = |strides: Extents| strides.iter().map(|&s| s as isize).collect::<Vec<_>>();
    let strides = [signed(from.strides()), signed(to.strides())];
    let mut lines = Nest::new(&to.extents, &[&strides[0], &strides[1]]);
    let mut along = lines.loops.remove(dim);
    let mut start = [0, 0];
    if reverse {
        for (start, stride) in start.iter_mut().zip(&mut along.strides) {
            *start = (along.extent as isize - 1) * *stride;
            *stride = -*stride;
        }
    }
    lines.sort_by(1);
    let mut lines = lines.collapse();
    let side_by_side = |l: &Loop| l.strides[..] == [1, 1];
    let across = lines.loops.last().filter(|l| side_by_side(l)).map(|l| l.extent);
    if across.is_some() {
        lines.loops.pop();
    }
    macro_rules! kernel {
        ($fold:ty) => {{
            let step = compiled::<Step<$fold>>();
            Box::new(Scan::<$fold> { input, out, lines, across, along, start, exclusive, step })
        }};
    }
    macro_rules! number {
        ($name:ident) => {
            match to.dtype {
                DType::F32 => kernel!($name<f32>),
                DType::F64 => kernel!($name<f64>),
                DType::BF16 => kernel!($name<u16>),
                DType::I32 => kernel!($name<i32>),
                DType::Bool => return Err(format!("there is no {kind} of bool")),
            }
        };
    }
    Ok(match kind {
        ReduceKind::Sum => number!(Sum),
        ReduceKind::Prod => number!(Prod),
        ReduceKind::Max => number!(Max),
        ReduceKind::Min => number!(Min),
        ReduceKind::All | ReduceKind::Any if to.dtype != DType::Bool => {
            return Err(format!("there is no {kind} of {}", to.dtype));
        }
        ReduceKind::All => kernel!(All<u8>),
        ReduceKind::Any => kernel!(Any<u8>),
        ReduceKind::Select => return Err("elements of one value are not selections".to_owned()),
    })
}

/// One position of neighbouring lines: what is held so far, input, result.
struct Step<F>(PhantomData<F>);

impl<F: Fold> Task for Step<F> {
    type Args = (*mut F::Held, *const F::Element, *mut F::Element, usize, bool);
    type Result = ();

    #[inline(always)]
    unsafe fn run((held, input, out, len, exclusive): Self::Args) {
        // SAFETY: the caller's rows, which do not overlap.
        let (held, input, out) = unsafe {
            (
                std::slice::from_raw_parts_mut(held, len),
                std::slice::from_raw_parts(input, len),
                std::slice::from_raw_parts_mut(out, len),
            )
        };
        for ((held, &input), out) in held.iter_mut().zip(input).zip(out) {
            let after = F::fold(*held, F::load(input));
            *out = F::store(if exclusive { *held } else { after });
            *held = after;
        }
    }
}

impl<F: Fold> Scan<F> {
    /// # Safety
    ///
    /// Input and result are valid along a line from here.
    unsafe fn line(&self, input: *const F::Element, out: *mut F::Element) {
        let strides = &self.along.strides;
        let mut held = F::START;
        for i in 0..self.along.extent as isize {
            // SAFETY: positions of the line.
            unsafe {
                let after = F::fold(held, F::load(*input.offset(i * strides[0])));
                let here = if self.exclusive { held } else { after };
                *out.offset(i * strides[1]) = F::store(here);
                held = after;
            }
        }
    }

    /// # Safety
    ///
    /// Input and result are valid along `len` neighbouring lines from here; `held` has room for as
    /// many.
    unsafe fn rows(
        &self,
        input: *const F::Element,
        out: *mut F::Element,
        held: *mut F::Held,
        len: usize,
    ) {
        let strides = &self.along.strides;
        // SAFETY: `held` has room for `len`, and input and out are valid for the scan's loops.
        unsafe {
            (0..len).for_each(|j| held.add(j).write(F::START));
            for i in 0..self.along.extent as isize {
                let (input, out) = (input.offset(i * strides[0]), out.offset(i * strides[1]));
                (self.step)((held, input, out, len, self.exclusive));
            }
        }
    }
}

impl<F: Fold> Kernel for Scan<F> {
    fn scratch_bytes(&self) -> usize {
        if self.across.is_some() { WIDTH * size_of::<F::Held>() } else { 0 }
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let input = memory.pointer(self.input).cast::<F::Element>().cast_const();
        let out = memory.pointer(self.out).cast::<F::Element>();
        self.lines.walk(self.start, &mut |[from, to]| {
            // SAFETY: offsets of the nest; scratch has room for WIDTH lines.
            unsafe {
                let (input, out) = (input.offset(from), out.offset(to));
                let Some(across) = self.across else { return self.line(input, out) };
                for done in (0..across).step_by(WIDTH) {
                    let len = WIDTH.min(across - done);
                    self.rows(input.add(done), out.add(done), scratch.cast(), len);
                }
            }
        });
    }
}

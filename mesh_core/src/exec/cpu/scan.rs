//! `Scan`: running folds, row by row where memory runs across the dim. Where it runs along the dim, lines are
//! turned, so that they lie side by side: the elements of one wait for each other.

use super::isa::{Entry, Task, compiled};
use super::reduce::{All, Any, Fold, Max, Min, Prod, Sum};
use super::strided::{Loop, Nest};
use super::transpose::{Transpose, Turn, transpose};
use super::{Kernel, Memory};
use crate::names::{DType, ReduceKind};
use crate::program::{Block, Extents, ValueId};
use std::marker::PhantomData;

/// Lines that are folded at once.
const WIDTH: usize = 1024;

/// Lines that are turned at once.
const LINES: usize = 16;
/// Positions of them that are turned at once.
const BLOCK: usize = 64;

/// How the innermost lines lie.
enum Lie {
    /// So many side by side, in input and result.
    Across(usize),
    /// Each along memory, in input and result; strides: from one to the next.
    Along(Loop),
    /// In another way: line by line.
    Apart,
}

struct Scan<F: Fold> {
    input: ValueId,
    out: ValueId,
    /// Loops over lines, but for those of `lie`. Strides: input, result.
    lines: Nest,
    lie: Lie,
    /// Along a line, from its first position in order of the scan.
    along: Loop,
    start: [isize; 2],
    exclusive: bool,
    step: Entry<Step<F>>,
    line: Entry<Line<F>>,
    rows: Entry<Rows<F>>,
    transpose: Transpose<F::Element>,
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
    let runs = along.strides.iter().all(|stride| stride.abs() == 1);
    let lie = match lines.loops.pop() {
        Some(l) if l.strides[..] == [1, 1] => Lie::Across(l.extent),
        Some(l) if runs && l.extent >= LINES => Lie::Along(l),
        other => {
            lines.loops.extend(other);
            Lie::Apart
        }
    };
    macro_rules! kernel {
        ($fold:ty) => {{
            Box::new(Scan::<$fold> {
                input,
                out,
                lines,
                lie,
                along,
                start,
                exclusive,
                step: compiled::<Step<$fold>>(),
                line: compiled::<Line<$fold>>(),
                rows: compiled::<Rows<$fold>>(),
                transpose: transpose(),
            })
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

/// A line: input, result, the loop along it.
struct Line<F>(PhantomData<F>);

impl<F: Fold> Task for Line<F> {
    type Args = (*const F::Element, *mut F::Element, usize, [isize; 2], bool);
    type Result = ();

    #[inline(always)]
    unsafe fn run((input, out, len, strides, exclusive): Self::Args) {
        let mut held = F::START;
        for i in 0..len as isize {
            // SAFETY: positions of the caller's line.
            unsafe {
                let after = F::fold(held, F::load(*input.offset(i * strides[0])));
                let here = if exclusive { held } else { after };
                *out.offset(i * strides[1]) = F::store(here);
                held = after;
            }
        }
    }
}

/// Turned lines, in place: what is held so far, the first row in order of the scan, from one to the next, how
/// many.
struct Rows<F>(PhantomData<F>);

impl<F: Fold> Task for Rows<F> {
    type Args = (*mut [F::Held; LINES], *mut [F::Element; LINES], isize, usize, bool);
    type Result = ();

    #[inline(always)]
    unsafe fn run((so_far, rows, step, len, exclusive): Self::Args) {
        // SAFETY: the caller's; in registers until the end.
        let mut held = unsafe { *so_far };
        for i in 0..len as isize {
            // SAFETY: one of the caller's rows.
            let row = unsafe { &mut *rows.offset(i * step) };
            for (k, element) in row.iter_mut().enumerate() {
                let after = F::fold(held[k], F::load(*element));
                *element = F::store(if exclusive { held[k] } else { after });
                held[k] = after;
            }
        }
        // SAFETY: the caller's, as it was read from.
        unsafe { *so_far = held };
    }
}

impl<F: Fold> Scan<F> {
    /// # Safety
    ///
    /// Input and result are valid along a line from here.
    unsafe fn one(&self, input: *const F::Element, out: *mut F::Element) {
        let strides = [0, 1].map(|k| self.along.strides[k]);
        // SAFETY: as this function's contract says.
        unsafe { (self.line)((input, out, self.along.extent, strides, self.exclusive)) };
    }

    /// # Safety
    ///
    /// Input and result are valid along [`LINES`] lines from here, each along memory and so far `apart`; `turned`
    /// has room for [`BLOCK`] rows.
    unsafe fn turned(
        &self,
        input: *const F::Element,
        out: *mut F::Element,
        apart: [isize; 2],
        turned: *mut [F::Element; LINES],
    ) {
        let (direction, side) = (self.along.strides[0], LINES as isize);
        let mut held = [F::START; LINES];
        for done in (0..self.along.extent).step_by(BLOCK) {
            let count = BLOCK.min(self.along.extent - done);
            let last = (done + count - 1) as isize;
            let (low, first) = if direction < 0 { (-last, count - 1) } else { (done as isize, 0) };
            // SAFETY: the block's positions of the lines, and as many rows.
            unsafe {
                (self.transpose)(Turn {
                    extents: [LINES, count],
                    from: input.offset(low),
                    from_stride: apart[0],
                    to: turned.cast(),
                    to_stride: side,
                });
                (self.rows)((&raw mut held, turned.add(first), direction, count, self.exclusive));
                (self.transpose)(Turn {
                    extents: [count, LINES],
                    from: turned.cast_const().cast(),
                    from_stride: side,
                    to: out.offset(low),
                    to_stride: apart[1],
                });
            }
        }
    }

    /// # Safety
    ///
    /// Input and result are valid along `len` neighbouring lines from here; `held` has room for as
    /// many.
    unsafe fn across(
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
        match self.lie {
            Lie::Across(_) => WIDTH * size_of::<F::Held>(),
            Lie::Along(_) => LINES * BLOCK * size_of::<F::Element>(),
            Lie::Apart => 0,
        }
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let input = memory.pointer(self.input).cast::<F::Element>().cast_const();
        let out = memory.pointer(self.out).cast::<F::Element>();
        self.lines.walk(self.start, &mut |[from, to]| {
            // SAFETY: offsets of the nest; scratch has the room that was asked for.
            unsafe {
                let (input, out) = (input.offset(from), out.offset(to));
                match &self.lie {
                    Lie::Across(across) => {
                        for done in (0..*across).step_by(WIDTH) {
                            let len = WIDTH.min(across - done);
                            self.across(input.add(done), out.add(done), scratch.cast(), len);
                        }
                    }
                    Lie::Along(lines) => {
                        let apart = [0, 1].map(|k| lines.strides[k]);
                        let line = |i: usize| {
                            let [from, to] = apart.map(|apart| i as isize * apart);
                            (input.offset(from), out.offset(to))
                        };
                        let whole = lines.extent / LINES * LINES;
                        for i in (0..whole).step_by(LINES) {
                            let (input, out) = line(i);
                            self.turned(input, out, apart, scratch.cast());
                        }
                        for i in whole..lines.extent {
                            let (input, out) = line(i);
                            self.one(input, out);
                        }
                    }
                    Lie::Apart => self.one(input, out),
                }
            }
        });
    }
}

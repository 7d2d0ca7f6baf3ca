//! `Pool`: folds over windows, in one pass over what they see.
//!
//! A result is folded in registers over its taps, the positions on the other side that windows tie to
//! it. Neighbouring results are the lanes of vectors: channels, or positions where those lie innermost.

mod along;
mod lanes;
mod tap;

use super::isa::{Entry, compiled};
use super::reduce::{Max, Sum};
use super::strided::{Labels, Nest};
use super::{Kernel, Memory};
use crate::names::DType;
use crate::program::forms::Pool;
use crate::program::{Block, Operand, PoolKind, ValueId};
use along::{Along, Run};
use lanes::{Lane, Lanes};
use tap::{All, Body, Counts, Element, OPERANDS, Ties};

pub(super) fn prepare(
    block: &Block,
    form: &Pool,
    inputs: &[Operand],
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let dtype = block.value(out).dtype;
    macro_rules! kernel {
        ($body:ident of $fold:ident) => {
            match dtype {
                DType::F32 => Windows::<$body<kernel!(@ $fold f32)>>::boxed(block, form, inputs, out),
                DType::F64 => Windows::<$body<kernel!(@ $fold f64)>>::boxed(block, form, inputs, out),
                DType::BF16 => Windows::<$body<kernel!(@ $fold u16)>>::boxed(block, form, inputs, out),
                DType::I32 => Windows::<$body<kernel!(@ $fold i32)>>::boxed(block, form, inputs, out),
                DType::Bool => return Err("there are no windows of bool".to_owned()),
            }
        };
        (@ same $element:ty) => { $element };
        (@ $fold:ident $element:ty) => { $fold<$element> };
    }
    if inputs.len() != form.kind.inputs() {
        return Err(format!("a fold over windows of {} inputs", inputs.len()));
    }
    Ok(match form.kind {
        PoolKind::Max => kernel!(All of Max),
        PoolKind::Sum => kernel!(All of Sum),
        PoolKind::Count => kernel!(Counts of same),
        PoolKind::Ties => kernel!(Ties of same),
    })
}

/// A fold over windows, made ready.
struct Windows<B: Body> {
    /// The values of the operands; the result stands for those that are missing.
    values: [ValueId; OPERANDS],
    /// Loops over what no window ties, but for lanes.
    outer: Nest,
    /// The result's positions along windows, outermost first, and its lanes.
    runs: Vec<Vec<Run>>,
    /// For each of them, from one tap to the next, of operands 2 and 3.
    strides: Vec<[isize; 2]>,
    /// A result's taps at most.
    taps: usize,
    entry: Entry<Lanes<B>>,
}

impl<B: Body> Windows<B> {
    fn boxed(block: &Block, form: &Pool, inputs: &[Operand], out: ValueId) -> Box<dyn Kernel> {
        let rank = block.value(out).extents.len();
        let is_own = |label: u8| usize::from(label) < rank;
        let tie = |label: &u8| form.windows.iter().any(|w| [w.input, w.output].contains(label));
        // What a result is compared with lies on its own side.
        let beside = |operand: &&Operand| operand.dims.iter().any(|l| tie(l) && is_own(*l));
        let (own, tapped): (Vec<&Operand>, Vec<&Operand>) = inputs.iter().partition(beside);
        let operands =
            [own.first(), tapped.first(), tapped.get(1)].map(Option::<&&Operand>::copied);
        let present: Vec<&Operand> = operands.into_iter().flatten().collect();
        let labels = Labels::new(block, &present, out);
        let along = |label: usize| {
            let mut strides = labels.strides[..present.len()].iter().map(|of| of[label]);
            let of = operands.map(|operand| operand.and_then(|_| strides.next()).unwrap_or(0));
            [labels.strides[present.len()][label], of[0], of[1], of[2]]
        };
        let of = operands.map(|operand| operand.map_or(out, |operand| operand.value));

        let plain = labels.select(|l| !tie(&(l as u8)));
        let extents: Vec<_> = plain.iter().map(|&l| labels.extents[l]).collect();
        let strides: [Vec<isize>; OPERANDS] =
            std::array::from_fn(|k| plain.iter().map(|&l| along(l)[k]).collect());
        let mut outer = Nest::new(&extents, &strides.each_ref().map(Vec::as_slice));
        outer.sort_by(0);
        let outer = outer.collapse();

        let mut windows: Vec<_> =
            form.windows.iter().map(|w| Along::new(w, is_own(w.output), &labels, along)).collect();
        windows.sort_by_key(|window| std::cmp::Reverse(window.strides[0]));
        // The result's nearest neighbours are lanes.
        let inner = outer.loops.last().map(|inner| inner.strides[0]);
        let nearest = windows.last().map(|window| window.strides[0]);
        let slides = inner.is_none_or(|inner| nearest.is_some_and(|nearest| nearest < inner));
        let (outer, lanes) = match windows.pop_if(|_| slides) {
            Some(window) => (outer, (window.runs(), window.taps())),
            None => {
                let (outer, inner) = outer.split_inner();
                (outer, (vec![Run::plain(&inner)], [0, 0]))
            }
        };
        let positions = windows.iter().map(|window| (window.positions(), window.taps()));
        let (runs, strides): (Vec<_>, Vec<_>) = positions.chain([lanes]).unzip();
        let most = |runs: &Vec<Run>| runs.iter().map(|run| run.taps).max().unwrap_or(0).max(1);
        let taps = runs.iter().map(most).product();
        let (values, entry) = ([out, of[0], of[1], of[2]], compiled::<Lanes<B>>());
        Box::new(Self { values, outer, runs, strides, taps, entry })
    }
}

impl<B: Body> Kernel for Windows<B> {
    fn scratch_bytes(&self) -> usize {
        (self.runs.len() + 2 * self.taps) * size_of::<usize>()
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let counts = scratch.cast::<usize>();
        // SAFETY: scratch has room for the counts and the taps, which are written before they are read.
        let mut walk = unsafe {
            let taps = counts.add(self.runs.len()).cast::<isize>();
            std::slice::from_raw_parts_mut(counts, self.runs.len()).fill(usize::MAX);
            let taps = [taps, taps.add(self.taps)];
            let pointers = self.values.map(|value| memory.pointer(value).cast::<Element<B>>());
            Walk { windows: self, pointers, counts, taps, len: 0, is_stale: true }
        };
        self.outer.walk([0; OPERANDS], &mut |at| {
            // SAFETY: the nest's offsets are elements of the values.
            unsafe { walk.fold(0, at) };
        });
    }
}

/// A walk over all results.
struct Walk<'a, B: Body> {
    windows: &'a Windows<B>,
    pointers: [*mut Element<B>; OPERANDS],
    /// The taps along each window, as last met.
    counts: *mut usize,
    /// Where the taps lie from the first on, in operands 2 and 3.
    taps: [*mut isize; 2],
    /// How many there are.
    len: usize,
    /// Whether counts have changed since taps were laid.
    is_stale: bool,
}

impl<B: Body> Walk<'_, B> {
    /// Folds the results along windows from `depth` on.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`]; `at` are elements of the operands.
    unsafe fn fold(&mut self, depth: usize, at: [isize; OPERANDS]) {
        let windows = self.windows;
        let is_last = depth + 1 == windows.runs.len();
        for run in &windows.runs[depth] {
            let at = std::array::from_fn(|k| at[k] + run.at[k]);
            // SAFETY: there is a count for each depth; the run's results and their taps are elements.
            unsafe {
                let count = &mut *self.counts.add(depth);
                self.is_stale |= *count != run.taps;
                *count = run.taps;
                if !is_last {
                    self.fold(depth + 1, at);
                    continue;
                }
                if self.is_stale {
                    self.lay();
                }
                let seen = |k: usize| self.pointers[k].cast_const().wrapping_offset(at[k]);
                (windows.entry)(Lane {
                    out: self.pointers[0].offset(at[0]),
                    seen: [seen(1), seen(2), seen(3)],
                    strides: run.strides,
                    count: run.lanes,
                    taps: self.taps.map(<*mut isize>::cast_const),
                    len: self.len,
                });
            }
        }
    }

    /// Lays the taps, those along lanes nearest to each other.
    ///
    /// # Safety
    ///
    /// Counts are at most those that `taps` have room for.
    unsafe fn lay(&mut self) {
        self.len = 1;
        // SAFETY: as promised.
        unsafe {
            self.taps.iter().for_each(|&taps| *taps = 0);
            for (depth, strides) in self.windows.strides.iter().enumerate().rev() {
                let count = *self.counts.add(depth);
                for (taps, stride) in self.taps.iter().zip(strides) {
                    for i in self.len..self.len * count {
                        *taps.add(i) = *taps.add(i - self.len) + stride;
                    }
                }
                self.len *= count;
            }
        }
        self.is_stale = false;
    }
}

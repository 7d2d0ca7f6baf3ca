//! `Reduce`: folds along memory where memory runs along what is folded, and row onto row elsewhere.

mod fold;
mod run;

use super::isa::{Task, compiled};
use super::strided::{Labels, Loop, Nest};
use super::{Kernel, Memory};
use crate::names::{DType, ReduceKind};
use crate::program::{Block, Operand, ValueId};
use std::marker::PhantomData;

pub(in crate::exec) use fold::{All, Any, Fold, Max, Min, Prod, Select, Sum};
pub(super) use run::{Run, fold_all, fold_run};

/// A fold over some dims of an operand, wherever it lies.
pub(super) trait Reducer: Send {
    /// Bytes of scratch.
    fn scratch_bytes(&self) -> usize;

    /// # Safety
    ///
    /// Both sides are valid at all offsets of the nests and do not overlap; scratch as for
    /// [`Kernel::run`].
    unsafe fn apply(&self, input: *const u8, out: *mut u8, scratch: *mut u8);
}

struct Reduce {
    input: ValueId,
    out: ValueId,
    reducer: Box<dyn Reducer>,
}

pub(super) fn prepare(
    block: &Block,
    kind: ReduceKind,
    input: &Operand,
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let dtype = block.value(out).dtype;
    if dtype != block.value(input.value).dtype {
        return Err("a reduction keeps its dtype".to_owned());
    }
    let rank = block.value(out).extents.len();
    let labels = Labels::new(block, &[input], out);
    let kept = labels.nest(&labels.select(|l| l < rank), &[0, 1]);
    let folded = labels.nest(&labels.select(|l| l >= rank), &[0]);
    let reducer = plan(kind, dtype, kept, folded)?;
    Ok(Box::new(Reduce { input: input.value, out, reducer }))
}

impl Kernel for Reduce {
    fn scratch_bytes(&self) -> usize {
        self.reducer.scratch_bytes()
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let (input, out) = (memory.pointer(self.input), memory.pointer(self.out));
        // SAFETY: the kernel's contract makes input, out and scratch valid for the values that the
        // reducer was planned for.
        unsafe { self.reducer.apply(input, out, scratch) };
    }
}

/// Plans a fold; strides of `kept` are those of (input, out), of `folded` those of the input.
pub(super) fn plan(
    kind: ReduceKind,
    dtype: DType,
    kept: Nest,
    folded: Nest,
) -> Result<Box<dyn Reducer>, String> {
    macro_rules! number {
        ($name:ident) => {
            match dtype {
                DType::F32 => Plan::<$name<f32>>::boxed(kept, folded),
                DType::F64 => Plan::<$name<f64>>::boxed(kept, folded),
                DType::BF16 => Plan::<$name<u16>>::boxed(kept, folded),
                DType::I32 => Plan::<$name<i32>>::boxed(kept, folded),
                DType::Bool => return Err(format!("there is no {kind} of bool")),
            }
        };
    }
    Ok(match kind {
        ReduceKind::Sum => number!(Sum),
        ReduceKind::Prod => number!(Prod),
        ReduceKind::Max => number!(Max),
        ReduceKind::Min => number!(Min),
        ReduceKind::All | ReduceKind::Any if dtype != DType::Bool => {
            return Err(format!("there is no {kind} of {dtype}"));
        }
        ReduceKind::All => Plan::<All<u8>>::boxed(kept, folded),
        ReduceKind::Any => Plan::<Any<u8>>::boxed(kept, folded),
        ReduceKind::Select => return Err("elements of one value are not selections".to_owned()),
    })
}

/// Results that are folded row onto row at once.
const WIDTH: usize = 2048;

/// Folds a run.
struct Along<F>(PhantomData<F>);

impl<F: Fold> Task for Along<F> {
    type Args = (*const F::Element, usize);
    type Result = F::Held;

    #[inline(always)]
    unsafe fn run((run, len): Self::Args) -> F::Held {
        // SAFETY: the caller's run.
        fold_run::<F>(unsafe { std::slice::from_raw_parts(run, len) })
    }
}

/// Runs of `len`, each of which is folded to one result.
struct Runs<'p, F: Fold> {
    first: *const F::Element,
    len: usize,
    /// From one run, and its result, to the next.
    runs: &'p Loop,
    out: *mut F::Element,
}

/// Folds runs.
struct Each<'p, F>(PhantomData<&'p F>);

impl<'p, F: Fold> Task for Each<'p, F> {
    type Args = Runs<'p, F>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(args: Runs<'p, F>) {
        for i in 0..args.runs.extent as isize {
            // SAFETY: the caller's runs and results.
            unsafe {
                let run = args.first.offset(i * args.runs.strides[0]);
                let folded = fold_run::<F>(std::slice::from_raw_parts(run, args.len));
                *args.out.offset(i * args.runs.strides[1]) = F::store(folded);
            }
        }
    }
}

/// Rows to be folded onto each other.
struct Rows<F: Fold> {
    held: *mut F::Held,
    rows: *const F::Element,
    len: usize,
    count: usize,
    stride: isize,
}

struct Across<F>(PhantomData<F>);

impl<F: Fold> Task for Across<F> {
    type Args = Rows<F>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(args: Rows<F>) {
        let Rows { held, rows, len, count, stride } = args;
        // SAFETY: the caller's rows.
        let held = unsafe { std::slice::from_raw_parts_mut(held, len) };
        let row = |i: usize| {
            // SAFETY: `i < count`.
            unsafe { std::slice::from_raw_parts(rows.offset(i as isize * stride), len) }
        };
        let mut i = 0;
        while i + 4 <= count {
            let rows = [row(i), row(i + 1), row(i + 2), row(i + 3)];
            for (j, held) in held.iter_mut().enumerate() {
                let step = |held, k: usize| F::fold(held, F::load(rows[k][j]));
                *held = step(step(step(step(*held, 0), 1), 2), 3);
            }
            i += 4;
        }
        while i < count {
            for (held, &x) in held.iter_mut().zip(row(i)) {
                *held = F::fold(*held, F::load(x));
            }
            i += 1;
        }
    }
}

struct Plan<F: Fold> {
    /// Loops over results, but for `inner`.
    kept: Nest,
    inner: Loop,
    /// Whether neighbouring results are of neighbouring elements: rows are folded onto each other.
    by_rows: bool,
    /// Loops over what is folded, but for `run`.
    folded: Nest,
    run: Loop,
    fold: PhantomData<F>,
}

impl<F: Fold> Plan<F> {
    fn boxed(mut kept: Nest, mut folded: Nest) -> Box<dyn Reducer> {
        folded.sort_by(0);
        let folded = folded.collapse();
        kept.sort_by(0);
        let kept = kept.collapse();
        let (folded, run) = folded.split_inner();
        let by_rows = kept.loops.last().is_some_and(|l| l.strides[0] == 1);
        let (kept, inner) = kept.split_inner();
        Box::new(Self { kept, inner, by_rows, folded, run, fold: PhantomData })
    }

    /// # Safety
    ///
    /// As [`Reducer::apply`].
    unsafe fn fold_one(&self, input: *const F::Element) -> F::Held {
        let along = compiled::<Along<F>>();
        let mut held = F::START;
        let stride = self.run.strides[0];
        self.folded.walk([0], &mut |[at]| {
            // SAFETY: an offset of the nest.
            unsafe {
                let run = input.offset(at);
                if stride == 1 {
                    held = F::fold(held, along((run, self.run.extent)));
                } else {
                    for i in 0..self.run.extent as isize {
                        held = F::fold(held, F::load(*run.offset(i * stride)));
                    }
                }
            }
        });
        held
    }

    /// Folds `len` neighbouring results into `held`.
    ///
    /// # Safety
    ///
    /// As [`Reducer::apply`].
    unsafe fn fold_rows(&self, input: *const F::Element, held: *mut F::Held, len: usize) {
        let (rows, stride) = (self.run.extent, self.run.strides[0]);
        // Short rows that follow each other are taken several at a time.
        let wide = if stride == len as isize { (WIDTH / 4 / len).clamp(1, rows) } else { 1 };
        let width = len * wide;
        // SAFETY: `held` has room for WIDTH results, the rest are offsets of the nests.
        unsafe {
            let all = std::slice::from_raw_parts_mut(held, width);
            all.fill(F::START);
            let task = compiled::<Across<F>>();
            let across = |rows, len, count, stride| {
                task(Rows { held, rows, len, count, stride });
            };
            self.folded.walk([0], &mut |[at]| {
                let first = input.offset(at);
                across(first, width, rows / wide, stride * wide as isize);
                let done = rows / wide * wide;
                if done < rows {
                    let rest = first.offset(done as isize * stride);
                    across(rest, len * (rows - done), 1, 0);
                }
            });
            for k in 1..wide {
                for j in 0..len {
                    all[j] = F::fold(all[j], all[k * len + j]);
                }
            }
        }
    }

    /// Folds rows onto each other, some results at a time.
    ///
    /// # Safety
    ///
    /// As [`Reducer::apply`].
    unsafe fn fold_across(
        &self,
        first: *const F::Element,
        held: *mut F::Held,
        out: *mut F::Element,
    ) {
        for done in (0..self.inner.extent).step_by(WIDTH) {
            let len = WIDTH.min(self.inner.extent - done);
            // SAFETY: offsets of the nests; `held` has room for WIDTH results.
            unsafe {
                self.fold_rows(first.add(done), held, len);
                for j in 0..len {
                    let to = (done + j) as isize * self.inner.strides[1];
                    *out.offset(to) = F::store(*held.add(j));
                }
            }
        }
    }
}

impl<F: Fold> Reducer for Plan<F> {
    fn scratch_bytes(&self) -> usize {
        if self.by_rows { WIDTH * size_of::<F::Held>() } else { 0 }
    }

    unsafe fn apply(&self, input: *const u8, out: *mut u8, scratch: *mut u8) {
        let (input, out) = (input.cast::<F::Element>(), out.cast::<F::Element>());
        let held = scratch.cast::<F::Held>();
        let is_run = self.folded.loops.is_empty() && self.run.strides[0] == 1;
        let each = compiled::<Each<'_, F>>();
        self.kept.walk([0, 0], &mut |[from, to]| {
            // SAFETY: offsets of the nests; scratch has room for WIDTH results.
            unsafe {
                let (first, out) = (input.offset(from), out.offset(to));
                if self.by_rows {
                    self.fold_across(first, held, out);
                } else if is_run {
                    each(Runs { first, len: self.run.extent, runs: &self.inner, out });
                } else {
                    for i in 0..self.inner.extent as isize {
                        let folded = self.fold_one(first.offset(i * self.inner.strides[0]));
                        *out.offset(i * self.inner.strides[1]) = F::store(folded);
                    }
                }
            }
        });
    }
}

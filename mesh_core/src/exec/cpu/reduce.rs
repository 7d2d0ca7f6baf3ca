//! `Reduce`: folds along memory where memory runs along what is folded, and row onto row elsewhere.

use super::isa::{Entry, Task, compiled};
use super::strided::{Labels, Loop, Nest};
use super::{Kernel, Memory, vmath};
use crate::names::{DType, ReduceKind};
use crate::program::{Block, Operand, ValueId};
use std::marker::PhantomData;

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

/// How elements are folded.
pub(in crate::exec) trait Fold: Send + 'static {
    /// As in memory.
    type Element: Copy + Send;
    /// While folding.
    type Held: Copy + Send;
    const START: Self::Held;
    fn load(element: Self::Element) -> Self::Held;
    fn fold(a: Self::Held, b: Self::Held) -> Self::Held;
    fn store(held: Self::Held) -> Self::Element;
}

macro_rules! folds {
    ($($name:ident { $($element:ty, $held:ty, $start:expr,
        $load:expr, $store:expr, |$a:ident, $b:ident| $fold:expr;)* })*) => {$(
        pub(in crate::exec) struct $name<T>(PhantomData<T>);
        $(impl Fold for $name<$element> {
            type Element = $element;
            type Held = $held;
            const START: $held = $start;
            #[inline(always)]
            fn load(element: $element) -> $held { $load(element) }
            #[inline(always)]
            fn fold($a: $held, $b: $held) -> $held { $fold }
            #[inline(always)]
            fn store(held: $held) -> $element { $store(held) }
        })*
    )*};
}

#[inline(always)]
fn same<T>(x: T) -> T {
    x
}

// bf16 lies in memory as u16 and is held as f32; bool is u8.
folds! {
    Sum {
        f32, f32, 0.0, same, same, |a, b| a + b;
        f64, f64, 0.0, same, same, |a, b| a + b;
        u16, f32, 0.0, vmath::widen, vmath::narrow, |a, b| a + b;
        i32, i32, 0, same, same, |a, b| a.wrapping_add(b);
    }
    Prod {
        f32, f32, 1.0, same, same, |a, b| a * b;
        f64, f64, 1.0, same, same, |a, b| a * b;
        u16, f32, 1.0, vmath::widen, vmath::narrow, |a, b| a * b;
        i32, i32, 1, same, same, |a, b| a.wrapping_mul(b);
    }
    Max {
        f32, f32, f32::NEG_INFINITY, same, same, |a, b| vmath::max_f32(a, b);
        f64, f64, f64::NEG_INFINITY, same, same, |a, b| vmath::max_f64(a, b);
        u16, f32, f32::NEG_INFINITY, vmath::widen, vmath::narrow, |a, b| vmath::max_f32(a, b);
        i32, i32, i32::MIN, same, same, |a, b| a.max(b);
    }
    Min {
        f32, f32, f32::INFINITY, same, same, |a, b| vmath::min_f32(a, b);
        f64, f64, f64::INFINITY, same, same, |a, b| vmath::min_f64(a, b);
        u16, f32, f32::INFINITY, vmath::widen, vmath::narrow, |a, b| vmath::min_f32(a, b);
        i32, i32, i32::MAX, same, same, |a, b| a.min(b);
    }
    All {
        u8, u8, 1, same, same, |a, b| a & b;
    }
    Any {
        u8, u8, 0, same, same, |a, b| a | b;
    }
    Select {
        f32, u32, 0, f32::to_bits, f32::from_bits, |a, b| a | b;
        f64, u64, 0, f64::to_bits, f64::from_bits, |a, b| a | b;
        u16, u16, 0, same, same, |a, b| a | b;
        i32, i32, 0, same, same, |a, b| a | b;
        u8, u8, 0, same, same, |a, b| a | b;
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

/// Elements after which the lanes are folded together: keeps sums of many terms accurate.
const BLOCK: usize = 4096;
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
        let run = unsafe { std::slice::from_raw_parts(run, len) };
        let mut total = F::START;
        for block in run.chunks(BLOCK) {
            let long = block.len() / 128 * 128;
            let short = block.len() / 16 * 16;
            let mut held = F::START;
            if long > 0 {
                held = lanes::<F, 128>(&block[..long]);
            }
            if short > long {
                held = F::fold(held, lanes::<F, 16>(&block[long..short]));
            }
            for &x in &block[short..] {
                held = F::fold(held, F::load(x));
            }
            total = F::fold(total, held);
        }
        total
    }
}

/// Folds whole rows of lanes.
#[inline(always)]
fn lanes<F: Fold, const LANES: usize>(rows: &[F::Element]) -> F::Held {
    let mut held = [F::START; LANES];
    for row in rows.chunks_exact(LANES) {
        for (held, &x) in held.iter_mut().zip(row) {
            *held = F::fold(*held, F::load(x));
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            held[i] = F::fold(held[i], held[i + width]);
        }
    }
    held[0]
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
    /// Loops over results, but for `inner` if rows are folded onto each other.
    kept: Nest,
    inner: Option<Loop>,
    /// Loops over what is folded, but for `run`.
    folded: Nest,
    run: Loop,
    along: Entry<Along<F>>,
    across: Entry<Across<F>>,
}

impl<F: Fold> Plan<F> {
    fn boxed(mut kept: Nest, mut folded: Nest) -> Box<dyn Reducer> {
        folded.sort_by(0);
        let folded = folded.collapse();
        kept.sort_by(0);
        let kept = kept.collapse();
        let (folded, run) = folded.split_inner();
        let is_row = kept.loops.last().is_some_and(|l| l.strides[0] == 1);
        let (kept, inner) = if is_row {
            let (kept, inner) = kept.split_inner();
            (kept, Some(inner))
        } else {
            (kept, None)
        };
        let (along, across) = (compiled::<Along<F>>(), compiled::<Across<F>>());
        Box::new(Self { kept, inner, folded, run, along, across })
    }

    /// # Safety
    ///
    /// As [`Reducer::apply`].
    unsafe fn fold_one(&self, input: *const F::Element) -> F::Held {
        let mut held = F::START;
        let stride = self.run.strides[0];
        self.folded.walk([0], &mut |[at]| {
            // SAFETY: an offset of the nest.
            unsafe {
                let run = input.offset(at);
                if stride == 1 {
                    held = F::fold(held, (self.along)((run, self.run.extent)));
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
            let across = |rows, len, count, stride| {
                (self.across)(Rows { held, rows, len, count, stride });
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
}

impl<F: Fold> Reducer for Plan<F> {
    fn scratch_bytes(&self) -> usize {
        if self.inner.is_some() { WIDTH * size_of::<F::Held>() } else { 0 }
    }

    unsafe fn apply(&self, input: *const u8, out: *mut u8, scratch: *mut u8) {
        let (input, out) = (input.cast::<F::Element>(), out.cast::<F::Element>());
        let held = scratch.cast::<F::Held>();
        self.kept.walk([0, 0], &mut |[from, to]| {
            // SAFETY: offsets of the nests; scratch has room for WIDTH results.
            unsafe {
                let Some(inner) = &self.inner else {
                    *out.offset(to) = F::store(self.fold_one(input.offset(from)));
                    return;
                };
                for done in (0..inner.extent).step_by(WIDTH) {
                    let len = WIDTH.min(inner.extent - done);
                    self.fold_rows(input.offset(from + done as isize), held, len);
                    for j in 0..len {
                        let to = to + (done + j) as isize * inner.strides[1];
                        *out.offset(to) = F::store(*held.add(j));
                    }
                }
            }
        });
    }
}

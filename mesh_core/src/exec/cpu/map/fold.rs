//! Tiles folded onto an out.

use crate::exec::cpu::Memory;
use crate::exec::cpu::isa::{Entry, Task, compiled};
use crate::exec::cpu::moves::{bits, fill};
use crate::exec::cpu::reduce::{self, All, Any, Max, Min, Prod, Sum, fold_run};
use crate::exec::cpu::strided::Loop;
use crate::names::{DType, ReduceKind};
use crate::program::{Scalar, Value, ValueId};
use std::marker::PhantomData;
use std::ops::Range;

/// How tiles are folded onto an out.
pub(super) struct Fold {
    out: ValueId,
    len: usize,
    size: usize,
    /// What a fold of nothing is.
    start: u64,
    pub(super) tile: Box<dyn Onto>,
}

/// Folds packed tiles onto what they are folded to.
pub(super) trait Onto: Send {
    /// Folds a tile over loops with strides (tile, out), the first of them cut to `first` turns; innermost,
    /// the tile is one run.
    ///
    /// # Safety
    ///
    /// Both sides are valid at every offset of the loops, and do not overlap.
    unsafe fn onto(&self, loops: &[Loop], first: usize, from: *const u8, to: *mut u8);
}

impl Fold {
    pub(super) fn new(kind: ReduceKind, out: ValueId, value: &Value) -> Result<Self, String> {
        let (dtype, len) = (value.dtype, value.len());
        let start = bits(Scalar::new(dtype, kind.start(dtype)));
        Ok(Self { out, len, size: dtype.size(), start, tile: tile(kind, dtype)? })
    }

    /// Makes the out what a fold of nothing is.
    ///
    /// # Safety
    ///
    /// The out is valid in `memory`.
    pub(super) unsafe fn start(&self, memory: &Memory) {
        // SAFETY: the value's bytes.
        unsafe { fill(memory.pointer(self.out), self.len, self.size, self.start) };
    }
}

fn tile(kind: ReduceKind, dtype: DType) -> Result<Box<dyn Onto>, String> {
    macro_rules! number {
        ($name:ident) => {
            match dtype {
                DType::F32 => Rows::<$name<f32>>::boxed(),
                DType::F64 => Rows::<$name<f64>>::boxed(),
                DType::I32 => Rows::<$name<i32>>::boxed(),
                DType::BF16 | DType::Bool => {
                    return Err(format!("there is no {kind} of expressions of {dtype}"));
                }
            }
        };
    }
    Ok(match (kind, dtype) {
        (ReduceKind::Sum, _) => number!(Sum),
        (ReduceKind::Prod, _) => number!(Prod),
        (ReduceKind::Max, _) => number!(Max),
        (ReduceKind::Min, _) => number!(Min),
        (ReduceKind::All, DType::Bool) => Rows::<All<u8>>::boxed(),
        (ReduceKind::Any, DType::Bool) => Rows::<Any<u8>>::boxed(),
        _ => return Err(format!("there is no {kind} of expressions of {dtype}")),
    })
}

/// A fold whose elements are held as they lie in memory.
trait Plain: reduce::Fold<Held = <Self as reduce::Fold>::Element> {}

impl<F: reduce::Fold<Held = <F as reduce::Fold>::Element>> Plain for F {}

/// Rows of a tile, and what they are folded to.
struct Both<E> {
    from: *const E,
    to: *mut E,
    rows: usize,
    len: usize,
    /// From one row, and what it is folded to, to the next.
    steps: [isize; 2],
    /// From what one element of a row is folded to, to the next: 0 where a row is folded to one.
    along: isize,
}

struct Rows<F: Plain> {
    task: Entry<FoldRows<F>>,
}

struct FoldRows<F>(PhantomData<F>);

impl<F: Plain> Task for FoldRows<F> {
    type Args = Both<F::Element>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(args: Self::Args) {
        let Both { from, to, rows, len, steps: [step, to_step], along } = args;
        if along == 1 && to_step == 0 {
            let (wide, short) = (len / 64 * 64, len / 16 * 16);
            // SAFETY: the caller's rows, all of which are folded to the same elements.
            unsafe {
                columns::<F, 64>(from, to, 0..wide, (rows, step));
                columns::<F, 16>(from, to, wide..short, (rows, step));
                columns::<F, 1>(from, to, short..len, (rows, step));
            }
            return;
        }
        for row in 0..rows as isize {
            // SAFETY: the caller's rows.
            unsafe {
                let run = std::slice::from_raw_parts(from.offset(row * step), len);
                let to = to.offset(row * to_step);
                if along == 0 {
                    *to = F::fold(*to, fold_run::<F>(run));
                    continue;
                }
                for (j, &x) in run.iter().enumerate() {
                    let to = to.offset(j as isize * along);
                    *to = F::fold(*to, F::load(x));
                }
            }
        }
    }
}

/// Folds rows, so many and so far from each other, onto each other, some columns after the others: these are kept in
/// registers.
///
/// # Safety
///
/// Rows and what they are folded to have these columns, whose count `LANES` divides.
#[inline(always)]
unsafe fn columns<F: Plain, const LANES: usize>(
    from: *const F::Element,
    to: *mut F::Element,
    columns: Range<usize>,
    (rows, step): (usize, isize),
) {
    for first in columns.step_by(LANES) {
        // SAFETY: `LANES` columns from the first on are there.
        unsafe {
            let to = to.add(first).cast::<[F::Element; LANES]>();
            let mut held = *to;
            for i in 0..rows as isize {
                let row = *from.offset(i * step).add(first).cast::<[F::Element; LANES]>();
                for lane in 0..LANES {
                    held[lane] = F::fold(held[lane], F::load(row[lane]));
                }
            }
            *to = held;
        }
    }
}

impl<F: Plain> Rows<F> {
    fn boxed() -> Box<dyn Onto> {
        Box::new(Self { task: compiled::<FoldRows<F>>() })
    }

    /// # Safety
    ///
    /// As [`Onto::onto`].
    unsafe fn fold(
        &self,
        loops: &[Loop],
        first: usize,
        from: *const F::Element,
        to: *mut F::Element,
    ) {
        let strides = |l: &Loop| [l.strides[0], l.strides[1]];
        let both = match loops {
            [] => Both { from, to, rows: 1, len: 1, steps: [0, 0], along: 0 },
            [run] => Both { from, to, rows: 1, len: first, steps: [0, 0], along: run.strides[1] },
            [rows, run] => {
                let (len, along) = (run.extent, run.strides[1]);
                Both { from, to, rows: first, len, steps: strides(rows), along }
            }
            [outer, rest @ ..] => {
                let [step, to_step] = strides(outer);
                for i in 0..first as isize {
                    // SAFETY: offsets of the loops.
                    unsafe {
                        let (from, to) = (from.offset(i * step), to.offset(i * to_step));
                        self.fold(rest, rest[0].extent, from, to);
                    }
                }
                return;
            }
        };
        // SAFETY: offsets of the loops; a packed tile's innermost stride is 1.
        unsafe { (self.task)(both) };
    }
}

impl<F: Plain> Onto for Rows<F> {
    unsafe fn onto(&self, loops: &[Loop], first: usize, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's loops and sides, whose elements are `F`'s.
        unsafe { self.fold(loops, first, from.cast(), to.cast()) };
    }
}

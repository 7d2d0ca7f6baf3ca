//! Tiles folded onto an out.

use super::tile::ARGS;
use crate::exec::cpu::Memory;
use crate::exec::cpu::isa::{Task, compiled};
use crate::exec::cpu::moves::{bits, fill};
use crate::exec::cpu::reduce::{self, All, Any, Max, Min, Prod, Sum, fold_all, fold_run};
use crate::exec::cpu::strided::Loop;
use crate::names::{DType, ReduceKind};
use crate::program::{Scalar, Value, ValueId};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

/// How tiles are folded onto an out.
pub(super) struct Fold {
    out: ValueId,
    len: usize,
    size: usize,
    /// What a fold of nothing is.
    start: u64,
    /// Whether its terms may be made as they are added up.
    is_sum: bool,
    /// How the rows of a tile lie to what they are folded to, if they all do so.
    pub(super) rows: Option<RowsTo>,
    pub(super) tile: Box<dyn Onto>,
}

/// How the rows of a tile lie to what they are folded to; elements.
#[derive(Clone, Copy)]
pub(super) struct RowsTo {
    /// Whether each turn is a row; else all of them are one.
    pub(super) by_turn: bool,
    /// From what one row is folded to, to the next.
    pub(super) step: isize,
    /// From what one element of a row is folded to, to the next.
    pub(super) along: isize,
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
        let is_sum = (kind, dtype) == (ReduceKind::Sum, DType::F32);
        let tile = tile(kind, dtype)?;
        Ok(Self { out, len, size: dtype.size(), start, is_sum, rows: None, tile })
    }

    /// Knows how rows lie, if they do in one way; says whether terms may be made as they are added up.
    pub(super) fn by_rows(&mut self, rows: Option<RowsTo>) -> bool {
        self.rows = rows;
        self.is_sum && self.rows.is_some()
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
pub(super) trait Plain: reduce::Fold<Held = <Self as reduce::Fold>::Element> {}

impl<F: reduce::Fold<Held = <F as reduce::Fold>::Element>> Plain for F {}

/// Rows of a tile, and what they are folded to.
pub(super) struct Both {
    /// Where the operands of the first row lie: of what is folded, or of what is made to be folded.
    pub(super) from: [*const u8; OPERANDS],
    pub(super) to: *mut u8,
    pub(super) rows: usize,
    pub(super) len: usize,
    /// Bytes from the operands of one row to the next, and elements from what one is folded to.
    pub(super) steps: [isize; OPERANDS],
    pub(super) to_step: isize,
    /// From what one element of a row is folded to, to the next: 0 where a row is folded to one.
    pub(super) along: isize,
}

/// Operands that what is folded may be made of.
pub(super) const OPERANDS: usize = ARGS;

/// Folds rows to what they are folded to, by how they lie.
#[derive(Clone, Copy)]
pub(super) struct FoldRun {
    along: unsafe fn(*const Both),
    across: unsafe fn(*const Both),
    apart: unsafe fn(*const Both),
}

impl FoldRun {
    /// Of rows that come from such a source. A function for each case: of one for all, compilers keep lanes in memory.
    pub(super) fn of<F: Plain, S: Source<F::Element>>() -> Self {
        Self {
            along: compiled::<Along<F, S>>(),
            across: compiled::<Across<F, S>>(),
            apart: compiled::<Apart<F, S>>(),
        }
    }

    /// # Safety
    ///
    /// The operands' rows and what they are folded to are valid, and do not overlap.
    pub(super) unsafe fn run(self, both: &Both) {
        let task = match (both.along, both.to_step) {
            (0, _) => self.along,
            (1, 0) => self.across,
            _ => self.apart,
        };
        // SAFETY: as this function's contract says.
        unsafe { task(both) };
    }
}

/// Where the elements of a row come from.
pub(super) trait Source<E>: reduce::Run<E> + 'static {
    /// Of a row whose operands lie here.
    fn row(from: [*const u8; OPERANDS]) -> Self;

    /// Folds a row.
    ///
    /// # Safety
    ///
    /// It has so many elements.
    #[inline(always)]
    unsafe fn fold<F: reduce::Fold<Element = E>>(self, len: usize) -> F::Held {
        // SAFETY: as this function's contract says.
        unsafe { fold_all::<F>(self, len) }
    }
}

/// Elements that lie there.
#[derive(Clone, Copy)]
struct There<E>(*const E);

impl<E: Copy> reduce::Run<E> for There<E> {
    #[inline(always)]
    unsafe fn lanes<const LANES: usize>(self, first: usize) -> [E; LANES] {
        // SAFETY: the run has them.
        unsafe { *self.0.add(first).cast() }
    }
}

impl<E: Copy + 'static> Source<E> for There<E> {
    #[inline(always)]
    fn row(from: [*const u8; OPERANDS]) -> Self {
        Self(from[0].cast())
    }

    #[inline(always)]
    unsafe fn fold<F: reduce::Fold<Element = E>>(self, len: usize) -> F::Held {
        // SAFETY: the row has so many elements.
        fold_run::<F>(unsafe { std::slice::from_raw_parts(self.0, len) })
    }
}

/// Folds each row to one element.
struct Along<F, S>(PhantomData<(F, S)>);

impl<F: Plain, S: Source<F::Element>> Task for Along<F, S> {
    type Args = *const Both;
    type Result = ();

    #[inline(always)]
    unsafe fn run(both: *const Both) {
        // SAFETY: the caller's. A copy: what is written might be that.
        let both = unsafe { both.read() };
        for i in 0..both.rows as isize {
            // SAFETY: the caller's rows.
            unsafe {
                let to = both.to.cast::<F::Element>().offset(i * both.to_step);
                *to = F::fold(*to, S::row(both.at(i)).fold::<F>(both.len));
            }
        }
    }
}

/// Folds rows onto the same neighbouring elements.
struct Across<F, S>(PhantomData<(F, S)>);

impl<F: Plain, S: Source<F::Element>> Task for Across<F, S> {
    type Args = *const Both;
    type Result = ();

    #[inline(always)]
    unsafe fn run(both: *const Both) {
        // SAFETY: the caller's. A copy: what is written might be that.
        let both = unsafe { both.read() };
        let (wide, short) = (both.len / 64 * 64, both.len / 16 * 16);
        // SAFETY: the caller's rows, all of which are folded to the same elements.
        unsafe {
            columns::<F, S, 64>(&both, 0..wide);
            columns::<F, S, 16>(&both, wide..short);
            columns::<F, S, 1>(&both, short..both.len);
        }
    }
}

/// Folds rows element by element.
struct Apart<F, S>(PhantomData<(F, S)>);

impl<F: Plain, S: Source<F::Element>> Task for Apart<F, S> {
    type Args = *const Both;
    type Result = ();

    #[inline(always)]
    unsafe fn run(both: *const Both) {
        // SAFETY: the caller's. A copy: what is written might be that.
        let both = unsafe { both.read() };
        for i in 0..both.rows as isize {
            for j in 0..both.len as isize {
                // SAFETY: the caller's rows.
                unsafe {
                    let to = both.to.cast::<F::Element>();
                    let to = to.offset(i * both.to_step + j * both.along);
                    let [element] = S::row(both.at(i)).lanes::<1>(j as usize);
                    *to = F::fold(*to, F::load(element));
                }
            }
        }
    }
}

impl Both {
    /// Where the operands of a row lie.
    #[inline(always)]
    fn at(&self, row: isize) -> [*const u8; OPERANDS] {
        // No closure: that would be compiled once for all instruction sets.
        let (from, steps) = (&self.from, &self.steps);
        [
            from[0].wrapping_offset(row * steps[0]),
            from[1].wrapping_offset(row * steps[1]),
            from[2].wrapping_offset(row * steps[2]),
            from[3].wrapping_offset(row * steps[3]),
        ]
    }
}

/// Folds rows onto each other, some columns after the others: these are kept in registers.
///
/// # Safety
///
/// Rows and what they are folded to have these columns, whose count `LANES` divides.
#[inline(always)]
unsafe fn columns<F: Plain, S: Source<F::Element>, const LANES: usize>(
    both: &Both,
    columns: Range<usize>,
) {
    let to = both.to.cast::<F::Element>();
    for first in columns.step_by(LANES) {
        // SAFETY: `LANES` columns from the first on are there.
        unsafe {
            let to = to.add(first).cast::<[F::Element; LANES]>();
            let mut held = *to;
            for i in 0..both.rows as isize {
                let row = S::row(both.at(i)).lanes::<LANES>(first);
                for lane in 0..LANES {
                    held[lane] = F::fold(held[lane], F::load(row[lane]));
                }
            }
            *to = held;
        }
    }
}

struct Rows<F> {
    fold: FoldRun,
    kind: PhantomData<fn(F)>,
}

impl<F: Plain> Rows<F> {
    fn boxed() -> Box<dyn Onto> {
        Box::new(Self { fold: FoldRun::of::<F, There<F::Element>>(), kind: PhantomData })
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
        let (rows, len, along, steps) = match loops {
            [] => (1, 1, 0, [0; 2]),
            [run] => (1, first, run.strides[1], [0; 2]),
            [rows, run] => (first, run.extent, run.strides[1], [rows.strides[0], rows.strides[1]]),
            [outer, rest @ ..] => {
                let [step, to_step] = [outer.strides[0], outer.strides[1]];
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
        let (nothing, [step, to_step]) = (ptr::null(), steps);
        let both = Both {
            from: [from.cast(), nothing, nothing, nothing],
            to: to.cast(),
            rows,
            len,
            steps: [step * size_of::<F::Element>() as isize, 0, 0, 0],
            to_step,
            along,
        };
        // SAFETY: offsets of the loops; a packed tile's innermost stride is 1.
        unsafe { self.fold.run(&both) };
    }
}

impl<F: Plain> Onto for Rows<F> {
    unsafe fn onto(&self, loops: &[Loop], first: usize, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's loops and sides, whose elements are `F`'s.
        unsafe { self.fold(loops, first, from.cast(), to.cast()) };
    }
}

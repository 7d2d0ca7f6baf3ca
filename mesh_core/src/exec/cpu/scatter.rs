//! `Scatter`: rows folded by index, in the declared order of the updates.

use super::find::Find;
use super::isa::{Entry, Task, compiled};
use super::reduce::{Fold, Max, Min, Prod, Sum};
use super::strided::{Labels, Loop, Nest, copy};
use super::{Kernel, Memory, fetch};
use crate::names::{DType, ReduceKind};
use crate::program::{Block, Operand, ValueId};
use std::marker::PhantomData;

/// Of elements that are held as they lie in memory.
struct Scatter<F: Fold> {
    updates: ValueId,
    indices: ValueId,
    out: ValueId,
    len: usize,
    /// What is folded onto, and loops over it. Strides: it, result.
    begin: Option<(ValueId, Nest)>,
    find: Find,
    /// Loops over indices and folded dims in the updates' order. Strides: indices, updates, result.
    lookups: Nest,
    /// Loops over what one index gets, but for `run`. Strides: updates, result.
    row: Nest,
    run: Loop,
    /// The loops of `lookups` and the innermost of them, if an index gets one element, or updates of
    /// neighbouring indices lie closer together than those of one index: then each element of a row gets all
    /// of its own.
    by_element: Option<(Nest, Loop)>,
    onto: Entry<Onto<F>>,
    /// The loops of `lookups` and the innermost of them, if an index gets one run of neighbours.
    by_row: Option<(Nest, Loop)>,
    rows: Entry<Rows<F>>,
}

/// `to`: the result's label that is indexed, the index of its first position, the result.
pub(super) fn prepare(
    block: &Block,
    kind: ReduceKind,
    inputs: &[Operand],
    to: (u8, usize, ValueId),
) -> Result<Box<dyn Kernel>, String> {
    let [updates, indices, onto @ ..] = inputs else {
        return Err("a scatter has updates and indices".to_owned());
    };
    let (dim, first, out) = to;
    let value = block.value(out);
    if block.value(updates.value).dtype != value.dtype {
        return Err("a scatter keeps its dtype".to_owned());
    }
    if block.value(indices.value).dtype != DType::I32 {
        return Err("indices are i32".to_owned());
    }
    let (dim, rank) = (usize::from(dim), value.extents.len());
    let labels = Labels::new(block, &[updates, indices], out);
    if dim >= rank || labels.has[0][dim] {
        return Err("the indexed dim is not the result's alone".to_owned());
    }
    // Whatever meets in one element of the result is folded in the order of these loops.
    let meets = |label: usize| labels.has[1][label] || label >= rank;
    let declared = updates.dims.iter().map(|&label| usize::from(label));
    let (met, kept): (Vec<_>, Vec<_>) = declared.partition(|&label| meets(label));
    let lookups = labels.nest(&met, &[1, 0, 2]).collapse();
    let mut row = labels.nest(&kept, &[0, 2]);
    row.sort_by(1);
    let (row, run) = row.collapse().split_inner();
    let begin = match onto.first() {
        None => None,
        Some(onto) if block.value(onto.value).dtype == value.dtype => {
            let labels = Labels::new(block, &[onto], out);
            let mut whole = labels.nest(&labels.select(|_| true), &[0, 1]);
            whole.sort_by(1);
            Some((onto.value, whole.collapse()))
        }
        Some(_) => return Err("a scatter keeps its dtype".to_owned()),
    };
    let find = Find::new(first, labels.extents[dim], labels.strides[2][dim])?;
    let (others, next) = lookups.clone().split_inner();
    let is_near = next.strides[1].unsigned_abs() < run.strides[0].unsigned_abs();
    let is_alone = row.len() * run.extent == 1;
    let by_element = next.extent > 1 && (is_near || is_alone);
    let is_packed = row.loops.is_empty() && run.strides[..] == [1, 1];
    let by_row = (is_packed && !by_element).then(|| (others.clone(), next.clone()));
    let by_element = by_element.then_some((others, next));
    let (updates, indices, len) = (updates.value, indices.value, value.len());
    macro_rules! kernel {
        ($fold:ty) => {{
            let (onto, rows) = (compiled::<Onto<$fold>>(), compiled::<Rows<$fold>>());
            Box::new(Scatter::<$fold> {
                updates,
                indices,
                out,
                len,
                begin,
                find,
                lookups,
                row,
                run,
                by_element,
                onto,
                by_row,
                rows,
            })
        }};
    }
    macro_rules! of_dtype {
        ($fold:ident) => {
            match value.dtype {
                DType::F32 => kernel!($fold<f32>),
                DType::F64 => kernel!($fold<f64>),
                DType::I32 => kernel!($fold<i32>),
                dtype => return Err(format!("nothing of {dtype} is scattered")),
            }
        };
    }
    Ok(match kind {
        ReduceKind::Sum => of_dtype!(Sum),
        ReduceKind::Prod => of_dtype!(Prod),
        ReduceKind::Max => of_dtype!(Max),
        ReduceKind::Min => of_dtype!(Min),
        kind => return Err(format!("a scatter does not fold by {kind}")),
    })
}

/// Elements of a row that an index is looked up for at once: they do not wait for each other.
const ROWS: usize = 4;

/// One more update of an element.
#[inline(always)]
fn folded<F: Fold>(element: F::Element, update: F::Element) -> F::Element {
    F::store(F::fold(F::load(element), F::load(update)))
}

/// Folds a run onto another: results, updates, how many.
struct Onto<F>(PhantomData<F>);

impl<F: Fold> Task for Onto<F> {
    type Args = (*mut F::Element, *const F::Element, usize);
    type Result = ();

    #[inline(always)]
    unsafe fn run((onto, updates, len): Self::Args) {
        // SAFETY: the caller's runs, which do not overlap.
        let (onto, updates) = unsafe {
            (std::slice::from_raw_parts_mut(onto, len), std::slice::from_raw_parts(updates, len))
        };
        for (onto, &update) in onto.iter_mut().zip(updates) {
            *onto = folded::<F>(*onto, update);
        }
    }
}

/// So many indices ahead a row is asked for, and so many bytes of it at most.
const AHEAD: (isize, usize) = (4, 4096);

/// Folds a row of neighbours per index: where indices lead, indices, updates, results, the loop over them with strides of these
/// three, elements of a row.
struct Rows<F>(PhantomData<F>);

impl<F: Fold> Task for Rows<F> {
    type Args = (Find, *const i32, *const F::Element, *mut F::Element, [isize; 4], usize);
    type Result = ();

    #[inline(always)]
    unsafe fn run((find, indices, updates, out, [extent, at, from, to], len): Self::Args) {
        // SAFETY: the caller's indices.
        let found = |i: isize| unsafe { find.offset(*indices.offset(i * at)) };
        let bytes = (len * size_of::<F::Element>()).min(AHEAD.1);
        for i in 0..extent {
            let next = i + AHEAD.0;
            if next < extent
                && let Some(found) = found(next)
            {
                let coming = out.wrapping_offset(next * to + found).cast();
                fetch::run(coming, bytes, fetch::to_first);
            }
            let Some(found) = found(i) else { continue };
            // SAFETY: the caller's rows; `find` stays inside the result.
            unsafe { Onto::<F>::run((out.offset(i * to + found), updates.offset(i * from), len)) };
        }
    }
}

/// What the indices of a run get, of `N` elements of a row each.
struct Run<'a, F: Fold> {
    find: Find,
    indices: *const i32,
    updates: *const F::Element,
    out: *mut F::Element,
    /// Strides: indices, updates, result.
    along: &'a Loop,
    /// From one element of a row to the next: updates, result.
    steps: [isize; 2],
}

impl<F: Fold> Run<'_, F> {
    /// # Safety
    ///
    /// Indices and updates are valid along the run, the result wherever they lead.
    #[inline(always)]
    unsafe fn fold<const N: usize>(self) {
        let Self { find, indices, updates, out, along, steps: [from_step, to_step] } = self;
        let [at, from, to] = [0, 1, 2].map(|k| along.strides[k]);
        for i in 0..along.extent as isize {
            // SAFETY: elements of the run; `find` stays inside the result.
            unsafe {
                let Some(found) = find.offset(*indices.offset(i * at)) else { continue };
                let (from, to) = (updates.offset(i * from), out.offset(i * to + found));
                for row in 0..N as isize {
                    let to = to.offset(row * to_step);
                    *to = folded::<F>(*to, *from.offset(row * from_step));
                }
            }
        }
    }
}

impl<F: Fold> Scatter<F> {
    /// Folds what all indices get of some elements of a row before the next: the same order for each element
    /// of the result.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn elements(
        &self,
        (lookups, along): &(Nest, Loop),
        indices: *const i32,
        updates: *const F::Element,
        out: *mut F::Element,
    ) {
        let steps = [0, 1].map(|k| self.run.strides[k]);
        let run = |[at, from, to]: [isize; 3]| {
            // SAFETY: offsets of the nests.
            let (indices, updates, out) =
                unsafe { (indices.offset(at), updates.offset(from), out.offset(to)) };
            Run::<F> { find: self.find, indices, updates, out, along, steps }
        };
        let whole = self.run.extent / ROWS * ROWS;
        self.row.walk([0, 0], &mut |[from, to]| {
            let element = |i: usize| [0, from + i as isize * steps[0], to + i as isize * steps[1]];
            // SAFETY: as this kernel's contract says.
            unsafe {
                for i in (0..whole).step_by(ROWS) {
                    lookups.walk(element(i), &mut |at| run(at).fold::<ROWS>());
                }
                for i in whole..self.run.extent {
                    lookups.walk(element(i), &mut |at| run(at).fold::<1>());
                }
            }
        });
    }
}

impl<F: Fold> Scatter<F> {
    /// Writes what updates are folded onto, unless it is there.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn begin(&self, memory: &Memory, out: *mut F::Element) {
        let Some((onto, whole)) = &self.begin else {
            for i in 0..self.len {
                // SAFETY: the result has so many elements, and nothing else refers to them.
                unsafe { out.add(i).write(F::store(F::START)) };
            }
            return;
        };
        let (from, to) = (memory.pointer(*onto).cast_const(), out.cast::<u8>());
        if from != to.cast_const() {
            let first = whole.loops.first().map_or(1, |l| l.extent);
            // SAFETY: both hold the whole, and do not overlap.
            unsafe { copy(&whole.loops, first, size_of::<F::Element>(), from, to) };
        }
    }
}

impl<F: Fold> Kernel for Scatter<F> {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        let indices = memory.pointer(self.indices).cast::<i32>();
        let updates = memory.pointer(self.updates).cast::<F::Element>().cast_const();
        let out = memory.pointer(self.out).cast::<F::Element>();
        // SAFETY: as this kernel's contract says.
        unsafe { self.begin(memory, out) };
        let (len, strides) = (self.run.extent, &self.run.strides);
        if let Some(lookups) = &self.by_element {
            // SAFETY: as this kernel's contract says.
            return unsafe { self.elements(lookups, indices, updates, out) };
        }
        if let Some((lookups, along)) = &self.by_row {
            let [at, from, to] = [0, 1, 2].map(|k| along.strides[k]);
            let along = [along.extent as isize, at, from, to];
            return lookups.walk([0, 0, 0], &mut |[at, from, to]| {
                // SAFETY: offsets of the nests; as this kernel's contract says.
                unsafe {
                    let (indices, updates) = (indices.offset(at), updates.offset(from));
                    (self.rows)((self.find, indices, updates, out.offset(to), along, len));
                }
            });
        }
        self.lookups.walk([0, 0, 0], &mut |[at, from, to]| {
            // SAFETY: an offset of the nest.
            let Some(found) = self.find.offset(unsafe { *indices.offset(at) }) else { return };
            self.row.walk([from, to + found], &mut |[from, to]| {
                // SAFETY: offsets of the nests; `find` stays inside the result.
                unsafe {
                    let (from, to) = (updates.offset(from), out.offset(to));
                    if strides[..] == [1, 1] {
                        return (self.onto)((to, from, len));
                    }
                    for i in 0..len as isize {
                        let to = to.offset(i * strides[1]);
                        *to = folded::<F>(*to, *from.offset(i * strides[0]));
                    }
                }
            });
        });
    }
}

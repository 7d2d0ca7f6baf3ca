//! `Gather`: rows of an operand, found by index.

use super::find::{Along, Find, Offsets};
use super::isa::compiled;
use super::rows::by_size;
use super::strided::{Labels, Loop, Nest, copy};
use super::{Kernel, Memory, cache, fetch};
use crate::names::DType;
use crate::program::{Block, Operand, ValueId};

struct Gather {
    input: ValueId,
    indices: ValueId,
    out: ValueId,
    find: Find,
    /// Loops over indices and what lies around them, but for `again` and `run`. Strides: indices, input, result.
    lookups: Nest,
    /// Runs of the same indices.
    again: Loop,
    /// So many runs take turns, each index finding its elements of all of them.
    turns: usize,
    run: Loop,
    /// Whether the run has all indices.
    is_all: bool,
    /// What one index finds, in parts: each part is looked up by all indices before the next.
    parts: Vec<Part>,
    size: usize,
}

/// A part of what one index finds.
struct Part {
    /// From the beginning of the whole, in elements of the input and of the result.
    begin: [isize; 2],
    /// Loops over it. Strides: input, result.
    row: Nest,
    /// The same loops with no way through the input.
    nothing: Nest,
}

/// So many indices ahead a row is asked for, if it has so many bytes: a shorter one has come when the next is
/// looked up.
const AHEAD: (isize, usize) = (2, 1024);
/// Bytes of it that are asked for: of neighbours that are read, a processor fetches the next by itself.
const FIRST: usize = 256;

/// The most parts.
const PARTS: usize = 128;

/// The fewest neighbours in the result that make a part, if they are so many bytes apart in the input: no more than the first
/// cache holds, if all are in one set of it.
fn fewest(apart: usize) -> usize {
    if cache::is_narrow() && apart.is_multiple_of(cache::ALIKE) { 8 } else { 16 }
}

/// Cuts what one index finds. If neighbours in the result are far apart in the input, all that is looked
/// up of some of them comes first, so that a look-up finds the pages of the one before.
fn parts(row: Nest, size: usize) -> Vec<Part> {
    let whole = |begin, row: Nest| {
        let mut nothing = row.clone();
        nothing.loops.iter_mut().for_each(|l| l.strides[0] = 0);
        Part { begin, row: row.collapse(), nothing: nothing.collapse() }
    };
    let row = row.collapse();
    let Some(inner) = row.loops.last().filter(|l| l.strides[0].unsigned_abs() > 1).cloned() else {
        return vec![whole([0, 0], row)];
    };
    let fewest = fewest(inner.strides[0].unsigned_abs() * size);
    let step = inner.extent.div_ceil(PARTS).next_multiple_of(fewest);
    let part = |first: usize| {
        let mut row = row.clone();
        if let Some(inner) = row.loops.last_mut() {
            inner.extent = step.min(inner.extent - first);
        }
        let begin = [0, 1].map(|k| first as isize * inner.strides[k]);
        whole(begin, row)
    };
    (0..inner.extent).step_by(step).map(part).collect()
}

pub(super) fn prepare(
    block: &Block,
    input: &Operand,
    indices: &Operand,
    dim: u8,
    begin: usize,
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let value = block.value(out);
    if block.value(input.value).dtype != value.dtype {
        return Err("a gather keeps its dtype".to_owned());
    }
    if block.value(indices.value).dtype != DType::I32 {
        return Err("indices are i32".to_owned());
    }
    let (dim, rank) = (usize::from(dim), value.extents.len());
    let labels = Labels::new(block, &[input, indices], out);
    if dim < rank || !labels.has[0].get(dim).is_some_and(|has| *has) {
        return Err("the gathered dim is not the input's alone".to_owned());
    }
    let indexed = labels.select(|l| labels.has[1][l]);
    let far = indexed.iter().map(|&l| labels.strides[2][l]).max().unwrap_or(isize::MAX);
    // What lies further apart in the result than what neighbouring indices find is looked up anew.
    let (outer, kept): (Vec<_>, Vec<_>) = labels
        .select(|l| l != dim && !labels.has[1][l])
        .into_iter()
        .partition(|&l| labels.strides[2][l] > far);
    let mut lookups = labels.nest(&[outer, indexed].concat(), &[1, 0, 2]);
    lookups.sort_by(2);
    let (mut lookups, run) = lookups.collapse().split_inner();
    let again = match lookups.loops.pop() {
        Some(next) if next.strides[0] == 0 => next,
        other => {
            lookups.loops.extend(other);
            Loop { extent: 1, strides: [0, 0, 0].into_iter().collect() }
        }
    };
    let is_all = lookups.loops.iter().all(|l| l.strides[0] == 0);
    let mut row = labels.nest(&kept, &[0, 2]);
    row.sort_by(1);
    let (mut row, mut again, mut turns) = (row.collapse(), again, 1);
    if let [column] = &row.loops[..]
        && column.strides[0].unsigned_abs() > 1
        && column.strides[1] == 1
        && lookups.loops.is_empty()
        && again.extent == 1
    {
        turns = fewest(column.strides[0].unsigned_abs() * value.dtype.size());
        again = Loop {
            extent: column.extent,
            strides: [0, column.strides[0], 1].into_iter().collect(),
        };
        row.loops.clear();
    }
    Ok(Box::new(Gather {
        input: input.value,
        indices: indices.value,
        out,
        find: Find::new(begin, labels.extents[dim], labels.strides[0][dim])?,
        lookups,
        again,
        turns,
        run,
        is_all,
        parts: parts(row, value.dtype.size()),
        size: value.dtype.size(),
    }))
}

/// Enough zeros for an element of any dtype.
static ZERO: u64 = 0;

impl Gather {
    /// Whether an index finds one element.
    fn single(&self) -> bool {
        matches!(&self.parts[..], [Part { row, .. }] if row.loops.is_empty())
    }

    /// Calls `put` for every index: where in the input it leads, if inside, and where in the result. Some indices
    /// before, calls `coming`, if there is one, for where it leads.
    ///
    /// # Safety
    ///
    /// `indices` as for [`Kernel::run`].
    #[inline(always)]
    unsafe fn each(
        &self,
        indices: *const i32,
        coming: Option<impl Fn(isize)>,
        mut put: impl FnMut(Option<isize>, isize),
    ) {
        let (Loop { extent, strides }, again) = (&self.run, &self.again);
        self.lookups.walk([0, 0, 0], &mut |[at, from, to]| {
            for turn in 0..again.extent as isize {
                let (from, to) = (from + turn * again.strides[1], to + turn * again.strides[2]);
                let found = |i: isize| {
                    // SAFETY: an offset of the nest.
                    let index = unsafe { *indices.offset(at + i * strides[0]) };
                    self.find.offset(index).map(|found| from + i * strides[1] + found)
                };
                let extent = *extent as isize;
                for i in 0..extent {
                    if let Some(coming) = &coming
                        && i + AHEAD.0 < extent
                        && let Some(next) = found(i + AHEAD.0)
                    {
                        coming(next);
                    }
                    put(found(i), to + i * strides[2]);
                }
            }
        });
    }

    /// Copies a part of what is found per index.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn rows(&self, part: &Part, indices: *const i32, input: *const u8, out: *mut u8) {
        let first = |nest: &Nest| nest.loops.first().map_or(1, |l| l.extent);
        let (row, nothing) = (first(&part.row), first(&part.nothing));
        let step = self.size as isize;
        let input = input.wrapping_offset(part.begin[0] * step);
        let out = out.wrapping_offset(part.begin[1] * step);
        let put = |found: Option<isize>, to: isize| {
            // SAFETY: rows inside input and result.
            unsafe {
                let to = out.offset(to * step);
                match found {
                    Some(from) => {
                        let from = input.offset(from * step);
                        copy(&part.row.loops, row, self.size, from, to);
                    }
                    None => {
                        let zero = (&raw const ZERO).cast();
                        copy(&part.nothing.loops, nothing, self.size, zero, to);
                    }
                }
            }
        };
        let is_long = matches!(&part.row.loops[..], [Loop { extent, strides }]
            if strides[..] == [1, 1] && extent * self.size >= AHEAD.1);
        let coming = is_long.then_some(|from: isize| {
            fetch::run(input.wrapping_offset(from * step), FIRST, fetch::to_first);
        });
        // SAFETY: indices, input and out are valid for the loops of this kernel, as its contract
        // says.
        unsafe { self.each(indices, coming, put) };
    }

    /// Copies an element per index, a run of indices after the other. `offsets` has room for a run, and
    /// serves all runs if they have the same indices.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`]; a row is one element of the size of `T`.
    unsafe fn elements<T: Copy + Default>(
        &self,
        offsets: *mut isize,
        indices: *const i32,
        input: *const T,
        out: *mut T,
    ) {
        let (find, along) = (compiled::<Offsets>(), compiled::<Along<T>>());
        let [at, from, to] = [0, 1, 2].map(|k| self.run.strides[k]);
        let again = (self.again.extent, [1, 2].map(|k| self.again.strides[k]), self.turns);
        let mut found = None;
        self.lookups.walk([0, 0, 0], &mut |[first, input_at, out_at]| {
            // SAFETY: indices of a run, room for an offset of each, and runs inside input and result.
            unsafe {
                let known = found.filter(|_| self.is_all).unwrap_or_else(|| {
                    find((self.find, indices.offset(first), at, from, offsets, self.run.extent))
                });
                found = Some(known);
                let (out, input) = (out.offset(out_at), input.offset(input_at));
                along((out, to, input, offsets, self.run.extent, known, again));
            }
        });
    }
}

impl Kernel for Gather {
    fn scratch_bytes(&self) -> usize {
        if self.single() { self.run.extent * size_of::<isize>() } else { 0 }
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let indices = memory.pointer(self.indices).cast::<i32>().cast_const();
        let (input, out) = (memory.pointer(self.input).cast_const(), memory.pointer(self.out));
        // SAFETY: indices, input and out are valid for the loops of this kernel; elements of one
        // size are copied whatever they mean.
        unsafe {
            if self.single() {
                return by_size!(self.size, T => {
                    self.elements::<T>(scratch.cast(), indices, input.cast(), out.cast());
                });
            }
            self.parts.iter().for_each(|part| self.rows(part, indices, input, out));
        }
    }
}

//! `Move` and `Reshape`: copies of rectangles.

use super::rows::{SHORT, Source, by_size, copy_rows};
use super::strided::{Labels, Nest, copy};
use super::{Kernel, Memory};
use crate::names::{DType, Mesh};
use crate::program::{Block, Extents, Operand, Piece, Scalar, ValueId, forms};
use smallvec::SmallVec;

struct Rectangle {
    input: ValueId,
    from: usize,
    to: usize,
    /// Strides: input, result.
    nest: Nest,
}

impl Rectangle {
    /// Turns of the first loop, and how far the result travels in each.
    fn turns(&self) -> (usize, isize) {
        self.nest.loops.first().map_or((1, 0), |l| (l.extent, l.strides[1]))
    }

    /// Rows of an input at this address, if one turn of the first loop copies a short one.
    fn rows(&self, size: usize, input: *const u8) -> Option<Source> {
        let [rows, run] = &self.nest.loops[..] else { return None };
        let bytes = run.extent * size;
        let is_row = run.strides[..] == [1, 1] && SHORT.contains(&bytes);
        is_row.then(|| Source {
            from: input.wrapping_add(self.from * size),
            step: rows.strides[0] * size as isize,
            bytes,
            to: self.to * size,
        })
    }

    /// Copies `count` turns of the first loop, from turn `first` on.
    ///
    /// # Safety
    ///
    /// Input and result are at these addresses, and the loop has these turns.
    unsafe fn copy(&self, [first, count]: [usize; 2], size: usize, input: *const u8, out: *mut u8) {
        let step = |k: usize| self.nest.loops.first().map_or(0, |l| l.strides[k]);
        let offset = |from: usize, k| (from as isize + first as isize * step(k)) * size as isize;
        // SAFETY: rectangles lie within their values, as `prepare` has checked.
        unsafe {
            let (from, to) = (input.offset(offset(self.from, 0)), out.offset(offset(self.to, 1)));
            copy(&self.nest.loops, count, size, from, to);
        }
    }
}

/// In what order rectangles are copied.
#[derive(Clone, Copy)]
enum Order {
    /// One after the other.
    Apart,
    /// So many turns of their first loops of each, where each turn of all is in one part of the result, which so is
    /// written in its order.
    Together(usize),
    /// A short row of each in turns, where they lie in the same way.
    Rows,
}

impl Order {
    /// Bytes of a result that are written by all rectangles before more is.
    const BLOCK: usize = 8 << 10;
    /// Most rectangles whose rows are copied in turns.
    const MOST: usize = 8;

    fn of(rectangles: &[Rectangle], size: usize) -> Self {
        let Some((first, others @ [_, ..])) = rectangles.split_first() else { return Self::Apart };
        let (turns, step) = first.turns();
        let part = step.unsigned_abs().max(1);
        let beside = |other: &Rectangle| {
            other.turns() == (turns, step) && other.to / part == first.to / part
        };
        if !others.iter().all(beside) {
            return Self::Apart;
        }
        let are_rows = rectangles.iter().all(|one| one.rows(size, std::ptr::null()).is_some());
        match are_rows && rectangles.len() <= Self::MOST {
            true => Self::Rows,
            false => Self::Together((Self::BLOCK / (part * size)).max(1)),
        }
    }
}

struct Move {
    rectangles: Vec<Rectangle>,
    order: Order,
    /// The bytes of the fill, of which an element has the first.
    fill: [u8; 8],
    /// What is filled before: where it begins, and the loops over it.
    gaps: Vec<(usize, Nest)>,
    out: ValueId,
    size: usize,
}

/// A number as memory of its dtype holds it, in the low bytes.
pub(super) fn bits(scalar: Scalar) -> u64 {
    let x = scalar.value();
    match scalar.dtype() {
        DType::F32 => u64::from((x as f32).to_bits()),
        DType::F64 => x.to_bits(),
        DType::BF16 => u64::from(half::bf16::from_f64(x).to_bits()),
        DType::I32 => u64::from(x as i32 as u32),
        DType::Bool => u64::from(x != 0.0),
    }
}

/// A number as memory of its dtype holds it, in the first bytes.
fn bytes(scalar: Scalar) -> [u8; 8] {
    let (mut bytes, size) = ([0; 8], scalar.dtype().size());
    by_size!(size, T => bytes[..size].copy_from_slice(&(bits(scalar) as T).to_ne_bytes()));
    bytes
}

/// Sets `len` elements of `size` bytes.
///
/// # Safety
///
/// `out` is valid for them.
pub(super) unsafe fn fill(out: *mut u8, len: usize, size: usize, bits: u64) {
    by_size!(size, T => {
        // SAFETY: `out` is good for `len` elements of this size, as `fill` requires.
        unsafe { std::slice::from_raw_parts_mut(out.cast::<T>(), len).fill(bits as T) };
    });
}

pub(super) fn prepare(
    block: &Block,
    form: &forms::Move,
    inputs: &[Operand],
    out: ValueId,
    mesh: &Mesh,
    processor: usize,
) -> Result<Box<dyn Kernel>, String> {
    let (pieces, scalar, value) = (&form.pieces, form.fill, block.value(out));
    let to_strides = value.strides();
    let mut rectangles = Vec::new();
    if pieces.len() != inputs.len() {
        return Err("a move has a piece for each input".to_owned());
    }
    for (piece, operand) in pieces.iter().zip(inputs) {
        let input = block.value(operand.value);
        if input.dtype != value.dtype || scalar.dtype() != value.dtype {
            return Err("a move keeps its dtype".to_owned());
        }
        let labels = Labels::new(block, &[operand], out);
        let mut from = 0;
        for (i, (begin, stride)) in piece.begin.iter().zip(input.strides()).enumerate() {
            let begin = begin.at(mesh, processor);
            let extent = operand.dims.get(i).and_then(|&l| piece.extents.get(l as usize));
            if extent.is_none_or(|extent| begin + extent > input.extents[i]) {
                return Err(format!("a move reads beyond dim {i} of its input"));
            }
            from += begin * stride;
        }
        let inside = |i: usize| piece.at[i] + piece.extents[i] <= value.extents[i];
        if !(0..value.extents.len()).all(inside) {
            return Err("a move writes beyond its result".to_owned());
        }
        let to = piece.at.iter().zip(&to_strides).map(|(at, stride)| at * stride).sum();
        let mut nest = Nest::new(&piece.extents, &[&labels.strides[0], &labels.strides[1]]);
        nest.sort_by(1);
        rectangles.push(Rectangle { input: operand.value, from, to, nest: nest.collapse() });
    }
    let gaps = match &pieces[..] {
        _ if covers(pieces, &value.extents) => Vec::new(),
        [piece] => around(piece, &value.extents, &to_strides),
        _ => vec![(0, filled(&value.extents, &to_strides))],
    };
    let size = value.dtype.size();
    let order = Order::of(&rectangles, size);
    Ok(Box::new(Move { rectangles, order, fill: bytes(scalar), gaps, out, size }))
}

/// The loops over a box of a result that is filled; strides: of the fill, result.
fn filled(extents: &[usize], strides: &[usize]) -> Nest {
    let strides: Vec<_> = strides.iter().map(|&stride| stride as isize).collect();
    let mut nest = Nest::new(extents, &[&vec![0; extents.len()], &strides]);
    nest.sort_by(1);
    nest.collapse()
}

/// What lies around a piece, in boxes: first those that are longest in memory.
fn around(piece: &Piece, whole: &Extents, strides: &[usize]) -> Vec<(usize, Nest)> {
    let mut dims: Vec<_> = (0..whole.len()).collect();
    dims.sort_by_key(|&dim| std::cmp::Reverse(strides[dim]));
    let mut left: Vec<_> = whole.iter().map(|&extent| 0..extent).collect();
    let mut boxes = Vec::new();
    for dim in dims {
        let own = piece.at[dim]..piece.at[dim] + piece.extents[dim];
        for gap in [0..own.start, own.end..whole[dim]] {
            left[dim] = gap;
            let begin = left.iter().zip(strides).map(|(range, stride)| range.start * stride).sum();
            let extents: Vec<_> = left.iter().map(ExactSizeIterator::len).collect();
            if extents.iter().all(|&extent| extent > 0) {
                boxes.push((begin, filled(&extents, strides)));
            }
        }
        left[dim] = own;
    }
    boxes
}

/// Whether pieces that do not overlap are as large as the result together, or one is.
fn covers(pieces: &[Piece], whole: &Extents) -> bool {
    let len = |extents: &Extents| -> usize { extents.iter().product() };
    if pieces.iter().any(|piece| len(&piece.extents) == len(whole)) {
        return true;
    }
    let apart = |a: &Piece, b: &Piece| {
        (0..whole.len())
            .any(|i| a.at[i] + a.extents[i] <= b.at[i] || b.at[i] + b.extents[i] <= a.at[i])
    };
    let mut pairs =
        pieces.iter().enumerate().flat_map(|(i, a)| pieces[i + 1..].iter().map(move |b| (a, b)));
    pieces.iter().map(|piece| len(&piece.extents)).sum::<usize>() == len(whole)
        && pairs.all(|(a, b)| apart(a, b))
}

impl Move {
    /// Copies turns of all rectangles' first loops, so many of each at once.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn turns(&self, together: usize, memory: &Memory, out: *mut u8) {
        let turns = self.rectangles.iter().map(|rectangle| rectangle.turns().0).max();
        for first in (0..turns.unwrap_or(0)).step_by(together) {
            for rectangle in &self.rectangles {
                let count = together.min(rectangle.turns().0 - first);
                let from = memory.pointer(rectangle.input);
                // SAFETY: rectangles lie within their values, as `prepare` has checked.
                unsafe { rectangle.copy([first, count], self.size, from, out) };
            }
        }
    }

    /// Copies rows that lie beside each other in the result.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn rows(&self, memory: &Memory, out: *mut u8) {
        let size = self.size;
        let rows = |one: &Rectangle| one.rows(size, memory.pointer(one.input));
        let sources: SmallVec<[_; Order::MOST]> = self.rectangles.iter().filter_map(rows).collect();
        let (turns, step) = self.rectangles.first().map_or((0, 0), Rectangle::turns);
        // SAFETY: rectangles lie within their values, as `prepare` has checked.
        unsafe { copy_rows(turns, &sources, (out, step * size as isize)) };
    }
}

impl Kernel for Move {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        let out = memory.pointer(self.out);
        // SAFETY: boxes and rectangles lie within their values, as `prepare` has checked.
        unsafe {
            for (begin, nest) in &self.gaps {
                let first = nest.loops.first().map_or(1, |l| l.extent);
                let from = self.fill.as_ptr();
                copy(&nest.loops, first, self.size, from, out.add(begin * self.size));
            }
            match self.order {
                Order::Apart => self.turns(usize::MAX, memory, out),
                Order::Together(turns) => self.turns(turns, memory, out),
                Order::Rows => self.rows(memory, out),
            }
        }
    }
}

/// A value under other dims: turned round, or with elements repeated.
struct View {
    input: ValueId,
    out: ValueId,
    /// Strides: input, result.
    nest: Nest,
    size: usize,
}

/// What makes of a value one whose elements lie as the loops say; strides: input, result.
pub(super) fn prepare_view(
    input: ValueId,
    out: ValueId,
    nest: Nest,
    size: usize,
) -> Box<dyn Kernel> {
    Box::new(View { input, out, nest, size })
}

impl Kernel for View {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        let (from, to) = (memory.pointer(self.input), memory.pointer(self.out));
        let first = self.nest.loops.first().map_or(1, |l| l.extent);
        // What takes its input's memory lies there already: only a map of equal strides may.
        if from != to {
            // SAFETY: loops over all of both, which are apart if they are not one.
            unsafe { copy(&self.nest.loops, first, self.size, from, to) };
        }
    }
}

struct Reshape {
    input: ValueId,
    out: ValueId,
    bytes: usize,
}

pub(super) fn prepare_reshape(
    block: &Block,
    input: ValueId,
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let (from, to) = (block.value(input), block.value(out));
    if from.dtype != to.dtype || from.len() != to.len() {
        return Err("a reshape keeps dtype and number of elements".to_owned());
    }
    if !from.in_order() || !to.in_order() {
        return Err("a reshape wants its values in declared order".to_owned());
    }
    Ok(Box::new(Reshape { input, out, bytes: from.bytes() }))
}

impl Kernel for Reshape {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        let (from, to) = (memory.pointer(self.input), memory.pointer(self.out));
        if from != to {
            // SAFETY: both are of that many bytes; they are apart if they are not one.
            unsafe { std::ptr::copy_nonoverlapping(from, to, self.bytes) };
        }
    }
}

/// Values as they are, for the next steps to begin anew with.
struct Barrier {
    pairs: Vec<(ValueId, ValueId, usize)>,
}

pub(super) fn prepare_barrier(
    block: &Block,
    inputs: &[Operand],
    outs: &[ValueId],
) -> Result<Box<dyn Kernel>, String> {
    let same = |(input, &out): (&Operand, &ValueId)| block.value(input.value) == block.value(out);
    if !inputs.iter().zip(outs).all(same) {
        return Err("a barrier keeps types".to_owned());
    }
    let pair = |(input, &out): (&Operand, &ValueId)| (input.value, out, block.value(out).bytes());
    Ok(Box::new(Barrier { pairs: inputs.iter().zip(outs).map(pair).collect() }))
}

impl Kernel for Barrier {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        for &(input, out, bytes) in &self.pairs {
            let (from, to) = (memory.pointer(input), memory.pointer(out));
            if from != to {
                // SAFETY: both are of that many bytes; they are apart if they are not one.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            }
        }
    }
}

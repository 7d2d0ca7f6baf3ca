//! A product and the map of its result behind it, which is done for every piece of the result while that
//! is in cache: a bias, an activation, a residual, a step of gradient descent.
//!
//! What the map makes is what the two steps make one after the other, to the bit. If nobody else reads the
//! product's result, and the map makes nothing in its place, it is never in memory: its pieces lie in
//! scratch, one after the other.

use super::{Contract, Labels, Loop, Nest, Number, Piece, Product, Waits, aligned};
use crate::exec::cpu::map::{Map, Operands};
use crate::exec::cpu::{Kernel, Memory};
use crate::names::DType;
use crate::program::{Body, Operand, Program, Step, ValueId};

/// Bytes of a result from which on it has left the caches when the product is done.
const LARGE: usize = 8 << 20;
/// Most depth of a product: beside more, what is saved is lost in the noise.
const DEPTH: usize = 1024;
/// Most bytes of the map's other inputs, in those of the result: beside more (Adam's moments), what is
/// saved is less than smaller blocks cost.
const OTHERS: usize = 2;

/// A `Contract` and the `Map` that follows, as one kernel, if that pays.
pub(in crate::exec::cpu) fn prepare(
    program: &Program,
    [product, map]: [&Step; 2],
    memory: &Memory,
) -> Result<Option<Box<dyn Kernel>>, String> {
    let (Step::Contract { lhs, rhs, out }, Step::Map { body, inputs, outs }) = (product, map)
    else {
        return Ok(None);
    };
    let factors = [lhs.value, rhs.value];
    let large = program.value(*out).bytes() >= LARGE;
    if !large || !suits(program, factors, *out, (inputs, outs), memory) {
        return Ok(None);
    }
    let kept = program.fetches.iter().any(|slot| slot.value == *out);
    let readers = program.steps.iter().filter(|node| node.step.inputs().contains(out)).count();
    let taken = outs.iter().any(|&made| memory.pointer(made) == memory.pointer(*out));
    let waits = if kept || taken || readers > 1 { Waits::There } else { Waits::Aside };
    let map = (body, Operands::new(program, inputs, outs)?, waits);
    match program.value(*out).dtype {
        DType::F32 => Joined::<f32>::boxed(program, [lhs, rhs], *out, map),
        DType::F64 => Joined::<f64>::boxed(program, [lhs, rhs], *out, map),
        _ => Ok(None),
    }
}

/// Whether a map reads a value element by element, not too much else, and makes what has as many elements,
/// none of it where the product still reads or writes.
fn suits(
    program: &Program,
    factors: [ValueId; 2],
    value: ValueId,
    (inputs, outs): (&[Operand], &[ValueId]),
    memory: &Memory,
) -> bool {
    let read = program.value(value);
    let others = inputs.iter().filter(|input| input.value != value);
    let others: usize = others.map(|input| program.value(input.value).bytes()).sum();
    let mut own = inputs.iter().filter(|input| input.value == value).peekable();
    let in_order =
        |input: &Operand| input.dims.iter().map(|&dim| usize::from(dim)).eq(0..read.extents.len());
    let at = |value: ValueId| memory.pointer(value).addr();
    let apart = |a: ValueId, b: ValueId| {
        let end = |value: ValueId| at(value) + program.value(value).bytes();
        end(a) <= at(b) || end(b) <= at(a)
    };
    let suits = |out: ValueId| {
        let made = program.value(out);
        made.extents == read.extents
            && at(out) != 0
            && factors.iter().all(|&factor| apart(factor, out))
            && (apart(value, out) || at(value) == at(out) && made == read)
    };
    own.peek().is_some()
        && own.all(in_order)
        && at(value) != 0
        && others <= OTHERS * read.bytes()
        && outs.iter().all(|&out| suits(out))
}

struct Joined<T: Number> {
    factors: [ValueId; 2],
    out: ValueId,
    product: Contract<T>,
    operands: Operands,
    /// How far the map's operands travel along the rows and columns of the product.
    lines: [Loop; 2],
    /// By size of the piece.
    maps: Vec<([usize; 2], Map)>,
}

impl<T: Number> Joined<T> {
    fn boxed(
        program: &Program,
        factors: [&Operand; 2],
        out: ValueId,
        (body, operands, waits): (&Body, Operands, Waits),
    ) -> Result<Option<Box<dyn Kernel>>, String> {
        let labels = Labels::new(program, &factors, out);
        let (product, groups) = Contract::<T>::new(labels, program.value(out).dtype, waits)?;
        let steps = product.product.result_steps();
        if product.loops.depth.1.extent > DEPTH || product.pieces().count() < 2 {
            return Ok(None);
        }
        let line = |labels: &[usize], step: isize| match &operands.nest(labels).loops[..] {
            [line] => {
                let mut line = line.clone();
                let strides = line.strides.iter_mut().zip(&operands.values);
                strides.filter(|(_, (value, _))| *value == out).for_each(|(s, _)| *s = step);
                Some(line)
            }
            _ => None,
        };
        let lines = [line(&groups.rows, steps[0]), line(&groups.columns, steps[1])];
        let [Some(rows), Some(columns)] = lines else { return Ok(None) };
        let lines = [rows, columns];
        let mut maps: Vec<([usize; 2], Map)> = Vec::new();
        for Piece { size, .. } in product.pieces() {
            if maps.iter().all(|(known, _)| *known != size) {
                maps.push((size, Map::new(body, &operands, nest(&operands, &lines, size))?));
            }
        }
        let factors = factors.map(|factor| factor.value);
        Ok(Some(Box::new(Self { factors, out, product, operands, lines, maps })))
    }

    /// Where operand `k` of the map begins for a piece that begins at `piece`.
    fn begin(&self, memory: &Memory, [i, j]: [usize; 2], piece: *mut T, k: usize) -> *mut u8 {
        let (value, dtype) = self.operands.values[k];
        if value == self.out {
            return piece.cast();
        }
        let [rows, columns] = &self.lines;
        let elements = i as isize * rows.strides[k] + j as isize * columns.strides[k];
        memory.pointer(value).wrapping_offset(elements * dtype.size() as isize)
    }
}

/// The loops of a map over a piece.
fn nest(operands: &Operands, lines: &[Loop; 2], size: [usize; 2]) -> Nest {
    let line = |k: usize| Loop { extent: size[k], ..lines[k].clone() };
    let loops = [line(0), line(1)].into_iter().collect();
    let mut nest = Nest { loops, operands: operands.values.len() };
    nest.sort_by(operands.inputs);
    nest.collapse()
}

impl<T: Number> Kernel for Joined<T> {
    fn scratch_bytes(&self) -> usize {
        let map = self.maps.iter().map(|(_, map)| map.scratch_bytes()).max().unwrap_or_default();
        aligned(self.product.scratch_bytes(), 1) + map
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let factors = self.factors.map(|factor| memory.pointer(factor).cast_const());
        let done = |Piece { at, size }, piece: *mut T| {
            // Every size that `pieces` has told has a map.
            let found = self.maps.iter().find(|(known, _)| *known == size);
            debug_assert!(found.is_some(), "{size:?} was not told");
            let Some((_, map)) = found else { return };
            // SAFETY: the piece is within the operands; behind the product's scratch is the map's.
            unsafe {
                let scratch = scratch.add(aligned(self.product.scratch_bytes(), 1));
                map.run_at(scratch, |k| self.begin(memory, at, piece, k));
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.product.run_by_pieces(factors, memory.pointer(self.out), scratch, done) };
    }
}

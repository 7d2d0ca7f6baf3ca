//! A product and its epilogue, which is done for every piece of the product while that is in cache.
//!
//! What the epilogue makes is what a map of the whole product makes, to the bit. The product is never
//! whole in memory where it is done by pieces: they lie in scratch, one after the other. Products that
//! are not ([`Contract::pieces`]) are made whole, in scratch, before the map.

use super::{Contract, Labels, Loop, Nest, Number, Piece, Product, Waits, aligned, plan};
use crate::exec::cpu::map::{Map, Operands};
use crate::exec::cpu::{Kernel, Memory, product};
use crate::names::DType;
use crate::program::{Block, Body, Operand, ValueId};

/// A product with an epilogue; `inputs` are the factors, then what else the epilogue reads.
pub(in crate::exec::cpu) fn prepare(
    block: &Block,
    body: &Body,
    inputs: &[Operand],
    outs: &[ValueId],
) -> Result<Box<dyn Kernel>, String> {
    let ([lhs, rhs, others @ ..], &[out, ..]) = (inputs, outs) else {
        return Err("an epilogue without factors or outs".to_owned());
    };
    let (dtype, value) = (block.value(lhs.value).dtype, block.value(out));
    if block.value(rhs.value).dtype != dtype {
        return Err("factors and result of a product are of one dtype".to_owned());
    }
    // The product lies as the first out does.
    let product = Operand::whole(out, value.extents.len());
    let read: Vec<_> = [product].into_iter().chain(others.iter().cloned()).collect();
    let operands = || Ok::<_, String>(Operands::new(block, &read, outs)?.first_of(dtype));
    let labels = || Labels::new(block, &[lhs, rhs], out);
    let factors = [lhs.value, rhs.value];
    let by_pieces = match dtype {
        DType::F32 => ByPieces::<f32>::boxed(labels(), dtype, factors, body, operands()?)?,
        DType::F64 => ByPieces::<f64>::boxed(labels(), dtype, factors, body, operands()?)?,
        _ => None,
    };
    if let Some(kernel) = by_pieces {
        return Ok(kernel);
    }
    let lens = [block.value(lhs.value).len(), block.value(rhs.value).len(), value.len()];
    let product = product::of(dtype, lens, |wide| plan(labels(), wide))?;
    let operands = operands()?;
    let all: Vec<_> = (0..value.extents.len()).collect();
    let map = Map::new(body, &operands, operands.nest(&all))?;
    let held = aligned(value.len(), dtype.size());
    Ok(Box::new(Whole { factors, product, held, operands, map }))
}

/// A product in scratch, and a map of it.
struct Whole {
    factors: [ValueId; 2],
    product: Box<dyn Product>,
    /// Bytes of scratch that the product takes.
    held: usize,
    operands: Operands,
    map: Map,
}

impl Kernel for Whole {
    fn scratch_bytes(&self) -> usize {
        self.held + self.product.scratch_bytes().max(self.map.scratch_bytes())
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let [lhs, rhs] = self.factors.map(|factor| memory.pointer(factor));
        let operand = |k: usize| match k {
            0 => scratch,
            _ => memory.pointer(self.operands.values[k].0),
        };
        // SAFETY: scratch has room for the product and, behind it, for what product and map need, one
        // after the other; the map's operands are the step's values, which the kernel's contract makes
        // valid.
        unsafe {
            let rest = scratch.add(self.held);
            self.product.run(lhs, rhs, scratch, rest);
            self.map.run_at(rest, operand);
        }
    }
}

/// A product whose pieces are mapped one by one.
struct ByPieces<T: Number> {
    factors: [ValueId; 2],
    product: Contract<T>,
    operands: Operands,
    /// How far the map's operands travel along the rows and columns of the product.
    lines: [Loop; 2],
    /// By size of the piece.
    maps: Vec<([usize; 2], Map)>,
}

impl<T: Number> ByPieces<T> {
    /// `None` if the product is not done by pieces, or an operand is no single line along their rows and
    /// columns.
    fn boxed(
        labels: Labels,
        dtype: DType,
        factors: [ValueId; 2],
        body: &Body,
        operands: Operands,
    ) -> Result<Option<Box<dyn Kernel>>, String> {
        let (product, groups) = Contract::<T>::new(labels, dtype, Waits::Aside)?;
        let steps = product.product.result_steps();
        let line = |labels: &[usize], step: isize| match &operands.nest(labels).loops[..] {
            [line] => {
                let mut line = line.clone();
                line.strides[0] = step;
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
        if maps.is_empty() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self { factors, product, operands, lines, maps })))
    }

    /// Where operand `k` of the map begins for a piece that begins at `piece`.
    fn begin(&self, memory: &Memory, [i, j]: [usize; 2], piece: *mut T, k: usize) -> *mut u8 {
        if k == 0 {
            return piece.cast();
        }
        let (value, dtype) = self.operands.values[k];
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

impl<T: Number> Kernel for ByPieces<T> {
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
        // SAFETY: the factors are the step's, valid by the kernel's contract; all pieces lie in scratch,
        // so that nothing is written to a result.
        unsafe { self.product.run_by_pieces(factors, std::ptr::null_mut(), scratch, done) };
    }
}

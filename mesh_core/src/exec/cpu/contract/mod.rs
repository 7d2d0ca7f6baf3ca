//! `Contract`: labels are sorted into batch, rows, columns and depth of matrix products.
//!
//! Where the strides of a group of labels make it one dim for all operands that have it, nothing is
//! moved. Else the product is done in blocks if they are large, or operands are packed first.

mod loops;
mod packing;

use super::Kernel;
use super::blocks::Blocks;
use super::gemm::Number;
use super::product::{self, Product, aligned};
use super::reduce;
use super::strided::{Labels, Nest, copy};
use crate::names::{DType, ReduceKind};
use crate::program::{Block, Operand, ValueId};
use loops::{Groups, LHS, Loops, OUT, Prepare, RHS, Side};
use packing::{cheapest, pack, pack_strides};

pub(super) fn prepare(
    block: &Block,
    lhs: &Operand,
    rhs: &Operand,
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let labels = Labels::new(block, &[lhs, rhs], out);
    product::kernel(block, [lhs, rhs], out, |dtype| plan(labels, dtype))
}

/// The product of operands with these labels.
pub(super) fn plan(labels: Labels, dtype: DType) -> Result<Box<dyn Product>, String> {
    match dtype {
        DType::F32 => Contract::<f32>::boxed(labels, dtype),
        DType::F64 => Contract::<f64>::boxed(labels, dtype),
        DType::I32 => Contract::<i32>::boxed(labels, dtype),
        _ => Err(format!("there is no product of {dtype}")),
    }
}

struct Contract<T: Number> {
    sides: [Side; 3],
    loops: Loops,
    product: Blocks<T>,
}

impl<T: Number> Contract<T> {
    fn boxed(mut labels: Labels, dtype: DType) -> Result<Box<dyn Product>, String> {
        let mut sides = [LHS, RHS, OUT].map(|_| Side { prepare: Prepare::Nothing, bytes: 0 });
        for k in [LHS, RHS] {
            if let Some(side) = sum_own(&mut labels, k, dtype)? {
                sides[k] = side;
            }
        }
        let groups = groups(&labels)?;
        let (plan, strides) = cheapest(&labels, &groups, &sides);
        for k in plan {
            sides[k] = pack(&labels, &strides[k], k, dtype);
        }
        labels.strides = strides;
        let loops = Loops::new(&labels, &groups);
        let (row, column, depth) = (&loops.rows.1, &loops.columns.1, &loops.depth.1);
        let steps = [
            [row.strides[0], depth.strides[0]],
            [depth.strides[1], column.strides[0]],
            [row.strides[1], column.strides[1]],
        ];
        let adds = !loops.depth.0.loops.is_empty();
        let product = Blocks::new(loops.shape(), steps, adds);
        Ok(Box::new(Self { sides, loops, product }))
    }
}

/// Sums an operand over the labels that only it has; they are gone afterwards.
fn sum_own(labels: &mut Labels, k: usize, dtype: DType) -> Result<Option<Side>, String> {
    let alone =
        |l: usize| labels.has[k][l] && (0..3).all(|other| other == k || !labels.has[other][l]);
    let own = labels.select(alone);
    if own.is_empty() {
        return Ok(None);
    }
    let rest = labels.select(|l| labels.has[k][l] && !alone(l));
    let folded = labels.nest(&own, &[k]);
    let strides = pack_strides(&labels.extents, &rest);
    let extents: Vec<_> = rest.iter().map(|&l| labels.extents[l]).collect();
    let pick = |of: &[isize]| -> Vec<isize> { rest.iter().map(|&l| of[l]).collect() };
    let kept = Nest::new(&extents, &[&pick(&labels.strides[k]), &pick(&strides)]);
    let len: usize = extents.iter().product();
    for l in own {
        labels.has[k][l] = false;
        labels.extents[l] = 1;
    }
    labels.strides[k] = strides;
    let prepare = Prepare::Sum(reduce::plan(ReduceKind::Sum, dtype, kept, folded)?);
    Ok(Some(Side { prepare, bytes: aligned(len, dtype.size()) }))
}

fn groups(labels: &Labels) -> Result<Groups, String> {
    let group = |lhs: bool, rhs: bool, out: bool| {
        labels.select(|l| [LHS, RHS, OUT].map(|k| labels.has[k][l]) == [lhs, rhs, out])
    };
    if !group(false, false, true).is_empty() {
        return Err("a product's result has a dim that no factor has".to_owned());
    }
    Ok(Groups {
        batch: group(true, true, true),
        rows: group(true, false, true),
        columns: group(false, true, true),
        depth: group(true, true, false),
    })
}

impl<T: Number> Product for Contract<T> {
    fn scratch_bytes(&self) -> usize {
        let own = self.sides.iter().map(Side::own_scratch).max().unwrap_or(0);
        let product = aligned(self.product.scratch(), size_of::<T>());
        self.sides.iter().map(|side| side.bytes).sum::<usize>() + own.max(product)
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let [left, right, result] = &self.sides;
        let size = size_of::<T>();
        // SAFETY: scratch has room for the three sides, one after the other; offsets are of nests.
        unsafe {
            let scratch_rhs = scratch.add(left.bytes);
            let scratch_out = scratch_rhs.add(right.bytes);
            let rest = scratch_out.add(result.bytes);
            let lhs = left.factor(lhs, scratch, rest, size).cast::<T>();
            let rhs = right.factor(rhs, scratch_rhs, rest, size).cast::<T>();
            let Prepare::Pack(nest) = &result.prepare else {
                return self.product([lhs, rhs], out.cast(), rest.cast());
            };
            self.product([lhs, rhs], scratch_out.cast(), rest.cast());
            copy_all(nest, size, scratch_out, out);
        }
    }
}

/// # Safety
///
/// As [`copy`].
unsafe fn copy_all(nest: &Nest, size: usize, from: *const u8, to: *mut u8) {
    let first = nest.loops.first().map_or(1, |l| l.extent);
    // SAFETY: `copy` is given the nest's own first extent; `from` and `to` are good for its loops.
    unsafe { copy(&nest.loops, first, size, from, to) };
}

impl Side {
    fn own_scratch(&self) -> usize {
        match &self.prepare {
            Prepare::Sum(reducer) => reducer.scratch_bytes(),
            _ => 0,
        }
    }

    /// The factor as the product wants it, put at `to` if that is not how it lies.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn factor(
        &self,
        from: *const u8,
        to: *mut u8,
        scratch: *mut u8,
        size: usize,
    ) -> *const u8 {
        // SAFETY: `from` is the operand that this side was planned for, and `to` and `scratch`
        // have room for what it says.
        unsafe {
            match &self.prepare {
                Prepare::Nothing => return from,
                Prepare::Pack(nest) => copy_all(nest, size, from, to),
                Prepare::Sum(reducer) => reducer.apply(from, to, scratch),
            }
        }
        to
    }
}

impl<T: Number> Contract<T> {
    /// # Safety
    ///
    /// The operands are valid at all offsets of the loops; scratch as of [`Blocks::run`].
    unsafe fn product(&self, [lhs, rhs]: [*const T; 2], out: *mut T, scratch: *mut T) {
        let Loops { batch, rows: (rows, _), columns: (columns, _), depth: (depths, _) } =
            &self.loops;
        batch.walk([0; 3], &mut |[a, b, c]| {
            rows.walk([a, c], &mut |[a, c]| {
                columns.walk([b, c], &mut |[b, c]| {
                    let mut accumulate = false;
                    depths.walk([a, b], &mut |[a, b]| {
                        // SAFETY: offsets of the loops.
                        unsafe {
                            let factors = [lhs.offset(a), rhs.offset(b)];
                            let c = out.offset(c);
                            self.product.run(factors, c, accumulate, scratch);
                        }
                        accumulate = true;
                    });
                });
            });
        });
    }
}

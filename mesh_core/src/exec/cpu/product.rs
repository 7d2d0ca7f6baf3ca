//! What `Contract` and `Convolve` share: two factors in, one result out, bf16 by way of f32.

use super::map::casts;
use super::map::tile::{ARGS, Run, Tile};
use super::{Kernel, Memory};
use crate::names::DType;
use crate::program::{Block, Operand, ValueId};

/// Two factors and a result, wherever they lie.
pub(super) trait Product: Send {
    /// Bytes of scratch.
    fn scratch_bytes(&self) -> usize;

    /// # Safety
    ///
    /// The operands are valid and the result overlaps no factor; scratch as for [`Kernel::run`].
    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8);
}

/// Bytes of `n` elements, rounded up so that what follows is aligned.
pub(super) fn aligned(n: usize, size: usize) -> usize {
    (n * size).next_multiple_of(64)
}

/// A product of values of a program.
struct OfValues {
    factors: [ValueId; 2],
    out: ValueId,
    product: Box<dyn Product>,
}

impl Kernel for OfValues {
    fn scratch_bytes(&self) -> usize {
        self.product.scratch_bytes()
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let [lhs, rhs] = self.factors.map(|value| memory.pointer(value));
        // SAFETY: `prepare` made the product for these values, which the kernel's contract makes valid.
        unsafe { self.product.run(lhs, rhs, memory.pointer(self.out), scratch) };
    }
}

/// Factors widened into scratch, the result rounded out of it.
struct Widened {
    product: Box<dyn Product>,
    lens: [usize; 3],
    widen: Run,
    narrow: Run,
}

impl Product for Widened {
    fn scratch_bytes(&self) -> usize {
        let held: usize = self.lens.iter().map(|&n| aligned(n, 4)).sum();
        held + self.product.scratch_bytes()
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let [m, n, k] = self.lens;
        // SAFETY: scratch has room for the three and for the product's own.
        unsafe {
            let wide_lhs = scratch;
            let wide_rhs = wide_lhs.add(aligned(m, 4));
            let wide_out = wide_rhs.add(aligned(n, 4));
            let rest = wide_out.add(aligned(k, 4));
            (self.widen)(Tile::row(m, wide_lhs, [lhs; ARGS]));
            (self.widen)(Tile::row(n, wide_rhs, [rhs; ARGS]));
            self.product.run(wide_lhs, wide_rhs, wide_out, rest);
            (self.narrow)(Tile::row(k, out, [wide_out.cast_const(); ARGS]));
        }
    }
}

/// The product of factors of one dtype, with so many elements, the result's last; `plan` makes it for
/// the dtype that is computed in.
pub(super) fn of(
    dtype: DType,
    lens: [usize; 3],
    plan: impl FnOnce(DType) -> Result<Box<dyn Product>, String>,
) -> Result<Box<dyn Product>, String> {
    let product = plan(dtype.reduction())?;
    if dtype != DType::BF16 {
        return Ok(product);
    }
    Ok(Box::new(Widened { product, lens, widen: casts::widen(), narrow: casts::narrow() }))
}

/// The kernel around a product of values.
pub(super) fn kernel(
    block: &Block,
    [lhs, rhs]: [&Operand; 2],
    out: ValueId,
    plan: impl FnOnce(DType) -> Result<Box<dyn Product>, String>,
) -> Result<Box<dyn Kernel>, String> {
    let values = [lhs.value, rhs.value, out];
    let dtype = block.value(out).dtype;
    if values.iter().any(|&value| block.value(value).dtype != dtype) {
        return Err("factors and result of a product are of one dtype".to_owned());
    }
    let product = of(dtype, values.map(|value| block.value(value).len()), plan)?;
    Ok(Box::new(OfValues { factors: [lhs.value, rhs.value], out, product }))
}

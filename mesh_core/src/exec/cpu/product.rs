//! What `Contract` and `Convolve` share: two factors in, one result out, bf16 by way of f32.

use super::map::instr;
use super::map::tile::{Run, Tile};
use super::{Kernel, Memory};
use crate::names::DType;
use crate::program::{Operand, Program, ValueId};

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

struct Direct {
    lhs: ValueId,
    rhs: ValueId,
    out: ValueId,
    product: Box<dyn Product>,
}

impl Kernel for Direct {
    fn scratch_bytes(&self) -> usize {
        self.product.scratch_bytes()
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let [lhs, rhs, out] = [self.lhs, self.rhs, self.out].map(|value| memory.pointer(value));
        // SAFETY: the caller's promise.
        unsafe { self.product.run(lhs, rhs, out, scratch) };
    }
}

/// Factors widened into scratch, the result rounded out of it.
struct Widened {
    direct: Direct,
    lens: [usize; 3],
    widen: Run,
    narrow: Run,
}

impl Kernel for Widened {
    fn scratch_bytes(&self) -> usize {
        let held: usize = self.lens.iter().map(|&n| aligned(n, 4)).sum();
        held + self.direct.product.scratch_bytes()
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let Direct { lhs, rhs, out, product } = &self.direct;
        let [lhs, rhs, out] = [lhs, rhs, out].map(|&value| memory.pointer(value));
        let [m, n, k] = self.lens;
        // SAFETY: scratch has room for the three and for the product's own.
        unsafe {
            let wide_lhs = scratch;
            let wide_rhs = wide_lhs.add(aligned(m, 4));
            let wide_out = wide_rhs.add(aligned(n, 4));
            let rest = wide_out.add(aligned(k, 4));
            (self.widen)(Tile::row(m, wide_lhs, [lhs; 3]));
            (self.widen)(Tile::row(n, wide_rhs, [rhs; 3]));
            product.run(wide_lhs, wide_rhs, wide_out, rest);
            (self.narrow)(Tile::row(k, out, [wide_out.cast_const(); 3]));
        }
    }
}

/// The kernel around a product of a dtype; `plan` makes it for the dtype that is computed in.
pub(super) fn kernel(
    program: &Program,
    [lhs, rhs]: [&Operand; 2],
    out: ValueId,
    plan: impl FnOnce(DType) -> Result<Box<dyn Product>, String>,
) -> Result<Box<dyn Kernel>, String> {
    let values = [lhs.value, rhs.value, out];
    let dtype = program.value(out).dtype;
    if values.iter().any(|&value| program.value(value).dtype != dtype) {
        return Err("factors and result of a product are of one dtype".to_owned());
    }
    let product = plan(dtype.reduction())?;
    let direct = Direct { lhs: lhs.value, rhs: rhs.value, out, product };
    if dtype != DType::BF16 {
        return Ok(Box::new(direct));
    }
    let lens = values.map(|value| program.value(value).len());
    Ok(Box::new(Widened { direct, lens, widen: instr::widen(), narrow: instr::narrow() }))
}

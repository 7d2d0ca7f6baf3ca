//! Loops over tiles of elements.

use crate::exec::cpu::isa::Task;
use crate::names::DType;
use std::marker::PhantomData;

/// What a loop over one tile works on. Arguments that are uniform have one element.
#[derive(Clone, Copy)]
pub(in crate::exec::cpu) struct Tile {
    pub(in crate::exec::cpu) len: usize,
    pub(in crate::exec::cpu) out: *mut u8,
    pub(in crate::exec::cpu) args: [*const u8; 3],
}

/// A loop over one tile.
///
/// # Safety
///
/// `out` is valid for `len` elements and overlaps no argument; arguments are valid for `len`
/// elements, or one if the loop was asked for with that argument uniform.
pub(in crate::exec::cpu) type Run = unsafe fn(Tile);

/// How a register is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::exec::cpu) enum Kind {
    F32,
    F64,
    I32,
    Bool,
}

impl Kind {
    /// How registers of a dtype are held; bf16 as f32.
    pub(in crate::exec::cpu) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 | DType::BF16 => Self::F32,
            DType::F64 => Self::F64,
            DType::I32 => Self::I32,
            DType::Bool => Self::Bool,
        }
    }

    /// Bytes per element.
    pub(in crate::exec::cpu) fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::Bool => 1,
        }
    }
}

pub(in crate::exec::cpu) trait Unary {
    type In: Copy;
    type Out: Copy;
    /// Whether some operands are `rare`.
    const RARE: bool = false;
    fn apply(a: Self::In) -> Self::Out;
    /// Whether `apply` is wrong for this operand.
    fn rare(_: Self::In) -> bool {
        false
    }
    /// For rare operands.
    fn slow(a: Self::In) -> Self::Out {
        Self::apply(a)
    }
}

pub(in crate::exec::cpu) trait Binary {
    type In: Copy;
    type Out: Copy;
    fn apply(a: Self::In, b: Self::In) -> Self::Out;
}

pub(in crate::exec::cpu) struct One<O>(PhantomData<O>);
pub(in crate::exec::cpu) struct Two<O, const A: bool, const B: bool>(PhantomData<O>);
pub(in crate::exec::cpu) struct Choose<T, const A: bool, const B: bool>(PhantomData<T>);

impl<O: Unary> Task for One<O> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        let n = tile.len;
        let a = tile.args[0].cast::<O::In>();
        let out = tile.out.cast::<O::Out>();
        // SAFETY: `Run`'s contract.
        let (a, out) =
            unsafe { (std::slice::from_raw_parts(a, n), std::slice::from_raw_parts_mut(out, n)) };
        for (out, &a) in out.iter_mut().zip(a) {
            *out = O::apply(a);
        }
        if O::RARE && a.iter().fold(false, |any, &a| any | O::rare(a)) {
            for (out, &a) in out.iter_mut().zip(a).filter(|(_, a)| O::rare(**a)) {
                *out = O::slow(a);
            }
        }
    }
}

impl<O: Binary, const A: bool, const B: bool> Task for Two<O, A, B> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        let n = tile.len;
        let [a, b, _] = tile.args.map(|arg| arg.cast::<O::In>());
        let out = tile.out.cast::<O::Out>();
        // SAFETY: `Run`'s contract; `A` and `B` say which arguments are uniform.
        let (a, b, out) = unsafe {
            (
                std::slice::from_raw_parts(a, if A { 1 } else { n }),
                std::slice::from_raw_parts(b, if B { 1 } else { n }),
                std::slice::from_raw_parts_mut(out, n),
            )
        };
        match (A, B) {
            (false, false) => {
                for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *out = O::apply(a, b);
                }
            }
            (true, false) => {
                let a = a[0];
                for (out, &b) in out.iter_mut().zip(b) {
                    *out = O::apply(a, b);
                }
            }
            (_, true) => {
                let b = b[0];
                for (out, &a) in out.iter_mut().zip(a) {
                    *out = O::apply(a, b);
                }
            }
        }
    }
}

impl<T: Copy, const A: bool, const B: bool> Task for Choose<T, A, B> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        let n = tile.len;
        let out = tile.out.cast::<T>();
        let [_, a, b] = tile.args.map(|arg| arg.cast::<T>());
        // SAFETY: `Run`'s contract; `A` and `B` say which alternatives are uniform.
        let (c, a, b, out) = unsafe {
            (
                std::slice::from_raw_parts(tile.args[0], n),
                std::slice::from_raw_parts(a, if A { 1 } else { n }),
                std::slice::from_raw_parts(b, if B { 1 } else { n }),
                std::slice::from_raw_parts_mut(out, n),
            )
        };
        for i in 0..n {
            let (a, b) = (a[if A { 0 } else { i }], b[if B { 0 } else { i }]);
            out[i] = if c[i] != 0 { a } else { b };
        }
    }
}

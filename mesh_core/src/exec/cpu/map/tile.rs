//! Loops over tiles of elements.

use crate::exec::cpu::isa::Task;
use crate::names::DType;
use std::marker::PhantomData;
use std::slice;

/// What a loop over one tile works on: rows of as many elements each. Arguments that are uniform have
/// one element a row.
#[derive(Clone, Copy)]
pub(in crate::exec::cpu) struct Tile {
    pub(in crate::exec::cpu) rows: usize,
    pub(in crate::exec::cpu) len: usize,
    pub(in crate::exec::cpu) out: *mut u8,
    pub(in crate::exec::cpu) args: [*const u8; 3],
    /// Bytes between rows of the out, then of the arguments.
    pub(in crate::exec::cpu) steps: [isize; 4],
}

impl Tile {
    /// One row.
    pub(in crate::exec::cpu) fn row(len: usize, out: *mut u8, args: [*const u8; 3]) -> Self {
        Self { rows: 1, len, out, args, steps: [0; 4] }
    }

    /// Calls `row` with where the out and the arguments of each row begin.
    #[inline(always)]
    fn each_row(self, mut row: impl FnMut(*mut u8, [*const u8; 3])) {
        let [to, steps @ ..] = self.steps;
        for i in 0..self.rows as isize {
            let at = |k: usize| self.args[k].wrapping_offset(i * steps[k]);
            row(self.out.wrapping_offset(i * to), [at(0), at(1), at(2)]);
        }
    }
}

/// A loop over one tile.
///
/// # Safety
///
/// In every row, `out` is valid for `len` elements and overlaps no argument; arguments are valid for
/// `len` elements, or one if the loop was asked for with that argument uniform.
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
/// `O` of `I` of the first two arguments and the third; or of the third and `I`, if `LAST`. `UNIFORM`
/// tells which argument is, if one is.
pub(in crate::exec::cpu) struct Pair<I, O, const LAST: bool, const UNIFORM: usize>(
    PhantomData<(I, O)>,
);
pub(in crate::exec::cpu) struct Choose<T, const A: bool, const B: bool>(PhantomData<T>);

impl<O: Unary> Task for One<O> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        let n = tile.len;
        tile.each_row(|out, [a, ..]| {
            // SAFETY: `Run`'s contract.
            let (a, out) = unsafe {
                let a = slice::from_raw_parts(a.cast::<O::In>(), n);
                (a, slice::from_raw_parts_mut(out.cast::<O::Out>(), n))
            };
            for (out, &a) in out.iter_mut().zip(a) {
                *out = O::apply(a);
            }
            if O::RARE && a.iter().fold(false, |any, &a| any | O::rare(a)) {
                for (out, &a) in out.iter_mut().zip(a).filter(|(_, a)| O::rare(**a)) {
                    *out = O::slow(a);
                }
            }
        });
    }
}

impl<O: Binary, const A: bool, const B: bool> Task for Two<O, A, B> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        let n = tile.len;
        tile.each_row(|out, [a, b, _]| {
            // SAFETY: `Run`'s contract; `A` and `B` say which arguments are uniform.
            let (a, b, out) = unsafe {
                (
                    slice::from_raw_parts(a.cast::<O::In>(), if A { 1 } else { n }),
                    slice::from_raw_parts(b.cast::<O::In>(), if B { 1 } else { n }),
                    slice::from_raw_parts_mut(out.cast::<O::Out>(), n),
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
        });
    }
}

impl<I, O, const LAST: bool, const UNIFORM: usize> Task for Pair<I, O, LAST, UNIFORM>
where
    I: Binary<Out = <I as Binary>::In>,
    O: Binary<In = I::In>,
{
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        let n = tile.len;
        tile.each_row(|out, args| {
            let len = |k: usize| if k == UNIFORM { 1 } else { n };
            // SAFETY: `Run`'s contract; `UNIFORM` says which argument is uniform.
            let arg = |k: usize| unsafe { slice::from_raw_parts(args[k].cast::<I::In>(), len(k)) };
            let (a, b, c) = (arg(0), arg(1), arg(2));
            // SAFETY: as above.
            let out = unsafe { slice::from_raw_parts_mut(out.cast::<O::Out>(), n) };
            for i in 0..n {
                let at = |of: &[I::In], k: usize| of[if k == UNIFORM { 0 } else { i }];
                let (inner, c) = (I::apply(at(a, 0), at(b, 1)), at(c, 2));
                out[i] = if LAST { O::apply(c, inner) } else { O::apply(inner, c) };
            }
        });
    }
}

impl<T: Copy, const A: bool, const B: bool> Task for Choose<T, A, B> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        let n = tile.len;
        tile.each_row(|out, [c, a, b]| {
            // SAFETY: `Run`'s contract; `A` and `B` say which alternatives are uniform.
            let (c, a, b, out) = unsafe {
                (
                    slice::from_raw_parts(c, n),
                    slice::from_raw_parts(a.cast::<T>(), if A { 1 } else { n }),
                    slice::from_raw_parts(b.cast::<T>(), if B { 1 } else { n }),
                    slice::from_raw_parts_mut(out.cast::<T>(), n),
                )
            };
            for i in 0..n {
                let (a, b) = (a[if A { 0 } else { i }], b[if B { 0 } else { i }]);
                out[i] = if c[i] != 0 { a } else { b };
            }
        });
    }
}

//! Loops over tiles of elements.

use crate::exec::cpu::cache;
use crate::exec::cpu::fetch;
use crate::exec::cpu::isa::Task;
use crate::names::DType;
use std::array::from_fn;
use std::hint;
use std::marker::PhantomData;

/// Arguments that a loop over tiles may have.
pub(in crate::exec::cpu) const ARGS: usize = 4;

/// What a loop over one tile works on: rows of as many elements each. Arguments that are uniform have
/// one element a row.
#[derive(Clone, Copy)]
pub(in crate::exec::cpu) struct Tile {
    pub(in crate::exec::cpu) rows: usize,
    pub(in crate::exec::cpu) len: usize,
    pub(in crate::exec::cpu) out: *mut u8,
    pub(in crate::exec::cpu) args: [*const u8; ARGS],
    /// Bytes between rows of the out, then of the arguments.
    pub(in crate::exec::cpu) steps: [isize; ARGS + 1],
}

impl Tile {
    /// One row.
    pub(in crate::exec::cpu) fn row(len: usize, out: *mut u8, args: [*const u8; ARGS]) -> Self {
        Self { rows: 1, len, out, args, steps: [0; ARGS + 1] }
    }

    /// Where the out and the arguments of row `i` begin.
    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> (*mut u8, [*const u8; ARGS]) {
        let [to, steps @ ..] = self.steps;
        let args = from_fn(|k| self.args[k].wrapping_offset(i as isize * steps[k]));
        (self.out.wrapping_offset(i as isize * to), args)
    }
}

/// A loop over one tile.
///
/// # Safety
///
/// In every row, `out` is valid for `len` elements and overlaps no argument, but that it may lie where one
/// argument of elements as large does; arguments are valid for `len` elements, or one if the loop was
/// asked for with that argument uniform.
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
    /// For any operand; what `apply` gives where that is right.
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
/// `O` of `I` of the first two arguments and the third; or of the third and `I`, if `LAST`. Bit `k` of
/// `UNIFORM` tells whether argument `k` is.
pub(in crate::exec::cpu) struct Pair<I, O, const LAST: bool, const UNIFORM: usize>(
    PhantomData<(I, O)>,
);
pub(in crate::exec::cpu) struct Choose<T, const A: bool, const B: bool>(PhantomData<T>);
/// The third argument where the comparison `O` of the first two holds, else the fourth; all are of 4 bytes.
/// Bit `k` of `UNIFORM` tells whether argument `k` is.
pub(in crate::exec::cpu) struct ChooseBy<O, const UNIFORM: usize>(PhantomData<O>);

/// Whether bit `k` is set.
#[inline(always)]
pub(super) const fn is_in(bits: usize, k: usize) -> bool {
    bits >> k & 1 == 1
}

/// Makes `n` elements one by one. No function with a closure: that would be compiled once for all
/// instruction sets.
macro_rules! each {
    ($n:expr, $out:expr, $i:ident => $value:expr) => {
        for $i in 0..$n {
            $out.add($i).write($value);
        }
    };
}

pub(super) use each;

/// Whether an out lies where an argument does: then a loop of its own is fast, since compilers take
/// the general one for overlapping.
#[inline(always)]
pub(super) fn is_over<T, A>(out: *mut T, argument: *const A) -> bool {
    size_of::<T>() == 4 && size_of::<A>() == 4 && out.cast_const().cast() == argument
}

impl<O: Unary> One<O> {
    /// # Safety
    ///
    /// Both are valid for `n` elements, and equal if they overlap.
    #[inline(always)]
    unsafe fn make(out: *mut O::Out, a: *const O::In, n: usize) {
        let over = out.cast::<O::In>();
        // SAFETY: `a` and `out` are valid for `n` elements, and equal if they overlap.
        unsafe {
            let mut any = false;
            for i in 0..if O::RARE { n } else { 0 } {
                any |= O::rare(*a.add(i));
            }
            match (any, is_over(out, a)) {
                (false, false) => each!(n, out, i => O::apply(*a.add(i))),
                (false, true) => each!(n, out, i => O::apply(*over.add(i))),
                (true, false) => each!(n, out, i => O::slow(*a.add(i))),
                (true, true) => each!(n, out, i => O::slow(*over.add(i))),
            }
        }
    }
}

impl<O: Unary> Task for One<O> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        for row in 0..tile.rows {
            let (out, [a, ..]) = tile.at(row);
            let (a, out, n) = (a.cast::<O::In>(), out.cast::<O::Out>(), tile.len);
            let is_far = n >= FAR && !cache::comes_unasked();
            let part = if O::RARE || is_far { PART } else { n };
            let mut from = 0;
            while from < n {
                let count = part.min(n - from);
                let (a, out) = (a.wrapping_add(from), out.wrapping_add(from));
                if is_far {
                    soon(a, out);
                }
                // SAFETY: `Run`'s contract.
                unsafe { Self::make(out, a, count) };
                from += count;
            }
        }
    }
}

/// Elements from which one row is a whole array in memory, none of which has been asked for.
const FAR: usize = 1 << 15;

/// Elements among which rare ones are looked for before they are computed, and which are asked for at once: few, since
/// memory waits.
const PART: usize = 256;

/// Asks for elements to be read and to be written that soon come.
#[inline(always)]
fn soon<A, T>(a: *const A, out: *mut T) {
    const AHEAD: usize = 2 << 10;
    let (a, out) = (a.cast::<u8>().wrapping_add(AHEAD), out.cast::<u8>().wrapping_add(AHEAD));
    fetch::run(a, PART * size_of::<A>(), fetch::to_first);
    fetch::run(out, PART * size_of::<T>(), fetch::to_write);
}

impl<O: Binary, const A: bool, const B: bool> Task for Two<O, A, B> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        for row in 0..tile.rows {
            let (out, [a, b, ..]) = tile.at(row);
            let (a, b, out) = (a.cast::<O::In>(), b.cast::<O::In>(), out.cast::<O::Out>());
            let (over, n) = (out.cast::<O::In>(), tile.len);
            // SAFETY: `Run`'s contract; `A` and `B` say which arguments are uniform.
            unsafe {
                let (one_a, one_b) = (*a, *b);
                match (A, B) {
                    (true, _) if is_over(out, b) => {
                        each!(n, out, i => O::apply(one_a, *over.add(i)))
                    }
                    (true, _) => each!(n, out, i => O::apply(one_a, *b.add(i))),
                    (_, true) if is_over(out, a) => {
                        each!(n, out, i => O::apply(*over.add(i), one_b))
                    }
                    (_, true) => each!(n, out, i => O::apply(*a.add(i), one_b)),
                    _ if is_over(out, a) => each!(n, out, i => O::apply(*over.add(i), *b.add(i))),
                    _ if is_over(out, b) => each!(n, out, i => O::apply(*a.add(i), *over.add(i))),
                    _ => each!(n, out, i => O::apply(*a.add(i), *b.add(i))),
                }
            }
        }
    }
}

impl<I, O, const LAST: bool, const UNIFORM: usize> Pair<I, O, LAST, UNIFORM>
where
    I: Binary<Out = <I as Binary>::In>,
    O: Binary<In = I::In>,
{
    /// # Safety
    ///
    /// The arguments are valid at `i`, but for uniform ones, which are `ones`.
    #[inline(always)]
    unsafe fn make(args: [*const I::In; 3], ones: [I::In; 3], i: usize) -> O::Out {
        // SAFETY: `i` is below the tile's length, for which every argument that varies is valid.
        let at = |k: usize| if is_in(UNIFORM, k) { ones[k] } else { unsafe { *args[k].add(i) } };
        let (inner, c) = (I::apply(at(0), at(1)), at(2));
        if LAST { O::apply(c, inner) } else { O::apply(inner, c) }
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
        for row in 0..tile.rows {
            let (out, args) = tile.at(row);
            let ([a, b, c, _], out) = (args.map(<*const u8>::cast::<I::In>), out.cast::<O::Out>());
            let (over, n) = (out.cast::<I::In>().cast_const(), tile.len);
            // SAFETY: `Run`'s contract; `UNIFORM` says which arguments are uniform.
            unsafe {
                let ones = [*a, *b, *c];
                match () {
                    () if !is_in(UNIFORM, 0) && is_over(out, a) => {
                        each!(n, out, i => Self::make([over, b, c], ones, i));
                    }
                    () if !is_in(UNIFORM, 1) && is_over(out, b) => {
                        each!(n, out, i => Self::make([a, over, c], ones, i));
                    }
                    () if !is_in(UNIFORM, 2) && is_over(out, c) => {
                        each!(n, out, i => Self::make([a, b, over], ones, i));
                    }
                    () => each!(n, out, i => Self::make([a, b, c], ones, i)),
                }
            }
        }
    }
}

impl<T: Copy, const A: bool, const B: bool> Choose<T, A, B> {
    /// # Safety
    ///
    /// The arguments are valid at `i`, but for uniform alternatives, which are `ones`.
    #[inline(always)]
    unsafe fn make(c: *const u8, [a, b]: [*const T; 2], ones: [T; 2], i: usize) -> T {
        // SAFETY: `i` is below the tile's length, for which every argument that varies is valid.
        unsafe {
            let a = if A { ones[0] } else { *a.add(i) };
            let b = if B { ones[1] } else { *b.add(i) };
            // A branch here ends up around the loads, so that nothing goes by vectors.
            hint::select_unpredictable(*c.add(i) != 0, a, b)
        }
    }
}

impl<T: Copy, const A: bool, const B: bool> Task for Choose<T, A, B> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        for row in 0..tile.rows {
            let (out, [c, a, b, _]) = tile.at(row);
            let (a, b, out) = (a.cast::<T>(), b.cast::<T>(), out.cast::<T>());
            let (over, n) = (out.cast_const(), tile.len);
            // SAFETY: `Run`'s contract; `A` and `B` say which alternatives are uniform.
            unsafe {
                let ones = [*a, *b];
                match () {
                    () if !A && is_over(out, a) => {
                        each!(n, out, i => Self::make(c, [over, b], ones, i));
                    }
                    () if !B && is_over(out, b) => {
                        each!(n, out, i => Self::make(c, [a, over], ones, i));
                    }
                    () => each!(n, out, i => Self::make(c, [a, b], ones, i)),
                }
            }
        }
    }
}

impl<O: Binary<Out = u8>, const UNIFORM: usize> ChooseBy<O, UNIFORM> {
    /// # Safety
    ///
    /// The arguments are valid at `i`, but for uniform ones, which are `ones`.
    #[inline(always)]
    unsafe fn make(
        (compared, chosen): ([*const O::In; 2], [*const u32; 2]),
        ones: ([O::In; 2], [u32; 2]),
        i: usize,
    ) -> u32 {
        // SAFETY: `i` is below the tile's length, for which every argument that varies is valid.
        unsafe {
            let a = if is_in(UNIFORM, 0) { ones.0[0] } else { *compared[0].add(i) };
            let b = if is_in(UNIFORM, 1) { ones.0[1] } else { *compared[1].add(i) };
            let c = if is_in(UNIFORM, 2) { ones.1[0] } else { *chosen[0].add(i) };
            let d = if is_in(UNIFORM, 3) { ones.1[1] } else { *chosen[1].add(i) };
            hint::select_unpredictable(O::apply(a, b) != 0, c, d)
        }
    }
}

impl<O: Binary<Out = u8>, const UNIFORM: usize> Task for ChooseBy<O, UNIFORM> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        for row in 0..tile.rows {
            let (out, [a, b, c, d]) = tile.at(row);
            let (a, b) = (a.cast::<O::In>(), b.cast::<O::In>());
            let (c, d, out) = (c.cast::<u32>(), d.cast::<u32>(), out.cast::<u32>());
            let (over, over_in, n) = (out.cast_const(), out.cast_const().cast(), tile.len);
            // SAFETY: `Run`'s contract; `UNIFORM` says which arguments are uniform.
            unsafe {
                let ones = ([*a, *b], [*c, *d]);
                match () {
                    () if !is_in(UNIFORM, 0) && over_in == a => {
                        each!(n, out, i => Self::make(([over_in, b], [c, d]), ones, i));
                    }
                    () if !is_in(UNIFORM, 1) && over_in == b => {
                        each!(n, out, i => Self::make(([a, over_in], [c, d]), ones, i));
                    }
                    () if !is_in(UNIFORM, 2) && over == c => {
                        each!(n, out, i => Self::make(([a, b], [over, d]), ones, i));
                    }
                    () if !is_in(UNIFORM, 3) && over == d => {
                        each!(n, out, i => Self::make(([a, b], [c, over]), ones, i));
                    }
                    () => each!(n, out, i => Self::make(([a, b], [c, d]), ones, i)),
                }
            }
        }
    }
}

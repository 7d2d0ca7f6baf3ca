//! Some operations on four numbers in one loop.

use super::tile::{ARGS, Run, Tile, each, is_in, is_over};
use crate::exec::cpu::isa::{Task, compiled};
use crate::exec::cpu::vmath::{max_f32, min_f32};
use crate::program::Prim;
use std::hint::select_unpredictable;
use std::marker::PhantomData;

/// Operations on four numbers of f32.
trait Three {
    fn apply(args: [f32; ARGS]) -> f32;
}

/// `(c - a b) d`: numbers less a multiple of others, weighed. A Huber loss is that.
struct Weighed;

impl Three for Weighed {
    #[inline(always)]
    fn apply([a, b, c, d]: [f32; ARGS]) -> f32 {
        (c - a * b) * d
    }
}

/// `(a - b) c + d`: numbers that are normalised, scaled and shifted.
struct Normalised;

impl Three for Normalised {
    #[inline(always)]
    fn apply([a, b, c, d]: [f32; ARGS]) -> f32 {
        (a - b) * c + d
    }
}

/// What a difference is cut to, times the difference less half of that: a Huber loss of `a` and `b`, cut to `c` and `d`.
struct Huber;

impl Three for Huber {
    #[inline(always)]
    fn apply([a, b, c, d]: [f32; ARGS]) -> f32 {
        let cut = min_f32(max_f32(a - b, c), d);
        cut * ((a - b) - cut * 0.5)
    }
}

/// `b` where `a` lies from `c` to `d`, else 0: the gradient of what is cut to these bounds.
struct Within;

impl Three for Within {
    #[inline(always)]
    fn apply([a, b, c, d]: [f32; ARGS]) -> f32 {
        select_unpredictable(a >= c && a <= d, b, 0.0)
    }
}

/// `d` times `a` where `b` lies below `c`, else 0: what a dropout leaves.
struct Left;

impl Three for Left {
    #[inline(always)]
    fn apply([a, b, c, d]: [f32; ARGS]) -> f32 {
        select_unpredictable(b < c, a * d, 0.0)
    }
}

/// The loop whose third and fourth arguments are constants.
fn of_two<T: Three>(uniform: [bool; ARGS]) -> Option<Run> {
    Some(match uniform {
        [false, false, true, true] => compiled::<Triple<T, 0b1100>>(),
        [true, false, true, true] => compiled::<Triple<T, 0b1101>>(),
        [false, true, true, true] => compiled::<Triple<T, 0b1110>>(),
        [false, false, false, false] => compiled::<Triple<T, 0>>(),
        _ => return None,
    })
}

/// The loop for a Huber loss, whose bounds are constants.
pub(super) fn huber(uniform: [bool; ARGS]) -> Option<Run> {
    of_two::<Huber>(uniform)
}

/// The loop for what lies within constant bounds.
pub(super) fn within(uniform: [bool; ARGS]) -> Option<Run> {
    of_two::<Within>(uniform)
}

/// The loop for a dropout, whose share and scale are constants.
pub(super) fn left(uniform: [bool; ARGS]) -> Option<Run> {
    of_two::<Left>(uniform)
}

/// The loop for `outer(middle(inner(a, b), c), d)` of f32, or with `middle(c, inner(a, b))` if the inner one comes
/// `last`; the bits are those of one after the other.
pub(super) fn apply_triple(prims: [Prim; 3], last: bool, uniform: [bool; ARGS]) -> Option<Run> {
    Some(match (prims, last, uniform) {
        (WEIGHED, true, [false, true, false, false]) => compiled::<Triple<Weighed, 0b0010>>(),
        (NORMALISED, _, [false, false, false, false]) => compiled::<Triple<Normalised, 0>>(),
        (NORMALISED, _, [false, true, true, true]) => compiled::<Triple<Normalised, 0b1110>>(),
        _ => return None,
    })
}

const WEIGHED: [Prim; 3] = [Prim::Mul, Prim::Sub, Prim::Mul];
const NORMALISED: [Prim; 3] = [Prim::Sub, Prim::Mul, Prim::Add];

/// Whether there is such a loop for some arguments.
pub(super) fn has_triple(prims: [Prim; 3], last: bool) -> bool {
    prims == WEIGHED && last || prims == NORMALISED
}

/// Bit `k` of `UNIFORM` tells whether argument `k` is uniform.
struct Triple<T, const UNIFORM: usize>(PhantomData<T>);

impl<T: Three, const UNIFORM: usize> Triple<T, UNIFORM> {
    /// # Safety
    ///
    /// The arguments are valid at `i`, but for uniform ones, which are `ones`.
    #[inline(always)]
    unsafe fn make(args: [*const f32; ARGS], ones: [f32; ARGS], i: usize) -> f32 {
        // SAFETY: `i` is below the tile's length, for which every argument that varies is valid.
        let at = |k: usize| if is_in(UNIFORM, k) { ones[k] } else { unsafe { *args[k].add(i) } };
        T::apply([at(0), at(1), at(2), at(3)])
    }
}

impl<T: Three, const UNIFORM: usize> Task for Triple<T, UNIFORM> {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        for row in 0..tile.rows {
            let (out, args) = tile.at(row);
            let ([a, b, c, d], out) = (args.map(<*const u8>::cast::<f32>), out.cast::<f32>());
            let (over, n) = (out.cast_const(), tile.len);
            // SAFETY: `Run`'s contract; `UNIFORM` says which arguments are uniform.
            unsafe {
                let ones = [*a, *b, *c, *d];
                match () {
                    () if !is_in(UNIFORM, 0) && is_over(out, a) => {
                        each!(n, out, i => Self::make([over, b, c, d], ones, i));
                    }
                    () if !is_in(UNIFORM, 1) && is_over(out, b) => {
                        each!(n, out, i => Self::make([a, over, c, d], ones, i));
                    }
                    () if !is_in(UNIFORM, 2) && is_over(out, c) => {
                        each!(n, out, i => Self::make([a, b, over, d], ones, i));
                    }
                    () if !is_in(UNIFORM, 3) && is_over(out, d) => {
                        each!(n, out, i => Self::make([a, b, c, over], ones, i));
                    }
                    () => each!(n, out, i => Self::make([a, b, c, d], ones, i)),
                }
            }
        }
    }
}

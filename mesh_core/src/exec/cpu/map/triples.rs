//! Three operations in one loop.

use super::tile::{ARGS, Run, Tile, each, is_over};
use crate::exec::cpu::isa::{Task, compiled};
use crate::program::Prim;

/// `(c - a b) d` with one b for all: numbers less a multiple of others, weighed. A Huber loss is that.
struct Weighed;

/// The loop for `outer(middle(inner(a, b), c), d)` of f32, or with `middle(c, inner(a, b))` if the inner one comes
/// `last`; the bits are those of one after the other.
pub(super) fn apply_triple(prims: [Prim; 3], last: bool, uniform: [bool; ARGS]) -> Option<Run> {
    let found = has_triple(prims, last) && uniform == [false, true, false, false];
    found.then(compiled::<Weighed>)
}

/// Whether there is such a loop, if the second argument alone is uniform.
pub(super) fn has_triple(prims: [Prim; 3], last: bool) -> bool {
    prims == [Prim::Mul, Prim::Sub, Prim::Mul] && last
}

impl Weighed {
    /// # Safety
    ///
    /// The arguments are valid at `i`.
    #[inline(always)]
    unsafe fn make([a, c, d]: [*const f32; 3], b: f32, i: usize) -> f32 {
        // SAFETY: `i` is below the tile's length, for which these three are valid.
        let [a, c, d] = unsafe { [*a.add(i), *c.add(i), *d.add(i)] };
        (c - a * b) * d
    }
}

impl Task for Weighed {
    type Args = Tile;
    type Result = ();

    #[inline(always)]
    unsafe fn run(tile: Tile) {
        for row in 0..tile.rows {
            let (out, args) = tile.at(row);
            let ([a, b, c, d], out) = (args.map(<*const u8>::cast::<f32>), out.cast::<f32>());
            let (over, n) = (out.cast_const(), tile.len);
            // SAFETY: `Run`'s contract: the second argument alone has one element.
            unsafe {
                let b = *b;
                match () {
                    () if is_over(out, a) => {
                        each!(n, out, i => Self::make([over, c, d], b, i));
                    }
                    () if is_over(out, c) => {
                        each!(n, out, i => Self::make([a, over, d], b, i));
                    }
                    () if is_over(out, d) => {
                        each!(n, out, i => Self::make([a, c, over], b, i));
                    }
                    () => each!(n, out, i => Self::make([a, c, d], b, i)),
                }
            }
        }
    }
}

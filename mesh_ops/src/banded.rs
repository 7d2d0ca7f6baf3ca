//! Sums over neighbours with given weights: what a resized or an adaptively pooled dim is made of.
//!
//! With g the greatest common divisor of the sizes n and m before and after, the dim consists of g blocks of n / g
//! positions that become m / g each. A layout that cuts both sizes cuts between blocks, so a processor needs
//! of its neighbours only what its outer blocks see of theirs: windows, which exchange margins.

use crate::room::*;
use ndarray::Array3;

/// How the positions of a dim depend on those of another size.
pub(crate) struct Bands {
    dim: Dimension,
    size: usize,
    /// Of each new position, the old ones that it sees and their weights.
    seen: Vec<Vec<(usize, f64)>>,
}

/// Windows over the blocks of a dim, and which position of which is seen by which new position.
pub(crate) struct Blocks<'g> {
    /// `x` with the dim resized to the number of blocks, and after it `tap`.
    pub(crate) windows: Tensor<'g>,
    /// The position in a window.
    pub(crate) tap: Dimension,
    /// The new position in a block.
    pub(crate) phase: Dimension,
    /// `[blocks, tap, phase]`.
    pub(crate) weights: Array3<f64>,
    /// The dim, of the size of the number of blocks.
    pub(crate) blocks: Dimension,
}

pub(crate) fn greatest_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

impl Bands {
    /// `size` new positions along `dim`, each of which sees old ones with these weights.
    pub(crate) fn new(
        dim: Dimension,
        size: usize,
        seen: impl Fn(usize) -> Vec<(usize, f64)>,
    ) -> Self {
        Self { dim, size, seen: (0..size).map(seen).collect() }
    }

    #[track_caller]
    pub(crate) fn blocks<'g>(&self, x: Tensor<'g>) -> Blocks<'g> {
        let count = greatest_divisor(self.dim.size, self.size).max(1);
        let (old, new) = (self.dim.size / count, self.size / count);
        // Positions from the beginning of a block to what its new positions see.
        let offset = |to: usize, from: usize| from as i64 - (to / new.max(1) * old) as i64;
        let seen = || self.seen.iter().enumerate();
        let offsets =
            seen().flat_map(|(to, seen)| seen.iter().map(move |(from, _)| offset(to, *from)));
        let (first, last) =
            offsets.fold((0, 0), |(first, last), at: i64| (first.min(at), last.max(at)));
        let (before, taps) = (first.unsigned_abs() as usize, (last - first + 1) as usize);
        let after = (last + 1).unsigned_abs() as usize;
        let tap = apart(&x.shape(), self.dim, "tap").resized(taps);
        let phase = apart(&x.shape(), self.dim, "phase").resized(new);
        let mut weights = Array3::zeros((count, taps, new));
        for (to, seen) in seen() {
            for (from, weight) in seen {
                let at = (offset(to, *from) - first) as usize;
                weights[[to / new, at, to % new]] += weight;
            }
        }
        let pads = [before, after.saturating_sub(old)];
        let windows = crate::windows(x, self.dim, tap, old, pads);
        Blocks { windows, tap, phase, weights, blocks: self.dim.resized(count) }
    }

    /// The weighted sums; floats.
    #[track_caller]
    pub(crate) fn sums<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let Blocks { windows, tap, phase, weights, blocks } = self.blocks(x);
        let weights = x.graph().constant(weights, [blocks, tap, phase]);
        let weights = crate::elementwise::cast(weights, x.dtype());
        let kept = windows.shape();
        let dims = kept.iter().map(|dim| if dim == tap { phase } else { dim });
        let sums = crate::einsum::einsum(windows, &[weights], dims.collect::<Vec<_>>());
        self.joined(sums, &x.shape())
    }

    /// Blocks with their new positions after them, as one dim again.
    #[track_caller]
    pub(crate) fn joined<'g>(&self, x: Tensor<'g>, before: &Shape) -> Tensor<'g> {
        let resized =
            |dim: Dimension| if dim.name == self.dim.name { dim.resized(self.size) } else { dim };
        crate::reshape(x, before.iter().map(resized).collect::<Vec<_>>())
    }
}

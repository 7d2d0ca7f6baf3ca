//! Zigzag order: positions dealt so that processors that share them have equal work under a causal mask.
//!
//! In order, the last of `p` processors looks at nearly twice the mean of positions. Cut into `2P` pieces, of
//! which piece `i` and piece `2P - 1 - i` lie side by side, each pair looks at as many as any other, so each
//! processor does if their number divides `P` (as PyTorch's context parallelism and NeMo have it; for pieces
//! of one position: Brandon et al. 2023, arXiv 2311.09431). What is the same for each position, as embeddings
//! and losses are, needs no order; what is not takes positions from [`zigzag`] of their numbers. Compositions
//! of reshape, slice, flip and stack.

use crate::room::*;

/// `x` with the positions of `length` in `pieces` equal pieces, an even number, in the order
/// 0, pieces - 1, 1, pieces - 2, and so on.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let length = dim("length", 16);
/// let positions = mesh_ops::range(&g, length, I32);
/// // 0 1 14 15 2 3 12 13 4 5 10 11 6 7 8 9
/// let dealt = mesh_ops::zigzag(positions, length, 8);
/// assert_eq!(mesh_ops::zigzag_inverse(dealt, length, 8).shape(), positions.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn zigzag(x: Tensor<'_>, length: Dimension, pieces: usize) -> Tensor<'_> {
    let _caller = x.graph().for_caller();
    let Some(cut) = Cut::of("zigzag", x, length, pieces) else { return x.poisoned() };
    let halves = crate::reshape(x, cut.shape(x, [cut.half, cut.pair, cut.piece]));
    let half = |i| {
        crate::reshape(
            crate::slice(halves, cut.half.resized(1), i),
            cut.shape(x, [cut.pair, cut.piece]),
        )
    };
    let pairs = crate::stack(half(0), &[crate::flip(half(1), [cut.pair])], cut.half.name);
    let dims = cut.shape(x, [cut.pair, cut.half, cut.piece]);
    crate::reshape(crate::transpose(pairs, dims), x.shape())
}

/// The inverse of [`zigzag`]: positions in order again.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let length = dim("length", 16);
/// let x = g.input("x", [dim("batch", 2), length], F32);
/// assert_eq!(mesh_ops::zigzag_inverse(x, length, 4).shape(), x.shape());
/// ```
#[track_caller]
pub fn zigzag_inverse(x: Tensor<'_>, length: Dimension, pieces: usize) -> Tensor<'_> {
    let _caller = x.graph().for_caller();
    let Some(cut) = Cut::of("zigzag_inverse", x, length, pieces) else { return x.poisoned() };
    let pairs = crate::reshape(x, cut.shape(x, [cut.pair, cut.half, cut.piece]));
    let half = |i| {
        crate::reshape(
            crate::slice(pairs, cut.half.resized(1), i),
            cut.shape(x, [cut.pair, cut.piece]),
        )
    };
    let halves = crate::stack(half(0), &[crate::flip(half(1), [cut.pair])], cut.half.name);
    let dims = cut.shape(x, [cut.half, cut.pair, cut.piece]);
    crate::reshape(crate::transpose(halves, dims), x.shape())
}

/// The dims that a length is cut into.
struct Cut {
    length: Dimension,
    /// Of pieces: those from the beginning, and those from the end.
    half: Dimension,
    pair: Dimension,
    piece: Dimension,
}

impl Cut {
    #[track_caller]
    fn of(op: &'static str, x: Tensor<'_>, length: Dimension, pieces: usize) -> Option<Self> {
        let shape = x.shape();
        let even = pieces > 0 && pieces.is_multiple_of(2) && length.size.is_multiple_of(pieces);
        let odd = || {
            format!(
                "{length} cannot be cut into {pieces} pieces: an even number that divides it can be"
            )
        };
        let problem = lacking(x, length).or_else(|| (!even).then(odd));
        if x.is_poisoned() {
            return None;
        }
        if let Some(problem) = problem {
            x.graph().record(op, problem);
            return None;
        }
        let named = |word, size| apart(&shape, length, word).resized(size);
        let (half, pair) = (named("half", 2), named("pair", pieces / 2));
        Some(Self { length, half, pair, piece: named("piece", length.size / pieces) })
    }

    /// The dims of `x`, with others in place of the length.
    fn shape<const N: usize>(&self, x: Tensor<'_>, dims: [Dimension; N]) -> Vec<Dimension> {
        let apart = |d: Dimension| if d == self.length { dims.to_vec() } else { vec![d] };
        x.shape().iter().flat_map(apart).collect()
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                dealt("zigzag", |x| zigzag(x, dim("length", 8), 8), order),
                dealt(
                    "zigzag_inverse",
                    |x| zigzag_inverse(x, dim("length", 8), 8),
                    |place| (0..8).position(|at| order(at) == place).unwrap_or(8),
                ),
            ]
        },
    };

    /// Which position lies at a place, of eight in pieces of one: from the beginning and the end in turns.
    fn order(at: usize) -> usize {
        if at.is_multiple_of(2) { at / 2 } else { 7 - at / 2 }
    }

    /// A function, and from which position an element at a place is.
    fn dealt(name: &str, function: Unary, from: fn(usize) -> usize) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .computes(move |x, ty| {
                Dense::each(ty, |at| x[0].at(&at.with("length", from(at.along("length")))))
            })
            .exact()
            .integers("x", "batch:2;length:8", F32)
            .meshes(GRIDS)
    }
}

//! `pad_with(x, dim, low, high, padding)`: a tensor's own elements before and after it along one dim.
//! [`pad`](crate::pad) puts zeros there.
//!
//! A composition: the rows of the border are looked up in x, and then padded with. Over a split dim each
//! processor looks up what it has; the border alone is summed, and of x travels what `pad` moves. The gradient
//! falls out: the sum over all places that an element came to.

use crate::gather::gather_onto;
use crate::pad::pad_by;
use crate::room::*;

/// What comes before the first and after the last element: of `a b c`, two places.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Padding {
    /// `c b|a b c|b a`: the others again, backwards. `reflect` in JAX and PyTorch.
    Reflect,
    /// `b a|a b c|c b`: all again, backwards. `symmetric` in JAX.
    Symmetric,
    /// `a a|a b c|c c`: the last one again. `edge` in JAX, `replicate` in PyTorch.
    Edge,
    /// `b c|a b c|a b`: all again. `wrap` in JAX, `circular` in PyTorch.
    Wrap,
}

impl Padding {
    /// Which of `count` elements stands `at` places after the first.
    fn source(self, at: i64, count: i64) -> i64 {
        // To the end and back: that far until it begins anew.
        let folded = |period: i64, far: i64| {
            let there = at.rem_euclid(period);
            there.min(far - there)
        };
        match self {
            Self::Edge => at.clamp(0, count - 1),
            Self::Wrap => at.rem_euclid(count),
            Self::Symmetric => folded(2 * count, 2 * count - 1),
            Self::Reflect if count == 1 => 0,
            Self::Reflect => folded(2 * (count - 1), 2 * (count - 1)),
        }
    }
}

/// `x` with `low` more positions before and `high` more after those along `dim`, which grows. More may be asked
/// for than there are elements: then it goes on to and fro, or round and round. Along a split `dim` all processors
/// get the new positions' elements, and those of x that move to another processor's part are sent there.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{Padding, pad_with};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("time", 5), dim("y", 2)], F32);
/// let padded = pad_with(x, dim("time", 5), 2, 1, Padding::Reflect);
/// assert_eq!(padded.shape().to_string(), "[time:8, y:2]");
/// ```
#[track_caller]
pub fn pad_with(
    x: Tensor<'_>,
    dim: Dimension,
    low: usize,
    high: usize,
    padding: Padding,
) -> Tensor<'_> {
    let size = dim.size.saturating_add(low).saturating_add(high);
    let large = (i32::try_from(size).is_err()).then(|| format!("{dim} grows beyond i32"));
    if let Some(problem) = lacking(x, dim).or(large).filter(|_| !x.is_poisoned()) {
        x.graph().record("pad_with", problem);
        return x.poisoned();
    }
    if x.is_poisoned() || low + high == 0 {
        return x;
    }
    let _caller = x.graph().for_caller();
    let (count, before) = (dim.size as i64, low as i64);
    let outside = (-before..0).chain(count..count + high as i64);
    let from = outside.map(|at| padding.source(at, count) as i32);
    let border = apart(&x.shape(), dim, "border").resized(low + high);
    let from = x.graph().constant(ndarray::Array1::from_iter(from), [border]);
    let rows = x.shape().into_iter().map(|d| if d == dim { border } else { d });
    match Shape::new(rows) {
        Ok(rows) => pad_by(x, dim, low, gather_onto(x, from, dim, rows), border),
        Err(_) => x.poisoned(),
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
                padded("pad_with", Padding::Reflect, &[2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3]),
                padded(
                    "pad_with: all again",
                    Padding::Symmetric,
                    &[1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1],
                ),
                padded("pad_with: edge", Padding::Edge, &[0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3, 3]),
                padded("pad_with: wrap", Padding::Wrap, &[2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1]),
                Case::new("pad_with: a narrow border", |_, x| {
                    pad_with(x[0], dim("q", 12), 3, 1, Padding::Reflect)
                })
                .computes(|x, ty| {
                    let from = |at: usize| (at as i64 - 3).abs().min(25 - at as i64) as usize;
                    Dense::each(ty, |at| x[0].at(&at.with("q", from(at.along("q")))))
                })
                .exact()
                .integers("x", "p:4;q:12", F32)
                .meshes(GRIDS),
                Case::new("pad_with: of one", |_, x| {
                    pad_with(x[0], dim("q", 1), 1, 2, Padding::Reflect)
                })
                .computes(|x, ty| Dense::each(ty, |at| x[0].at(&at.with("q", 0))))
                .exact()
                .integers("x", "p:4;q:1", F32)
                .meshes(FEW),
            ]
        },
    };

    /// Two more before, six more after.
    fn padded(name: &str, padding: Padding, from: &'static [usize]) -> Case {
        Case::new(name, move |_, x| pad_with(x[0], dim("q", 4), 2, 6, padding))
            .computes(move |x, ty| {
                Dense::each(ty, |at| x[0].at(&at.with("q", from[at.along("q")])))
            })
            .exact()
            .integers("x", "p:4;q:4", F32)
            .meshes(FEW)
    }
}

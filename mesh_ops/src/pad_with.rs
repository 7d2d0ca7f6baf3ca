//! `pad_with(x, dim, low, high, padding)`: a tensor's own elements before and after it along one dim.
//! [`pad`](crate::pad) puts zeros there.
//!
//! A composition: a gather from x along a renamed dim, since an element may be needed anywhere; over a split dim
//! the rename gathers x along it. The gradient falls out: the sum over all places that an element came to.

use crate::elementwise::{clip, minimum, modulo, sub};
use crate::room::*;
use crate::slice::resized;

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

/// `x` with `low` more positions before and `high` more after those along `dim`, which grows. More may be asked
/// for than there are elements: then it goes on to and fro, or round and round. Each processor needs all of a split
/// `dim`: it is gathered, as `explain` says.
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
    if x.is_poisoned() {
        return x;
    }
    let _caller = x.graph().for_caller();
    let wide = dim.resized(size);
    let Ok(shape) = resized(&x.shape(), wide) else { return x.poisoned() };
    let at =
        sub(crate::range(x.graph(), wide, DType::I32), x.graph().scalar(low as f64, DType::I32));
    let (last, count) = (dim.size as f64 - 1.0, dim.size as f64);
    // To the end and back: that far until it begins anew.
    let folded = |period: f64, far: f64| {
        let there = modulo(at, period);
        minimum(there, far - there)
    };
    let from = match padding {
        Padding::Edge => clip(at, 0.0, last),
        Padding::Wrap => modulo(at, count),
        Padding::Symmetric => folded(2.0 * count, 2.0 * count - 1.0),
        Padding::Reflect if dim.size == 1 => at * 0.0,
        Padding::Reflect => folded(2.0 * last, 2.0 * last),
    };
    crate::gather::taken(x, from, dim, shape)
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

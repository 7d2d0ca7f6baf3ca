//! The same elements again or elsewhere along a dim: `tile(x, dim, times)`, `repeat(x, dim, times)`,
//! `flip(x, dims)`, `roll(x, dim, by)`.
//!
//! Compositions: `tile` is a concat, which moves what other processors have; `repeat` broadcasts along a new dim
//! and joins it with the old, which moves nothing; `flip` is `reverse`, dim by dim; `roll` is a shift that wraps.

use crate::room::*;

/// `x` so many times, one after another along `dim`. As `jnp.tile` and `torch.tile`; what `torch.repeat` does.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// assert_eq!(mesh_ops::tile(x, dim("b", 3), 4).shape().to_string(), "[a:2, b:12]");
/// ```
#[track_caller]
pub fn tile(x: Tensor<'_>, dim: Dimension, times: usize) -> Tensor<'_> {
    match refusal(x, dim, times) {
        Some(problem) => refused("tile", x, problem),
        None => crate::concat(x, &vec![x; times - 1], dim.name),
    }
}

/// `x` with each position along `dim` so many times in a row. As `jnp.repeat` and `torch.repeat_interleave`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// assert_eq!(mesh_ops::repeat(x, dim("b", 3), 4).shape().to_string(), "[a:2, b:12]");
/// ```
#[track_caller]
pub fn repeat(x: Tensor<'_>, dim: Dimension, times: usize) -> Tensor<'_> {
    if let Some(problem) = refusal(x, dim, times) {
        return refused("repeat", x, problem);
    }
    let shape = x.shape();
    let again = apart(&shape, dim, "again").resized(times);
    let beside = |d: Dimension| [Some(d), Some(again).filter(|_| d == dim)];
    let repeated = shape.iter().flat_map(beside).flatten();
    match Shape::new(repeated) {
        Ok(repeated) => {
            let joined = dim.resized(dim.size * times);
            crate::replace_dims(crate::broadcast(x, &repeated), [dim, again], [joined])
        }
        Err(error) => refused("repeat", x, error.to_string()),
    }
}

fn refusal(x: Tensor<'_>, dim: Dimension, times: usize) -> Option<String> {
    let none =
        (times == 0).then(|| "nothing is left of a tensor that is repeated 0 times".to_owned());
    lacking(x, dim).or(none)
}

#[track_caller]
fn refused<'g>(op: &str, x: Tensor<'g>, problem: String) -> Tensor<'g> {
    x.graph().record(op, problem);
    x.poisoned()
}

/// `x` with the elements along each of some dims from last to first. As `jnp.flip` and `torch.flip`. Along
/// split ones of them slices travel between processors as far from either end.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// assert_eq!(mesh_ops::flip(x, [dim("a", 2), dim("b", 3)]).shape(), x.shape());
/// ```
#[track_caller]
pub fn flip<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    let _caller = x.graph().for_caller();
    dims.into_iter().fold(x, |x, dim| crate::reverse(x, dim))
}

/// `x` with the elements along `dim` moved by so many places; what leaves at one end comes in at the other. As
/// `jnp.roll` and `torch.roll`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// assert_eq!(mesh_ops::roll(x, dim("b", 3), -1).shape(), x.shape());
/// ```
#[track_caller]
pub fn roll(x: Tensor<'_>, dim: Dimension, by: i64) -> Tensor<'_> {
    crate::shift(x, dim, by, true)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                along_q("tile", |x| tile(x, q(), 2), |i| i % 12),
                along_q("repeat", |x| repeat(x, q(), 3), |i| i / 3),
                along_q("repeat: once", |x| repeat(x, q(), 1) + x, |i| i)
                    .computes(|x, ty| Dense { ty: ty.clone(), ..x[0].clone().map(|x| 2.0 * x) }),
                along_q("roll", |x| roll(x, q(), -5), |i| (i + 5) % 12),
                Case::new("flip", |_, x| flip(x[0], [dim("p", 4), q()]))
                    .computes(|x, ty| {
                        let from = |at: &At| at.with("p", 3 - at.along("p"));
                        Dense::each(ty, |at| x[0].at(&from(at).with("q", 11 - at.along("q"))))
                    })
                    .exact()
                    .integers("x", "p:4;q:12", F32)
                    .meshes(FEW),
            ]
        },
    };

    /// Each position along q is one of x.
    fn along_q(name: &str, function: Unary, from: fn(usize) -> usize) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .computes(move |x, ty| {
                Dense::each(ty, |at| x[0].at(&at.with("q", from(at.along("q")))))
            })
            .exact()
            .integers("x", "p:4;q:12", F32)
            .meshes(FEW)
    }
}

//! `split(x, dim, sizes)`, `split_evenly(x, dim, parts)`: consecutive parts along a dim.
//!
//! Compositions of slices: the dim is whole, others parallel. Parts that nobody uses cost nothing,
//! nor do they in the gradient.

use crate::room::*;

/// Consecutive parts of `x` along `dim`, of these sizes, which add up to that of `dim`. Each keeps
/// the dim's name.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (time, y) = (dim("time", 5), dim("y", 2));
/// let parts = mesh_ops::split(g.input("x", [time, y], F32), time, [1, 4]);
/// assert_eq!(parts[1].shape().to_string(), "[time:4, y:2]");
/// ```
#[track_caller]
pub fn split<'g>(
    x: Tensor<'g>,
    dim: Dimension,
    sizes: impl IntoIterator<Item = usize>,
) -> Vec<Tensor<'g>> {
    let sizes: Vec<_> = sizes.into_iter().collect();
    let total = sizes.iter().fold(0, |total: usize, &size| total.saturating_add(size));
    let problem = match x.shape().get(dim.name) {
        _ if x.is_poisoned() => None,
        own if own != Some(dim) => Some(format!("{x:?} has no dim {dim}{}", x.shape().hint(dim))),
        _ if total != dim.size || sizes.contains(&0) => {
            Some(format!("parts of {sizes:?} do not make up {dim}"))
        }
        _ => None,
    };
    if let Some(problem) = problem {
        x.graph().record("split", problem);
        return sizes.iter().map(|_| x.poisoned()).collect();
    }
    let (mut parts, mut begin) = (Vec::new(), 0);
    for size in sizes {
        parts.push(crate::slice(x, dim.resized(size), begin));
        begin += size;
    }
    parts
}

/// `parts` consecutive parts of `x` along `dim`, of equal size.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let model = dim("model", 12);
/// let [q, k, v] = mesh_ops::split_evenly(g.input("x", [model], F32), model);
/// assert_eq!(q.shape().to_string(), "[model:4]");
///
/// let [_, _, _, _, _] = mesh_ops::split_evenly(g.input("y", [model], F32), model);
/// assert!(g.check().unwrap_err().to_string().contains("5 equal parts do not make up model:12"));
/// ```
#[track_caller]
pub fn split_evenly<'g, const N: usize>(x: Tensor<'g>, dim: Dimension) -> [Tensor<'g>; N] {
    let size = dim.size.checked_div(N).unwrap_or(0);
    if size * N != dim.size && !x.is_poisoned() {
        x.graph().record(
            "split",
            format!("{N} equal parts do not make up {dim}; its size must be a multiple of {N}"),
        );
        return std::array::from_fn(|_| x.poisoned());
    }
    let parts = split(x, dim, [size; N]);
    std::array::from_fn(|i| parts[i])
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                exact("split: one part used", |x| split(x, q(), [3, 4, 5])[1]).computes(|x, ty| {
                    Dense::each(ty, |at| x[0].at(&at.with("q", 3 + at.along("q"))))
                }),
                exact("split: in exchange", |x| {
                    let [a, b] = split_evenly(x, q());
                    crate::concat(b, &[a], "q")
                })
                .computes(|x, ty| {
                    Dense::each(ty, |at| x[0].at(&at.with("q", (at.along("q") + 6) % 12)))
                })
                .shows("split_evenly")
                .meshes(FEW),
            ]
        },
    };
}

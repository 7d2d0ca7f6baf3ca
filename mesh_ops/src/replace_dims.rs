//! `replace_dims(x, old, new)`: some dims of a tensor become others of as many elements;
//! `merge_dims(x, dims, name)`: they become one.
//!
//! Compositions of transpose and reshape, which see.

use crate::room::*;

/// `x` with the dims `old`, in that order, as the dims `new`: a dim cut, dims joined, or a change
/// of names. They stand where the first of `old` stood.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, model) = (dim("batch", 2), dim("model", 12));
/// let x = g.input("x", [model, batch], F32);
/// let heads = mesh_ops::replace_dims(x, [model], [dim("heads", 4), dim("depth", 3)]);
/// assert_eq!(heads.shape().to_string(), "[heads:4, depth:3, batch:2]");
/// ```
#[track_caller]
pub fn replace_dims<'g>(
    x: Tensor<'g>,
    old: impl IntoIterator<Item = Dimension>,
    new: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    let (old, new): (Vec<_>, Vec<_>) = (old.into_iter().collect(), new.into_iter().collect());
    let shape = x.shape();
    let stray = old.iter().find(|d| shape.get(d.name) != Some(**d));
    let size = |dims: &[Dimension]| dims.iter().fold(1, |n: usize, d| n.saturating_mul(d.size));
    let problem = match (stray, old.first()) {
        _ if x.is_poisoned() => return x,
        (Some(stray), _) => format!("{x:?} has no dim {stray}{}", x.shape().hint(*stray)),
        (None, None) => "there are no dims to replace".to_owned(),
        _ if size(&old) != size(&new) => {
            format!("{old:?} has {} elements, {new:?} has {}", size(&old), size(&new))
        }
        (None, Some(first)) => {
            let at = |dims: &[Dimension]| -> Vec<Dimension> {
                let others = |d: Dimension| if d == *first { dims.to_vec() } else { vec![d] };
                let kept = shape.iter().filter(|d| d == first || !old.contains(d));
                kept.flat_map(others).collect()
            };
            return crate::reshape(crate::transpose(x, at(&old)), at(&new));
        }
    };
    x.graph().record("replace_dims", problem);
    x.poisoned()
}

/// `x` with some dims, in the order given, as one called `name`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, heads, depth) = (dim("batch", 2), dim("heads", 4), dim("depth", 3));
/// let x = g.input("x", [heads, batch, depth], F32);
/// assert_eq!(mesh_ops::merge_dims(x, [heads, depth], "model").shape().to_string(), "[model:12, batch:2]");
/// ```
#[track_caller]
pub fn merge_dims<'g>(
    x: Tensor<'g>,
    dims: impl IntoIterator<Item = Dimension>,
    name: &str,
) -> Tensor<'g> {
    let dims: Vec<_> = dims.into_iter().collect();
    let size = dims.iter().fold(1, |size: usize, d| size.saturating_mul(d.size));
    replace_dims(x, dims, [Dimension::new(name, size)])
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                exact("replace_dims: one by two", |x| {
                    replace_dims(x, [q()], [dim("u", 6), dim("v", 2)])
                })
                .computes(|x, ty| {
                    Dense::each(ty, |at| x[0].at(&at.with("q", 2 * at.along("u") + at.along("v"))))
                })
                .meshes(FEW),
                exact("replace_dims", |x| replace_dims(x, [q(), p()], [dim("u", 6), dim("v", 16)]))
                    .computes(|x, ty| {
                        numbered(x[0], ty, |at| {
                            let number = 16 * at.along("u") + at.along("v");
                            [number % 8, number / 8]
                        })
                    })
                    .meshes(FEW),
                exact("merge_dims: in order", |x| merge_dims(x, [p(), q()], "pq"))
                    .computes(|x, ty| {
                        numbered(x[0], ty, |at| [at.along("pq") / 12, at.along("pq") % 12])
                    })
                    .meshes(FEW),
                exact("merge_dims", |x| merge_dims(x, [q(), p()], "u"))
                    .computes(|x, ty| {
                        numbered(x[0], ty, |at| [at.along("u") % 8, at.along("u") / 8])
                    })
                    .meshes(FEW),
            ]
        },
    };

    /// Elements of x by their indices along p and q.
    fn numbered(x: &Dense, ty: &TensorType, from: impl Fn(&At) -> [usize; 2]) -> Dense {
        Dense::each(ty, |at| {
            let [p, q] = from(at);
            x.at(&At::default().with("p", p).with("q", q))
        })
    }
}

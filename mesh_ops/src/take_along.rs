//! `take_along(x, indices, dim)`: for each line along a dim the elements at the line's own positions.
//!
//! A composition: a gather from x along a renamed dim; over a split dim the rename gathers x along it. The
//! gradient falls out.

use crate::room::*;

/// `out[.., i, ..] = x[.., indices[.., i, ..], ..]`: `indices` (i32) has dims of `x` and, in the place of `dim`, a
/// dim of that name of any size. As `jnp.take_along_axis` and `torch.gather`; an index outside `0..dim.size`
/// finds zero. Of `argsort` and `top_k` it takes what they point to. Each processor needs all of a split `dim` of `x`:
/// it is gathered, as `explain` says.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 5)], F32);
/// let at = g.input("at", [dim("a", 2), dim("b", 3)], I32);
/// assert_eq!(mesh_ops::take_along(x, at, dim("b", 5)).shape().to_string(), "[a:2, b:3]");
/// ```
#[track_caller]
pub fn take_along<'g>(x: Tensor<'g>, indices: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    if let Some(problem) = lacking(x, dim) {
        x.graph().record("take_along", problem);
        return x.poisoned();
    }
    if x.is_poisoned() || indices.is_poisoned() {
        return x.poisoned();
    }
    let source = apart(&x.shape(), dim, "source");
    crate::gather(crate::rename(x, dim, source.name.as_str()), indices, source)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("take_along", |_, x| take_along(x[0], x[1], q()))
                    .computes(|x, ty| {
                        Dense::each(ty, |at| match x[1].at(at) {
                            from if (0.0..12.0).contains(&from) => {
                                x[0].at(&at.with("q", from as usize))
                            }
                            _ => 0.0,
                        })
                    })
                    .exact()
                    .integers("x", "p:4;q:12", F32)
                    .input("at", "p:4;q:6", I32, Fill::Integers(-1, 12))
                    .meshes(FEW),
            ]
        },
    };
}

//! `take_along(x, indices, dim)`: for each line along a dim the elements at the line's own positions.
//!
//! A composition: a gather, which may have the dim once only. Where `indices` have it, too, one of both gets another
//! name, and over a split dim that is gathered: the indices, if they and the elements that are found, which are then
//! reduced and scattered, have fewer bytes than x; else x. Sending each index to the processor that has its element
//! would need sizes that depend on the indices. The gradient falls out.

use crate::room::*;

/// `out[.., i, ..] = x[.., indices[.., i, ..], ..]`: `indices` (i32) has dims of `x` and, in the place of `dim`, a
/// dim of that name of any size. As `jnp.take_along_axis` and `torch.gather`; an index outside `0..dim.size`
/// finds zero. Of `argsort` and `top_k` it takes what they point to.
///
/// Along a split `dim` each processor looks in its part of `x`. If `indices` have the dim as well they are gathered, or
/// `x` is where that is less to send; `explain` says which. Without it nothing is gathered.
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
    let Some(own) = indices.shape().get(dim.name) else { return crate::gather(x, indices, dim) };
    let _caller = x.graph().for_caller();
    // Where other dims do not fit, gather says so.
    let others = indices.shape().without(&[dim.name]);
    let both = others.union(&x.shape()).unwrap_or_else(|_| x.shape());
    let whole = x.dtype().size().saturating_mul(x.shape().size());
    if sent_with_indices(x, indices, dim) < whole {
        let place = apart(&both, own, "place");
        let found = crate::gather(x, crate::rename(indices, own, place.name.as_str()), dim);
        return crate::rename(found, place, dim.name.as_str());
    }
    let source = apart(&both, dim, "source");
    crate::gather(crate::rename(x, dim, source.name.as_str()), indices, source)
}

/// The bytes of indices and of what they find.
fn sent_with_indices(x: Tensor<'_>, indices: Tensor<'_>, dim: Dimension) -> usize {
    let others = x.shape().without(&[dim.name]);
    let beside = others.iter().filter(|d| !indices.shape().contains(d.name));
    let found = beside.fold(indices.shape().size(), |size, d| size.saturating_mul(d.size));
    let bytes = |tensor: Tensor<'_>, size: usize| tensor.dtype().size().saturating_mul(size);
    bytes(indices, indices.shape().size()).saturating_add(bytes(x, found))
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                taken("take_along", "p:4;q:24", "p:4;q:6"),
                taken("take_along: as many", "p:4;q:12", "p:4;q:12"),
                taken("take_along: the same of each line", "p:4;q:12", "q:6"),
                taken("take_along: one of each line", "q:12;p:4", "p:4"),
            ]
        },
    };

    /// Some indices lie outside.
    fn taken(name: &str, x: &str, at: &str) -> Case {
        let along = shape(x).get("q".into()).unwrap_or(q());
        let outside = Fill::Integers(-1, along.size as i32);
        Case::new(name, move |_, x| take_along(x[0], x[1], along))
            .computes(move |x, ty| {
                Dense::each(ty, |at| match x[1].at(at) {
                    from if (0.0..along.size as f64).contains(&from) => {
                        x[0].at(&at.with("q", from as usize))
                    }
                    _ => 0.0,
                })
            })
            .exact()
            .integers("x", x, F32)
            .input("at", at, I32, outside)
            .meshes(FEW)
    }
}

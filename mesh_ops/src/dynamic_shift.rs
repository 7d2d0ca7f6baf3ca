//! `dynamic_shift(x, offset, dim, wrap)`: moves elements along a dim by an offset that is computed.
//!
//! A composition: a gather from x along a renamed dim. Over a split dim the rename gathers x along
//! it, since any element may be needed anywhere; [`shift`](crate::shift) by a known offset moves
//! only what travels. The gradient falls out.

use crate::elementwise::{modulo, sub};
use crate::room::*;

/// `out[i] = x[i - offset]` along `dim`. `offset` (i32) may differ along the other dims of x. Where
/// `i - offset` is outside `x` there is zero, or with `wrap` the element at that position modulo the
/// size.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, time) = (dim("batch", 2), dim("time", 8));
/// let (x, by) = (g.input("x", [batch, time], F32), g.input("by", [batch], I32));
/// assert_eq!(mesh_ops::dynamic_shift(x, by, time, false).shape(), x.shape());
/// ```
#[track_caller]
pub fn dynamic_shift<'g>(
    x: Tensor<'g>,
    offset: Tensor<'g>,
    dim: Dimension,
    wrap: bool,
) -> Tensor<'g> {
    if x.is_poisoned() || offset.is_poisoned() {
        return x.poisoned();
    }
    let graph = x.graph();
    let others = x.shape().without(&[dim.name]);
    let own = offset.shape();
    if let Some(stray) = own.iter().find(|d| others.get(d.name) != Some(*d)) {
        graph.record(
            "dynamic_shift",
            format!("{stray} of {offset:?} is not among {others} of {x:?}"),
        );
        return x.poisoned();
    }
    if offset.dtype() != DType::I32 {
        graph.record("dynamic_shift", format!("the offset is i32, not {}", offset.dtype()));
        return x.poisoned();
    }
    let here = crate::range(graph, dim, DType::I32);
    let from = if wrap {
        // First the offset, so that no difference overflows.
        let size = graph.scalar(dim.size as f64, DType::I32);
        modulo(sub(here, modulo(offset, size)), size)
    } else {
        sub(here, offset)
    };
    crate::gather::taken(x, from, dim, x.shape())
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("dynamic_shift: all as far", |_, x| dynamic_shift(x[0], x[1], q(), true))
                    .computes(|x, ty| shifted(x, ty, true))
                    .exact()
                    .integers("x", "p:4;q:12", F32)
                    .input("by", "", I32, Fill::Values(vec![5.0]))
                    .meshes(FEW),
                each_by_its_own("dynamic_shift", false, |x, by| dynamic_shift(x, by, q(), false)),
                each_by_its_own("dynamic_shift: wrap", true, |x, by| {
                    dynamic_shift(x, by, q(), true)
                }),
                Case::new("dynamic_shift: one offset", |_, x| dynamic_shift(x[0], x[1], q(), true))
                    .computes(|x, ty| shifted(x, ty, true))
                    .exact()
                    .integers("x", "q:12;p:4", F32)
                    .input("by", "", I32, Fill::Values(vec![-5.0]))
                    .meshes(FEW),
            ]
        },
    };

    fn each_by_its_own(name: &str, wrap: bool, function: Binary) -> Case {
        let by = Fill::Values(vec![0.0, 1.0, -2.0, 13.0, -25.0, 12.0]);
        Case::new(name, move |_, x| function(x[0], x[1]))
            .computes(move |x, ty| shifted(x, ty, wrap))
            .exact()
            .integers("x", "p:6;q:12", F32)
            .input("by", "p:6", I32, by)
            .meshes(FEW)
    }

    fn shifted(x: &[&Dense], ty: &TensorType, wrap: bool) -> Dense {
        Dense::each(ty, |at| {
            let from = at.along("q") as i64 - x[1].at(at) as i64;
            match wrap {
                false if !(0..12).contains(&from) => 0.0,
                _ => x[0].at(&at.with("q", from.rem_euclid(12) as usize)),
            }
        })
    }
}

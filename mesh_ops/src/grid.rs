//! Grids of numbers: `linspace(dim, start, stop)`, `meshgrid(lines)`.
//!
//! Compositions: `linspace` of the index along a dim, `meshgrid` of broadcasts. Each processor makes its own part.

use crate::room::*;
use mesh_core::graph::Graph;

/// Numbers from `start` to `stop`, both included, as far apart as there are positions along `dim`: of one
/// position `start`. Floats. As `jnp.linspace` and `torch.linspace`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let angles = mesh_ops::linspace(&g, dim("angle", 5), 0.0, 3.0, F32);
/// assert_eq!(angles.shape().to_string(), "[angle:5]");
/// ```
#[track_caller]
pub fn linspace(graph: &Graph, dim: Dimension, start: f64, stop: f64, dtype: DType) -> Tensor<'_> {
    let index = crate::range(graph, dim, dtype);
    if !dtype.is_float() && !index.is_poisoned() {
        graph.record("linspace", format!("linspace is of floats, not {dtype}"));
        return index.poisoned();
    }
    if dim.size == 1 {
        return index + start;
    }
    // From both ends: each is exact.
    let last = (dim.size - 1) as f64;
    ((last - index) * start + index * stop) / last
}

/// Each of some tensors along the dims of all, in the order in which they come. As `jnp.meshgrid` and
/// `torch.meshgrid` with `indexing="ij"`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (y, x) = (g.input("y", [dim("y", 3)], F32), g.input("x", [dim("x", 4)], F32));
/// let grid = mesh_ops::meshgrid(&[y, x]);
/// assert_eq!(grid[1].shape().to_string(), "[y:3, x:4]");
/// ```
#[track_caller]
pub fn meshgrid<'g>(lines: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
    let mut shape = Shape::scalar();
    for line in lines {
        match shape.union(&line.shape()) {
            Ok(union) => shape = union,
            Err(error) => {
                line.graph().record("meshgrid", error.to_string());
                return lines.iter().map(|line| line.poisoned()).collect();
            }
        }
    }
    let mut grid = Vec::new();
    for line in lines {
        grid.push(crate::broadcast(*line, &shape));
    }
    grid
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("linspace", |g, x| linspace(g, dim("q", 6), -2.0, 3.0, F32) * x[0])
                    .computes(|x, ty| {
                        Dense::each(ty, |at| (at.along("q") as f64 - 2.0) * x[0].at(at))
                    })
                    .normal("x", "p:4", F32)
                    .meshes(FEW),
                Case::new("linspace: one", |g, x| linspace(g, dim("one", 1), 0.5, 3.0, F64) * x[0])
                    .computes(|x, ty| Dense::each(ty, |at| 0.5 * x[0].at(at)))
                    .normal("x", "p:4", F64)
                    .meshes(FEW),
                Case::several("meshgrid", |_, x| meshgrid(x))
                    .computes_all(|x, types| {
                        let of = |(x, ty): (&&Dense, &TensorType)| Dense::each(ty, |at| x.at(at));
                        x.iter().zip(types).map(of).collect()
                    })
                    .exact()
                    .integers("x", "p:4", F32)
                    .integers("y", "q:6", F32)
                    .meshes(FEW),
            ]
        },
    };
    use mesh_core::graph::TensorType;
}

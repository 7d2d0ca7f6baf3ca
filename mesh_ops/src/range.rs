//! `range(dim)`: 0, 1, 2, ... along a dim.
//!
//! | shape | the dim |
//! |---|---|
//! | split | every dim parallel: each processor counts from where its slice begins |
//! | linear | none |
//! | gradient | none |

use crate::room::*;
use mesh_core::graph::Graph;
use mesh_core::program::Generator;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Range {
    ty: TensorType,
}

/// The index along `dim` as a tensor of i32 or floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// assert_eq!(mesh_ops::range(&g, dim("x", 5), I32).shape().to_string(), "[x:5]");
/// ```
#[track_caller]
pub fn range(graph: &Graph, dim: Dimension, dtype: DType) -> Tensor<'_> {
    match Shape::new([dim]) {
        Ok(shape) => graph.apply1(Range { ty: TensorType::new(shape, dtype) }, &[]),
        Err(error) => {
            graph.record("range", error.to_string());
            graph.scalar(0.0, dtype).poisoned()
        }
    }
}

impl Op for Range {
    fn name(&self) -> &'static str {
        "range"
    }
    fn outputs(&self, _: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        if self.ty.dtype == DType::Bool {
            return Err(OpError::new("a range is of numbers, not bool"));
        }
        Ok(vec![self.ty.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        cx.generate(Generator::Iota(0))
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Range>(|_, _, types| {
            let data = (0..types[0].shape.size()).map(|i| i as f64).collect();
            vec![Dense { ty: types[0].clone(), data }]
        })],
        cases: || {
            vec![
                Case::new("range: alone", |g, _| range(g, q(), I32)),
                Case::new("range", |g, x| range(g, q(), F32) * x[0])
                    .exact()
                    .integers("x", "p:8", F32),
            ]
        },
    };
}

//! `broadcast(x, shape)`: repeats x along the dims of `shape` that it lacks.
//!
//! | shape | as given; holds all dims of x |
//! |---|---|
//! | split | every dim parallel |
//! | linear | moves x |
//! | gradient | sum to x's dims |

use crate::room::*;
use mesh_core::program::Expr;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Broadcast {
    shape: Shape,
}

/// `x` repeated along the dims of `shape` that it lacks.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.fill(1.0, [dim("x", 2)], F32);
/// let y = mesh_ops::broadcast(x, &"y:3;x:2".parse()?);
/// assert_eq!(y.shape().to_string(), "[y:3, x:2]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn broadcast<'g>(x: Tensor<'g>, shape: &Shape) -> Tensor<'g> {
    if x.shape() == *shape {
        return x;
    }
    x.graph().apply1(Broadcast { shape: shape.clone() }, &[x])
}

impl Op for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        if let Some(dim) = x.shape.iter().find(|d| self.shape.get(d.name) != Some(*d)) {
            return Err(OpError::new(format!(
                "{} does not hold dim {dim} of {x}; add the dim, or sum over it",
                self.shape
            )));
        }
        Ok(vec![TensorType::new(self.shape.clone(), x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (shape, inputs, dtype) = (cx.output_shape(0), cx.inputs(), cx.output_dtype(0));
        let out = cx.map_over(&shape, &inputs, &Expr::input(0), dtype)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        Ok(vec![Some(crate::reduce::sum_onto(cx.dy(), &cx.input(0).shape()))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Broadcast>(|_, x, types| vec![permuted(x[0], &types[0])])],
        cases: || {
            vec![
                Case::new("broadcast", |_, x| broadcast(x[0], &shape("q:12;p:8")))
                    .exact()
                    .integers("x", "p:8", F32),
            ]
        },
    };
}

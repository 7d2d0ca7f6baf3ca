//! `transpose(x, order)`: the same tensor with its dims declared in another order.
//!
//! | shape | a permutation |
//! |---|---|
//! | split | every dim parallel |
//! | linear | moves x |
//! | gradient | transpose back |
//!
//! Order matters for feeds, fetches, reshapes and random indices only; everything else goes by
//! name.

use crate::room::*;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Transpose {
    shape: Shape,
}

/// `x` with its dims in the order of `dims`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (a, b) = (dim("a", 2), dim("b", 3));
/// let x = g.input("x", [a, b], F32);
/// assert_eq!(mesh_ops::transpose(x, [b, a]).shape().to_string(), "[b:3, a:2]");
/// ```
#[track_caller]
pub fn transpose<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    match Shape::new(dims) {
        Ok(shape) if x.shape() == shape => x,
        Ok(shape) => x.graph().apply1(Transpose { shape }, &[x]),
        Err(error) => {
            x.graph().record("transpose", error.to_string());
            x.poisoned()
        }
    }
}

impl Op for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        if !x.shape.is_permutation_of(&self.shape) {
            return Err(OpError::new(format!("{} is not a permutation of {x}", self.shape)));
        }
        Ok(vec![TensorType::new(self.shape.clone(), x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        cx.forward(0)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        Ok(vec![Some(transpose(cx.dy(), cx.input(0).shape()))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Transpose>(|_, x, types| vec![permuted(x[0], &types[0])])],
        cases: || vec![exact("transpose", |x| transpose(x, [q(), p()]))],
    };
}

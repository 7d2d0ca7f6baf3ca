//! `reverse(x, dim)`: turns a dim round, also one that is split.
//!
//! | shape | that of x |
//! |---|---|
//! | split | the dim exchange(permute), others parallel |
//! | linear | moves x |
//! | gradient | reverse of dy |
//!
//! Over a split dim whole slices travel: each processor gets that of the processor as far from the other end,
//! and turns it round.

use crate::room::*;
use mesh_core::program::{Expr, Offset, Pairs};
use mesh_core::split::Collective;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Reverse {
    dim: DimName,
}

/// `x` with the elements along `dim` from last to first.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// assert_eq!(mesh_ops::reverse(x, time).shape(), x.shape());
/// ```
#[track_caller]
pub fn reverse(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    if let Some(problem) = lacking(x, dim) {
        x.graph().record("reverse", problem);
        return x.poisoned();
    }
    x.graph().apply1(Reverse { dim: dim.name }, &[x])
}

impl Op for Reverse {
    fn name(&self) -> &'static str {
        "reverse"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        dim_of(self.name(), x, self.dim)?;
        Ok(vec![x.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Exchange(&[Collective::Permute]))
            .linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let mut x = cx.input(0)?;
        let parts = cx.parts(self.dim)?;
        if parts > 1 {
            let mirrored = (0..parts).map(|member| (member, parts - 1 - member)).collect();
            x = cx.permute_pairs(self.dim, Pairs::Listed(mirrored), &x)?;
        }
        let shape = x.shape().clone();
        let own = shape.get(self.dim).unwrap_or(Dimension::new(self.dim.as_str(), 1));
        let here = cx.counted(own, Offset::default(), own.size)?;
        let from = Expr::input(0) * -1.0 + (own.size as f64 - 1.0);
        let from = cx.map(&[here], &from, DType::I32)?;
        let source = apart(&shape, own, "source");
        let renamed = shape.iter().map(|d| if d == own { source } else { d });
        let x = cx.renamed(&x, Shape::new(renamed)?)?;
        let turned = cx.gather(&x, &from, source.name, Offset::default(), &shape)?;
        cx.finish(0, turned)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let dim = dim_of(self.name(), &cx.input(0).tensor_type(), self.dim)?;
        Ok(vec![Some(reverse(cx.dy(), dim))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Reverse>(|op, x, types| {
            let last = extent(&types[0].shape, op.dim) as i64 - 1;
            vec![moved(x[0], &types[0], op.dim, |i| last - i)]
        })],
        cases: || {
            vec![
                exact("reverse", |x| reverse(x, q())),
                Case::new("reverse: i32, between dims", |_, x| reverse(x[0], q()))
                    .exact()
                    .integers("x", "p:2;q:12;r:3", I32)
                    .meshes(FEW),
            ]
        },
    };
}

//! `concat(first, others, name)`: tensors one after another along a dim.
//!
//! | shape | the dim's sizes added, other dims equal |
//! |---|---|
//! | split | the dim exchange(permute), others parallel |
//! | linear | moves all inputs jointly |
//! | gradient | slices |
//!
//! Along a split dim each processor receives the positions of its part that others have.

use crate::placed::resized;
use crate::placed::{PIECES, placed};
use crate::room::*;
use mesh_core::lower::LocalPiece;
use mesh_core::program::Scalar;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    /// The dim along which the inputs follow each other.
    dim: DimName,
}

/// `first` and then `others` along the dim called `name`, which each has in a size of its own; all
/// other dims are the same. The result has the dims in the order of `first`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let y = dim("y", 2);
/// let (a, b) = (g.input("a", [dim("x", 3), y], F32), g.input("b", [y, dim("x", 4)], F32));
/// assert_eq!(mesh_ops::concat(a, &[b], "x").shape().to_string(), "[x:7, y:2]");
/// ```
#[track_caller]
pub fn concat<'g>(
    first: Tensor<'g>,
    others: &[Tensor<'g>],
    name: impl Into<DimName>,
) -> Tensor<'g> {
    let mut all = vec![first];
    all.extend_from_slice(others);
    first.graph().apply1(Concat { dim: name.into() }, &all)
}

impl Op for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [first, ..] = types else {
            return Err(OpError::new("concat needs an input"));
        };
        let rest = first.shape.without(&[self.dim]);
        let mut size: usize = 0;
        for ty in types {
            size = size.saturating_add(dim_of(self.name(), ty, self.dim)?.size);
            if ty.dtype != first.dtype || !ty.shape.without(&[self.dim]).is_permutation_of(&rest) {
                return Err(OpError::new(format!(
                    "{first} and {ty} differ in more than the size of dim {}",
                    self.dim
                )));
            }
        }
        let dim = dim_of(self.name(), first, self.dim)?.resized(size);
        Ok(vec![TensorType::new(resized(&first.shape, dim)?, first.dtype)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let all: Vec<_> = (0..io.inputs.len()).collect();
        SplitRule::parallel()
            .with([self.dim], Role::Exchange(PIECES))
            .linear(Linearity::Moves, &[&all])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let mut at = vec![0];
        for ty in cx.signature().inputs {
            at.push(at[at.len() - 1] + dim_of(self.name(), ty, self.dim)?.size);
        }
        if cx.parts(self.dim)? > 1 {
            let at: Vec<_> = at.into_iter().map(|at| at as i64).collect();
            let out = placed(cx, self.dim, &at)?;
            return cx.finish(0, out);
        }
        let (shape, zero) = (cx.output_shape(0), Scalar::new(cx.output_dtype(0), 0.0));
        let place =
            |(input, at)| LocalPiece { at: vec![(self.dim, at)], ..LocalPiece::whole(input) };
        let pieces: Vec<_> = cx.inputs().into_iter().zip(at).map(place).collect();
        let out = cx.assemble(&pieces, zero, &shape)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (mut grads, mut begin) = (Vec::new(), 0);
        for i in 0..cx.arity() {
            let ty = cx.input(i).tensor_type();
            let dim = dim_of(self.name(), &ty, self.dim)?;
            grads.push(Some(crate::transpose(crate::slice(cx.dy(), dim, begin), &ty.shape)));
            begin += dim.size;
        }
        Ok(grads)
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Concat>(|op, x, types| {
            let (mut out, mut begin) = (Dense::zeros(types[0].clone()), 0);
            for x in x {
                let part = moved(x, &types[0], op.dim, |i| i - begin);
                for (out, part) in out.data.iter_mut().zip(part.data) {
                    *out += part;
                }
                begin += extent(&x.ty.shape, op.dim) as i64;
            }
            vec![out]
        })],
        cases: || {
            vec![
                Case::new("concat", |_, x| concat(x[0], &[x[1], x[2]], "q"))
                    .exact()
                    .integers("x", MATRIX, F32)
                    .integers("y", "q:4;p:8", F32)
                    .integers("z", "p:8;q:2", F32),
            ]
        },
    };
}

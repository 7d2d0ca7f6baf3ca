//! `add_n(first, others)`: the sum of many tensors.
//!
//! | shape | the union of the inputs' dims, first come first |
//! |---|---|
//! | split | every dim parallel |
//! | linear | adds all inputs jointly |
//! | gradient | dy summed to each input's dims |
//!
//! As one op it sees all its inputs: sums that they owe over different axes, or that only some of
//! them owe, are settled together, where a chain of additions would settle one after the other.

use crate::elementwise::{broadcast_shape, number};
use crate::room::*;
use mesh_core::program::Expr;

#[derive(Debug, PartialEq, Eq, Hash)]
struct AddN;

/// How many are added by one step; more are added in rounds.
const AT_ONCE: usize = 8;

/// The sum of `first` and all `others`, from left to right in groups of eight; broadcasts. Numbers of
/// one dtype.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("batch", 4)], F32);
/// assert_eq!(mesh_ops::add_n(x, &[x, x]).shape(), x.shape());
/// ```
#[track_caller]
pub fn add_n<'g>(first: Tensor<'g>, others: &[Tensor<'g>]) -> Tensor<'g> {
    if others.is_empty() {
        return first;
    }
    let mut all = vec![first];
    all.extend_from_slice(others);
    first.graph().apply1(AddN, &all)
}

impl Op for AddN {
    fn name(&self) -> &'static str {
        "add_n"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let dtypes: Vec<_> = types.iter().map(|ty| ty.dtype).collect();
        Ok(vec![TensorType::new(broadcast_shape(types)?, number(self.name(), &dtypes)?)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let all: Vec<_> = (0..io.inputs.len()).collect();
        SplitRule::parallel().linear(Linearity::Adds, &[&all])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (shape, mut left, dtype) = (cx.output_shape(0), cx.inputs(), cx.output_dtype(0));
        for input in &mut left {
            // A carried sum is held in a wider dtype; what it meets is widened to that.
            if cx.dtype(input) != dtype {
                *input = cx.cast(input, dtype)?;
            }
        }
        loop {
            let last = left.len() <= AT_ONCE;
            let mut sums = Vec::new();
            for group in left.chunks(AT_ONCE) {
                let sum = (0..group.len() as u8).map(Expr::input).reduce(|a, b| a + b);
                let sum = sum.ok_or_else(|| OpError::new("add_n needs an input"))?;
                sums.push(cx.map_over(&shape, group, &sum, dtype)?);
            }
            left = sums;
            if last {
                break;
            }
        }
        cx.finish(0, left.swap_remove(0))
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let onto = |i| Some(crate::reduce::sum_onto(cx.dy(), &cx.input(i).shape()));
        Ok((0..cx.arity()).map(onto).collect())
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Elements::<AddN>(|_, x, _| x.iter().sum())],
        cases: || {
            vec![
                Case::new("add_n: of two", |_, x| add_n(x[0], &[x[1]]))
                    .exact()
                    .integers("x", MATRIX, F32)
                    .integers("y", "q:12", F32)
                    .meshes(FEW),
                exact("add_n", |x| add_n(x, &[x * 2.0, x, x.shift(q(), 1, true)])).meshes(FEW),
                exact("add_n: of sums", |x| {
                    add_n(x.sum_all(), &[x.sum([q()]), x.sum([p()]), x.pick(q(), 2)])
                })
                .meshes(FEW),
                exact("add_n: of ten", |x| add_n(x, &[x * 2.0; 9])).meshes(FEW),
            ]
        },
    };
}

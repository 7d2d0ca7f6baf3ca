//! `update_at(x, dim, index, row)`: x with a row in the place of what lies at a computed position along a dim.
//!
//! | shape | that of x |
//! |---|---|
//! | split | every dim parallel |
//! | linear | moves x and row together |
//! | gradient | of x: dy with zeros at the index; of row: gather of dy |
//!
//! Over a split `dim` the processor that has the position writes, and the others do nothing; the row is with
//! all of them, and nothing of x travels. Where `x` is a variable's old value, which nobody reads afterwards,
//! and the result its new one, the row alone is written.

use crate::gather::check_indices;
use crate::room::*;

#[derive(Debug, PartialEq, Eq, Hash)]
struct UpdateAt {
    /// The dim of `x` that the row lacks.
    dim: DimName,
}

/// `x` with `row` at position `index` (i32) along `dim`, as `lax.dynamic_update_slice` of one position in JAX.
/// The row has the dims of `x` but for `dim`; the index has none, or some of the row's, and then each of their
/// positions has a place of its own. An index outside `0..dim.size` changes nothing (JAX moves it inside).
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, length, width) = (dim("batch", 2), dim("length", 16), dim("width", 8));
/// let kept = g.state("kept", [batch, length, width], F32, Initializer::ZEROS);
/// let row = g.input("row", [batch, width], F32);
/// let at = g.input("at", [batch], I32);
/// let next = mesh_ops::update_at(kept.value(), length, at, row);
/// assert_eq!(next.shape().to_string(), "[batch:2, length:16, width:8]");
/// g.function("put", [row, at], [], [kept.assign(next)]);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn update_at<'g>(
    x: Tensor<'g>,
    dim: Dimension,
    index: Tensor<'g>,
    row: Tensor<'g>,
) -> Tensor<'g> {
    if let Some(problem) = lacking(x, dim) {
        x.graph().record("update_at", problem);
        return x.poisoned();
    }
    x.graph().apply1(UpdateAt { dim: dim.name }, &[x, row, index])
}

impl Op for UpdateAt {
    fn name(&self) -> &'static str {
        "update_at"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x, row, index] = inputs(self.name(), types)?;
        dim_of(self.name(), x, self.dim)?;
        check_indices(self.name(), index, self.dim)?;
        if x.dtype != row.dtype {
            return Err(OpError::new(format!(
                "update_at: the row is of {}, not of {} as {x}; cast it",
                row.dtype, x.dtype
            )));
        }
        let wanted = x.shape.without(&[self.dim]);
        if !row.shape.is_permutation_of(&wanted) {
            return Err(OpError::new(format!(
                "update_at: the row has the dims {}, not {wanted}, those of {x} without {}",
                row.shape, self.dim
            )));
        }
        if let Some(stray) = index.shape.iter().find(|d| wanted.get(d.name) != Some(*d)) {
            return Err(OpError::new(format!(
                "update_at: the index {index} has the dim {stray}, which the row {row} lacks"
            )));
        }
        Ok(vec![x.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().linear(Linearity::Moves, &[&[0, 1]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, row, index) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let begin = cx.begin(self.dim, x.shape().get(self.dim).map_or(1, |d| d.size))?;
        let made = cx.put(&x, &row, &index, self.dim, begin)?;
        cx.finish(0, made)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (dy, row, index) = (cx.dy(), cx.input(1), cx.input(2));
        let dim = dim_of(self.name(), &cx.input(0).tensor_type(), self.dim)?;
        let of_x = update_at(dy, dim, index, row.fill_like(0.0));
        let of_row = crate::transpose(crate::gather(dy, index, dim), &row.shape());
        Ok(vec![Some(of_x), Some(of_row), None])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::gather::proof::{OUTSIDE, vocab};
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<UpdateAt>(|op, x, types| {
            let (ty, dim) = (&types[0], op.dim.as_str());
            let element = |at: &At| {
                let here = x[2].at(at) == at.along(dim) as f64;
                if here { x[1].at(at) } else { x[0].at(at) }
            };
            vec![Dense::each(ty, element)]
        })],
        cases: || {
            let put = |name: &str| Case::new(name, |_, x| update_at(x[0], vocab(), x[2], x[1]));
            vec![
                put("update_at")
                    .normal("x", "vocab:12;width:4", F32)
                    .normal("row", "width:4", F32)
                    .indices("at", "", 12),
                put("update_at: each of a batch in its place")
                    .exact()
                    .integers("x", "batch:4;vocab:12;width:4", F64)
                    .integers("row", "width:4;batch:4", F64)
                    .input("at", "batch:4", I32, OUTSIDE),
                put("update_at: outside")
                    .normal("x", "vocab:12;width:4", F32)
                    .normal("row", "width:4", F32)
                    .input("at", "", I32, Fill::Values(vec![12.0]))
                    .meshes(FEW),
                put("update_at: elements, bf16")
                    .normal("x", "width:4;vocab:12", BF16)
                    .normal("row", "width:4", BF16)
                    .input("at", "width:4", I32, Fill::Values(vec![3.0, -1.0, 11.0, 3.0]))
                    .meshes(FEW),
                put("update_at: bool")
                    .bools("x", "vocab:12;width:4")
                    .bools("row", "width:4")
                    .indices("at", "", 12)
                    .meshes(FEW),
            ]
        },
    };
}

//! `pad(x, dim, low, high)`: zeros before and after a tensor along one dim; for [`pad_with`](crate::pad_with) the
//! rows of a border.
//!
//! | shape | x with the dim grown |
//! |---|---|
//! | split | the dim exchange(permute), others parallel |
//! | linear | moves x |
//! | gradient | slice |
//!
//! Along a split dim each processor receives the positions of its part that others have. A border has a dim of
//! its own in place of the padded one, of which every processor needs all; both are moved jointly, and the border's
//! gradient is a gather of dy.

use crate::gather::gather_onto;
use crate::placed::{PIECES, placed, resized};
use crate::room::*;
use mesh_core::lower::{Local, LocalPiece};
use mesh_core::program::{Expr, Offset, Scalar};

#[derive(Debug, PartialEq, Eq, Hash)]
struct Pad {
    /// The dim.
    dim: DimName,
    /// Positions before the first.
    low: usize,
    /// Positions after the last.
    high: usize,
    /// The dim along which a second input has the rows of these positions; without it they are zeros.
    border: Option<DimName>,
}

/// `x` with `low` zeros before and `high` zeros after its positions along `dim`, which grows; of
/// bools, false.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (time, y) = (dim("time", 5), dim("y", 2));
/// let x = g.input("x", [time, y], F32);
/// assert_eq!(mesh_ops::pad(x, time, 2, 1).shape().to_string(), "[time:8, y:2]");
/// ```
#[track_caller]
pub fn pad(x: Tensor<'_>, dim: Dimension, low: usize, high: usize) -> Tensor<'_> {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("pad", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return x.poisoned();
    }
    if low == 0 && high == 0 {
        return x;
    }
    x.graph().apply1(Pad { dim: dim.name, low, high, border: None }, &[x])
}

/// `x` with rows before and after its positions along `dim`: the first `low` of `border` along `along`, and the
/// others.
#[track_caller]
pub(crate) fn pad_by<'g>(
    x: Tensor<'g>,
    dim: Dimension,
    low: usize,
    border: Tensor<'g>,
    along: Dimension,
) -> Tensor<'g> {
    let high = along.size.saturating_sub(low);
    let pad = Pad { dim: dim.name, low, high, border: Some(along.name) };
    x.graph().apply1(pad, &[x, border])
}

impl Op for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let x = match self.border {
            None => inputs(self.name(), types).map(|[x]| x)?,
            Some(along) => self.bordered(inputs(self.name(), types)?, along)?,
        };
        let dim = dim_of(self.name(), x, self.dim)?;
        let size = dim.size.checked_add(self.low).and_then(|size| size.checked_add(self.high));
        let size = size.ok_or_else(|| OpError::new(format!("{dim} grows beyond all bounds")))?;
        Ok(vec![TensorType::new(resized(&x.shape, dim.resized(size))?, x.dtype)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let all: Vec<_> = (0..io.inputs.len()).collect();
        SplitRule::parallel()
            .with([self.dim], Role::Exchange(PIECES))
            .with(self.border, Role::Whole("any processor may need any row of a border"))
            .linear(Linearity::Moves, &[&all])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let is_split = cx.parts(self.dim)? > 1;
        let out = match (self.border, is_split) {
            (None, true) => placed(cx, self.dim, &[self.low as i64])?,
            (Some(along), true) => self.looked_up(cx, along)?,
            (_, false) => self.assembled(cx)?,
        };
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let dim = dim_of(self.name(), &cx.input(0).tensor_type(), self.dim)?;
        let mut gradients = vec![Some(crate::slice(cx.dy(), dim, self.low))];
        if let Some(along) = self.border {
            let shape = cx.input(1).shape();
            let along = Dimension::new(along.as_str(), self.low + self.high);
            let after = self.low + dim.size;
            let rows = (0..self.low).chain(after..after + self.high).map(|row| row as i32);
            let rows = cx.dy().graph().constant(ndarray::Array1::from_iter(rows), [along]);
            let wide = dim.resized(after + self.high);
            gradients.push(Some(gather_onto(cx.dy(), rows, wide, shape)));
        }
        Ok(gradients)
    }
}

impl Pad {
    /// Refuses a border that does not fit; the tensor that it goes around.
    fn bordered<'a>(
        &self,
        [x, border]: &'a [TensorType; 2],
        along: DimName,
    ) -> Result<&'a TensorType, OpError> {
        let rows = dim_of(self.name(), border, along)?;
        let alike = border.shape.without(&[along]).is_permutation_of(&x.shape.without(&[self.dim]));
        if rows.size != self.low + self.high || border.dtype != x.dtype || !alike {
            return Err(OpError::new(format!("the border {border} does not go around {x}")));
        }
        Ok(x)
    }

    /// The border's own dim under the name of the padded one.
    fn renamed(
        &self,
        cx: &LocalCx<'_, '_>,
        border: &Local,
        along: DimName,
    ) -> Result<Local, OpError> {
        let name = |d: Dimension| if d.name == along { d.renamed(self.dim.as_str()) } else { d };
        cx.renamed(border, Shape::new(border.shape().iter().map(name))?)
    }

    /// All of the result, copied together.
    fn assembled(&self, cx: &mut LocalCx<'_, '_>) -> Result<Local, OpError> {
        let (x, shape) = (cx.input(0)?, cx.output_shape(0));
        let zero = Scalar::new(cx.dtype(&x), 0.0);
        let end = self.low + x.shape().get(self.dim).map_or(1, |d| d.size);
        let mut pieces =
            vec![LocalPiece { at: vec![(self.dim, self.low)], ..LocalPiece::whole(x) }];
        if let Some(along) = self.border {
            let border = self.renamed(cx, &cx.input(1)?, along)?;
            let mut rows = |from: usize, count: usize, at: usize| {
                let mut piece = LocalPiece::whole(border.clone());
                piece.begin.push((self.dim, Offset::fixed(from)));
                piece.size.push((self.dim, count));
                piece.at.push((self.dim, at));
                pieces.extend((count > 0).then_some(piece));
            };
            rows(0, self.low, 0);
            rows(self.low, self.high, end);
        }
        cx.assemble(&pieces, zero, &shape)
    }

    /// This processor's part of the result: rows of the border where they lie outside of `x`.
    fn looked_up(&self, cx: &mut LocalCx<'_, '_>, along: DimName) -> Result<Local, OpError> {
        let inner = placed(cx, self.dim, &[self.low as i64])?;
        let (border, shape, dtype) = (cx.input(1)?, cx.output_shape(0), cx.dtype(&inner));
        let wide = dim_of(self.name(), &cx.signature().outputs[0], self.dim)?;
        let here = cx.positions(wide)?;
        let (low, end) = (self.low as f64, (wide.size - self.high) as f64);
        let position = || Expr::input(0);
        let row = position().less(low).select(position(), position() - (end - low));
        let row = cx.map(std::slice::from_ref(&here), &row, DType::I32)?;
        let rows = cx.gather(&border, &row, along, Offset::default(), &shape)?;
        let outside = position().less(low).or(position().greater_equal(end));
        let either = outside.select(Expr::input(1), Expr::input(2));
        cx.map_over(&shape, &[here, rows, inner], &either, dtype)
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Pad>(|op, x, types| {
            let Some(along) = op.border else {
                return vec![moved(x[0], &types[0], op.dim, |i| i - op.low as i64)];
            };
            let (dim, size) = (op.dim.as_str(), extent(&x[0].ty.shape, op.dim));
            let row = |at: &At, i| x[1].at(&at.with(along.as_str(), i));
            vec![Dense::each(&types[0], |at| match at.along(dim) {
                i if i < op.low => row(at, i),
                i if i < op.low + size => x[0].at(&at.with(dim, i - op.low)),
                i => row(at, i - size),
            })]
        })],
        cases: || {
            vec![
                exact("pad", |x| pad(x, q(), 3, 1)),
                bordered("pad_by", 3, "q_border:4;p:8"),
                bordered("pad_by: rows before x", 12, "p:8;q_border:12"),
            ]
        },
    };

    fn bordered(name: &str, low: usize, border: &str) -> Case {
        let along = shape(border).get("q_border".into()).unwrap_or(q());
        Case::new(name, move |_, x| pad_by(x[0], q(), low, x[1], along))
            .exact()
            .integers("x", MATRIX, F32)
            .integers("border", border, F32)
            .meshes(FEW)
    }
}

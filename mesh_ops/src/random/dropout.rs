//! `dropout(x, rate)`: zeros at random places.
//!
//! | shape | that of x |
//! |---|---|
//! | split | every dim parallel |
//! | linear | adds x |
//! | gradient | dropout of dy at the same places |
//!
//! The decision is uniform noise of f32, whatever x is of, so the share of zeros is `rate` within
//! 2^-24.

use super::random_uniform;
use crate::elementwise::{Elementwise, Linear, Map, map, number};
use crate::room::*;
use mesh_core::program::{Expr, Scalar};

/// `x` with each element 0 with probability `rate`, else divided by `1 - rate` (integers: as it
/// is), so that floats keep their mean. For training only: functions that evaluate a model leave
/// it out.
///
/// A call that trains is followed by other zeros, a call that does not train by the same. To draw anew
/// in functions that do not train (Monte Carlo dropout), choose a [`salt`](mesh_core::graph::Graph::salted):
/// a counter or a seed that is fed.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 4)], F32);
/// assert_eq!(mesh_ops::random::dropout(x, 0.1).shape(), x.shape());
///
/// mesh_ops::random::dropout(x, 1.0);
/// assert!(g.check().unwrap_err().to_string().contains("a rate is at least 0 and below 1, not 1"));
/// ```
#[track_caller]
pub fn dropout(x: Tensor<'_>, rate: f64) -> Tensor<'_> {
    dropout_over(x, rate, x.shape())
}

/// As [`dropout`], with one decision per position of `dims`, which all elements there share: over examples and
/// channels, whole channels of an image (torch's `dropout2d`).
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, length, model) = (dim("batch", 4), dim("length", 8), dim("model", 16));
/// let x = g.input("x", [batch, length, model], F32);
/// // Whole features, the same along the length.
/// assert_eq!(mesh_ops::random::dropout_over(x, 0.1, [batch, model]).shape(), x.shape());
/// ```
#[track_caller]
pub fn dropout_over<'g>(
    x: Tensor<'g>,
    rate: f64,
    dims: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    let dims: Vec<_> = dims.into_iter().collect();
    let stray = dims.iter().find(|d| x.shape().get(d.name) != Some(**d));
    let problem = match stray {
        _ if x.is_poisoned() => return x,
        _ if !(0.0..1.0).contains(&rate) => {
            format!("a rate is at least 0 and below 1, not {rate}")
        }
        Some(stray) => format!("{x:?} has no dim {stray}{}", x.shape().hint(*stray)),
        None if rate == 0.0 => return x,
        None => {
            let noise = random_uniform(x.graph(), dims, 0.0, 1.0, DType::F32);
            return dropped(x, noise, Scalar::new(DType::F64, 1.0 - rate));
        }
    };
    x.graph().record("dropout", problem);
    x.poisoned()
}

/// `x` where the noise is below `keep`, divided by that; elsewhere 0.
#[track_caller]
pub(crate) fn dropped<'g>(x: Tensor<'g>, noise: Tensor<'g>, keep: Scalar) -> Tensor<'g> {
    map(Dropped { keep, dtype: x.dtype() }, &[x, noise])
}

/// Of (x, noise): x where the noise is below `keep`, divided by that if of floats; else 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Dropped {
    pub(crate) keep: Scalar,
    /// Of x.
    pub(crate) dtype: DType,
}

impl Elementwise for Dropped {
    const NAME: &'static str = "dropout";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        match inputs {
            [x, DType::F32] => number(Self::NAME, &[*x]),
            _ => Err(OpError::new("the noise of dropout is of f32")),
        }
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (x, noise) = (x[0].clone(), x[1].clone());
        let kept = if self.dtype.is_float() {
            // bf16 would round the factor.
            x.cast(self.dtype.reduction()) * (1.0 / self.keep.value())
        } else {
            x
        };
        noise.less(self.keep.value()).select(kept, 0.0)
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Adds, &[&[0]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(dy.graph().apply1(Map(*self), &[dy, x[1]])), None])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Elements::<Map<Dropped>>(|Map(Dropped { keep, dtype }), x, _| {
            let scale = if dtype.is_float() { 1.0 / keep.value() } else { 1.0 };
            if x[1] < f64::from(keep.value() as f32) { x[0] * scale } else { 0.0 }
        })],
        cases: || {
            vec![
                Case::new("dropout", |_, x| dropout(x[0], 0.25)).normal("x", MATRIX, F32),
                Case::new("dropout: bf16", |_, x| dropout(x[0], 0.1))
                    .normal("x", MATRIX, BF16)
                    .meshes(FEW),
                Case::new("dropout: i32", |_, x| dropout(x[0], 0.5))
                    .integers("x", MATRIX, I32)
                    .meshes(FEW),
                exact("dropout of whole columns", |x| dropout_over(x, 0.5, [q()]))
                    .shows("dropout_over"),
                exact("dropout of everything or nothing", |x| dropout_over(x, 0.5, [])).meshes(FEW),
            ]
        },
    };
}

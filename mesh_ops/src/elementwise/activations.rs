//! Activations beside `relu`, `elu` and `sigmoid`: `log_sigmoid`, `softsign`, `mish`; in pieces `relu6`,
//! `hard_tanh`, `hard_sigmoid`, `hard_swish`; with a parameter `celu`, `prelu`.
//!
//! | function | gradient | at a corner |
//! |---|---|---|
//! | `log_sigmoid(x) = -softplus(-x)` | `sigmoid(-x) dy` | |
//! | `softsign(x) = x / (1 + abs(x))` | `dy / (1 + abs(x))^2` | |
//!
//! None is linear. All but the first two are compositions.

use super::unary::unary;
use super::{clip, expm1, greater, maximum, minimum, select, sigmoid, softplus, square, tanh};
use crate::room::*;
use mesh_core::program::Expr;

unary! {
    /// `log(sigmoid(x))`, without the sigmoid, which might vanish.
    LogSigmoid log_sigmoid float;
    value |x| x.clone().min(0.0) - (-x.abs()).exp().log1p();
    gradient |x, _, dy| Some(dy * sigmoid(-x));

    /// `x / (1 + |x|)`
    Softsign softsign float;
    value |x| x.clone() / (1.0 + x.abs());
    gradient |x, _, dy| Some(dy / square(1.0 + super::abs(x)));
}

/// A composition of one tensor.
macro_rules! composed {
    ($($(#[$doc:meta])* $function:ident |$x:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let x = g.input("x", [dim("x", 2)], F32);
        #[doc = concat!("let y = mesh_ops::elementwise::", stringify!($function), "(x);")]
        /// assert_eq!((y.shape(), y.dtype()), (x.shape(), F32));
        /// ```
        #[track_caller]
        pub fn $function($x: Tensor<'_>) -> Tensor<'_> {
            $value
        }
    )*};
}

composed! {
    /// `x tanh(softplus(x))` (Misra 2019, "Mish: A Self Regularized Non-Monotonic Activation Function").
    mish |x| x * tanh(softplus(x));
    /// `min(max(x, 0), 6)`
    relu6 |x| clip(x, 0.0, 6.0);
    /// `min(max(x, -1), 1)`
    hard_tanh |x| clip(x, -1.0, 1.0);
    /// `relu6(x + 3) / 6`, a sigmoid in three pieces.
    hard_sigmoid |x| relu6(x + 3.0) * (1.0 / 6.0);
    /// `x hard_sigmoid(x)` (Howard et al. 2019, "Searching for MobileNetV3").
    #[doc(alias = "hard_silu")]
    hard_swish |x| x * hard_sigmoid(x);
}

/// `x` above 0, below `alpha (exp(x / alpha) - 1)`, whose slope at 0 is 1 as well (Barron 2017, "Continuously
/// Differentiable Exponential Linear Units"); floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::celu(x, 0.5).shape(), x.shape());
/// ```
#[track_caller]
pub fn celu(x: Tensor<'_>, alpha: f64) -> Tensor<'_> {
    if !alpha.is_finite() || alpha <= 0.0 {
        x.graph().record("celu", format!("alpha is a finite number above 0, not {alpha}"));
        return x.poisoned();
    }
    // Below 0 alone: a half of each slope at 0 adds up to the slope there.
    maximum(x, 0) + alpha * expm1(minimum(x, 0) * (1.0 / alpha))
}

/// `x` above 0, elsewhere `slope x`, where the slope may differ along dims of `x`; floats (He et al. 2015,
/// "Delving Deep into Rectifiers"). At 0 the gradient is the slope, as in torch.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, width) = (dim("batch", 4), dim("width", 8));
/// let x = g.input("x", [batch, width], F32);
/// let slope = g.input("slope", [width], F32);
/// assert_eq!(mesh_ops::elementwise::prelu(x, slope).shape(), x.shape());
/// ```
#[track_caller]
pub fn prelu<'g>(x: Tensor<'g>, slope: Tensor<'g>) -> Tensor<'g> {
    // A slope that is NaN is not read where it has no part.
    x * select(greater(x, 0), 1, slope)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<LogSigmoid>>(|_, x, _| logistic(x[0]).ln()),
            &Elements::<Map<Softsign>>(|_, x, _| x[0] / (1.0 + x[0].abs())),
        ],
        cases: || {
            let pieces = Fill::Values(vec![-4.5, -2.25, -0.5, 0.75, 2.5, 3.5, 6.5]);
            vec![
                unary("log_sigmoid", |x| log_sigmoid(x), F32, Fill::Normal),
                unary("softsign", |x| softsign(x), F32, Fill::AwayFromZero),
                whole("mish", |x| mish(x), |x| x * x.exp().ln_1p().tanh(), Fill::Normal),
                whole("relu6", |x| relu6(x), |x| x.clamp(0.0, 6.0), pieces.clone()),
                whole("hard_tanh", |x| hard_tanh(x), |x| x.clamp(-1.0, 1.0), pieces.clone()),
                whole(
                    "hard_sigmoid",
                    |x| hard_sigmoid(x),
                    |x| (x / 6.0 + 0.5).clamp(0.0, 1.0),
                    pieces.clone(),
                ),
                whole(
                    "hard_swish",
                    |x| hard_swish(x),
                    |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
                    pieces,
                ),
                whole(
                    "celu",
                    |x| celu(x, 0.5),
                    |x| if x > 0.0 { x } else { 0.5 * (x / 0.5).exp_m1() },
                    Fill::AwayFromZero,
                ),
                Case::new("prelu", |_, x| prelu(x[0], x[1]))
                    .composed()
                    .computes(|x, ty| {
                        let slope = |at: &At| if x[0].at(at) > 0.0 { 1.0 } else { x[1].at(at) };
                        Dense::each(ty, |at| slope(at) * x[0].at(at))
                    })
                    .away_from_zero("x", "p:4;q:6", F32)
                    .normal("slope", "q:6", F32)
                    .meshes(FEW),
                // Slopes have no part in what is above 0, nor in its gradient.
                Case::new("prelu: no slope", |_, x| prelu(x[0], x[1]))
                    .composed()
                    .without_gradient()
                    .computes(|x, _| x[0].clone())
                    .input("x", "p:4;q:6", F32, Fill::Between(0.25, 2.0))
                    .input("slope", "q:6", F32, Fill::Values(vec![f64::NAN, f64::INFINITY]))
                    .meshes(FEW),
            ]
        },
    };

    fn logistic(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    /// A composition of one tensor, and what it means.
    fn whole(name: &str, function: Unary, means: fn(f64) -> f64, fill: Fill) -> Case {
        unary(name, function, F32, fill)
            .composed()
            .computes(move |x, ty| Dense { ty: ty.clone(), ..x[0].clone().map(means) })
    }
}

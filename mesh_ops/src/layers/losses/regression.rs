//! Losses of the distance between a prediction and a target, per element.

use super::{out_of_range, refused};
use crate::elementwise::{abs, clip, greater, select, softplus, square};
use crate::room::*;

/// A prediction less its target, or a refusal.
#[track_caller]
fn residual<'g>(op: &str, x: Tensor<'g>, target: Tensor<'g>) -> Result<Tensor<'g>, Tensor<'g>> {
    match refused(op, ("predictions", x), &[("targets", target)]) {
        Some(poisoned) => Err(poisoned),
        None => Ok(x - target),
    }
}

/// `(x - target)^2` per element; its mean is the mean squared error (torch's `mse_loss`). Targets have no dims
/// but those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (x, target) = (g.input("x", [batch], F32), g.input("target", [batch], F32));
/// let loss = mesh_ops::layers::squared_error(x, target).mean();
/// assert!(loss.shape().is_scalar());
/// ```
#[track_caller]
pub fn squared_error<'g>(x: Tensor<'g>, target: Tensor<'g>) -> Tensor<'g> {
    let _layer = x.graph().for_layer("squared_error");
    match residual("squared_error", x, target) {
        Ok(residual) => square(residual),
        Err(poisoned) => poisoned,
    }
}

/// `|x - target|` per element (torch's `l1_loss`); the gradient is 0 where they are equal. Targets have no
/// dims but those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (x, target) = (g.input("x", [batch], F32), g.input("target", [batch], F32));
/// assert_eq!(mesh_ops::layers::absolute_error(x, target).shape(), x.shape());
/// ```
#[track_caller]
pub fn absolute_error<'g>(x: Tensor<'g>, target: Tensor<'g>) -> Tensor<'g> {
    let _layer = x.graph().for_layer("absolute_error");
    match residual("absolute_error", x, target) {
        Ok(residual) => abs(residual),
        Err(poisoned) => poisoned,
    }
}

/// `r^2 / 2` where `|r| <= delta`, else `delta (|r| - delta / 2)`, with `r = x - target`, per element (Huber,
/// Robust Estimation of a Location Parameter, 1964). `delta` is positive. Targets have no dims but those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (x, target) = (g.input("x", [batch], F32), g.input("target", [batch], F32));
/// assert_eq!(mesh_ops::layers::huber_loss(x, target, 1.0).shape(), x.shape());
/// ```
#[track_caller]
pub fn huber_loss<'g>(x: Tensor<'g>, target: Tensor<'g>, delta: f64) -> Tensor<'g> {
    let _layer = x.graph().for_layer("huber_loss");
    match residual("huber_loss", x, target) {
        Ok(residual) => huber("huber_loss", residual, delta),
        Err(poisoned) => poisoned,
    }
}

/// `huber_loss(x, target, beta) / beta`, per element: slope 1 beyond `beta` (arXiv 1504.08083, equation 3, where
/// it is 1). `beta` is positive; as it shrinks, the loss becomes [`absolute_error`]. Targets have no dims but
/// those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (x, target) = (g.input("x", [batch], F32), g.input("target", [batch], F32));
/// assert_eq!(mesh_ops::layers::smooth_l1_loss(x, target, 1.0).shape(), x.shape());
/// ```
#[track_caller]
pub fn smooth_l1_loss<'g>(x: Tensor<'g>, target: Tensor<'g>, beta: f64) -> Tensor<'g> {
    let _layer = x.graph().for_layer("smooth_l1_loss");
    match residual("smooth_l1_loss", x, target) {
        Ok(residual) if beta == 1.0 => huber("smooth_l1_loss", residual, beta),
        Ok(residual) => huber("smooth_l1_loss", residual, beta) * (1.0 / beta),
        Err(poisoned) => poisoned,
    }
}

/// With `c` the residual cut at the bounds, `c (r - c / 2)` is both branches at once, and so are its slopes.
#[track_caller]
fn huber<'g>(op: &str, residual: Tensor<'g>, bound: f64) -> Tensor<'g> {
    let legal = bound > 0.0 && bound.is_finite();
    let problem = format!("the bound of the square is positive and finite, not {bound}");
    if let Some(poisoned) = out_of_range(op, residual, &problem, legal) {
        return poisoned;
    }
    let cut = clip(residual, -bound, bound);
    cut * (residual - cut * 0.5)
}

/// `log(cosh(r))` with `r = x - target`, per element: as `r^2 / 2` near 0 and `|r| - log(2)` far from it. It is
/// computed as `softplus(2 s) - s - log(2)` with `s = -|r|`, which does not overflow; as the function is even, its
/// slopes at 0 are those below 0. Targets have no dims but those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (x, target) = (g.input("x", [batch], F32), g.input("target", [batch], F32));
/// assert_eq!(mesh_ops::layers::log_cosh(x, target).shape(), x.shape());
/// ```
#[track_caller]
pub fn log_cosh<'g>(x: Tensor<'g>, target: Tensor<'g>) -> Tensor<'g> {
    let _layer = x.graph().for_layer("log_cosh");
    match residual("log_cosh", x, target) {
        Ok(residual) => {
            // Not by `abs`, whose slope at 0 is 0.
            let below = select(greater(residual, 0), -residual, residual);
            softplus(below * 2.0) - below - std::f64::consts::LN_2
        }
        Err(poisoned) => poisoned,
    }
}

//! Losses: a number for each element, or for each example where a loss looks along a dim.
//!
//! None of them averages: `loss.mean()` and [`weighted_mean`] do. So a batch that is split needs no word here,
//! and examples are masked and weighted in one way, whatever the loss. Where a loss compares with a target, the
//! target has no dims but those of the prediction; it may lack some.

mod contrastive;
mod cross_entropy;
mod ctc;
mod divergence;
mod likelihood;
mod margin;
mod mean;
mod probability;
mod regression;

pub use contrastive::nt_xent;
pub use cross_entropy::{CrossEntropy, softmax_cross_entropy};
pub use ctc::Ctc;
pub use divergence::kl_divergence;
pub use likelihood::{GAUSSIAN_EPSILON, gaussian_nll, poisson_nll};
pub use margin::{
    cosine_embedding_loss, cosine_similarity, hinge_embedding_loss, hinge_loss,
    margin_ranking_loss, triplet_margin_loss,
};
pub use mean::{weighted_mean, weights_nonzero};
pub use probability::{binary_cross_entropy, sigmoid_cross_entropy, sigmoid_focal_loss};
pub use regression::{absolute_error, huber_loss, log_cosh, smooth_l1_loss, squared_error};

use super::fit::Fit;
use crate::room::*;

/// That predictions are floats, and that each of the others is of their dtype and has no dims but theirs.
#[track_caller]
fn refused<'g>(
    op: &str,
    (what, x): (&str, Tensor<'g>),
    others: &[(&str, Tensor<'g>)],
) -> Option<Tensor<'g>> {
    let fit = others.iter().fold(Fit::new().floats(what, x), |fit, (what, other)| {
        fit.floats(what, *other).like(what, *other, x).among(what, *other, &x.shape())
    });
    fit.refused(op, x)
}

/// Records that an option of a loss is out of its range, if it is.
#[track_caller]
fn out_of_range<'g>(op: &str, x: Tensor<'g>, option: &str, legal: bool) -> Option<Tensor<'g>> {
    let problem = || (!legal).then(|| option.to_owned());
    Fit::new().and(x, problem).refused(op, x)
}

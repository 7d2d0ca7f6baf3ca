//! Losses against PyTorch and optax.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

type Compared = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;

fn of<'g>(i: &Given<'g>, loss: Compared) -> Vec<Tensor<'g>> {
    vec![loss(i.x[0], i.x[1])]
}

/// Builders of `torch_losses.json`.
pub(crate) const TORCH: &[Builder] = &[
    ("squared_error", |i| of(i, |x, y| squared_error(x, y))),
    ("absolute_error", |i| vec![absolute_error(i.x[0], i.x[1].cast(i.float))]),
    ("huber_loss", |i| vec![huber_loss(i.x[0], i.x[1], i.number("delta"))]),
    ("smooth_l1_loss", |i| vec![smooth_l1_loss(i.x[0], i.x[1], i.number("beta"))]),
    ("gaussian_nll", |i| vec![gaussian_nll(i.x[0], i.x[1], i.x[2])]),
    ("poisson_nll", |i| of(i, |x, y| poisson_nll(x, y))),
    ("binary_cross_entropy", |i| of(i, |p, z| binary_cross_entropy(p, z))),
    ("kl_divergence", |i| vec![kl_divergence(i.x[0], i.x[1], i.dim("classes"))]),
    ("hinge_embedding_loss", |i| vec![hinge_embedding_loss(i.x[0], i.x[1], i.number("margin"))]),
    ("margin_ranking_loss", |i| {
        vec![margin_ranking_loss(i.x[0], i.x[1], i.x[2], i.number("margin"))]
    }),
    ("cosine_similarity", |i| vec![cosine_similarity(i.x[0], i.x[1], i.dim("model"))]),
    ("cosine_embedding_loss", |i| {
        vec![cosine_embedding_loss(i.x[0], i.x[1], i.x[2], i.dim("model"), i.number("margin"))]
    }),
    ("triplet_margin_loss", |i| {
        let (model, margin) = (i.dim("model"), i.number("margin"));
        vec![triplet_margin_loss(i.x[0], i.x[1], i.x[2], model, margin)]
    }),
    ("ctc", |i| {
        let [time, classes, labels] = ["time", "classes", "labels"].map(|name| i.dim(name));
        let ctc = Ctc { time, classes, labels, blank: i.size("blank") };
        vec![ctc.apply(i.x[0], i.x[1], i.x[2], i.x[3])]
    }),
    ("ctc_impossible", |i| {
        let [time, classes, labels] = ["time", "classes", "labels"].map(|name| i.dim(name));
        let ctc = Ctc { time, classes, labels, blank: 0 };
        vec![ctc.apply(i.x[0].stop_gradient(), i.x[1], i.x[2], i.x[3])]
    }),
];

/// Builders of `optax_losses.json`.
pub(crate) const OPTAX: &[Builder] = &[
    ("log_cosh", |i| of(i, |x, y| log_cosh(x, y))),
    ("hinge_loss", |i| of(i, |x, y| hinge_loss(x, y))),
    ("sigmoid_focal_loss", |i| {
        let target = i.x[1].cast(i.float);
        vec![sigmoid_focal_loss(i.x[0], target, i.number("alpha"), i.number("gamma"))]
    }),
    ("nt_xent", |i| {
        vec![nt_xent(i.x[0], i.x[1], i.dim("batch"), i.dim("model"), i.number("temperature"))]
    }),
];

//! Layers of images, recurrent layers, losses and metrics.

use super::of;
use mesh_ops::AssociativeScan;
use mesh_ops::layers::*;
use mesh_ops::metrics::{accuracy, confusion_matrix};
use mesh_ops::prelude::*;
use mesh_ops::random::dropout_over;
use mesh_ops::resize::{Method, Resize, resize};

pub(super) fn made<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    image(name, x[0]).or_else(|| along(name, x)).or_else(|| loss(name, x))
}

fn image<'g>(name: &str, x: Tensor<'g>) -> Option<Tensor<'g>> {
    let [h, w, c] = ["h", "w", "c"].map(|name| of(x, name));
    let twice = Resize::to([("h", 2 * h.size), ("w", 2 * w.size)]);
    let twice = |method| resize(x, &twice.clone().method(method));
    Some(match name {
        "resize_nearest" => twice(Method::Nearest),
        "resize_linear" => twice(Method::Linear),
        "resize_cubic" => twice(Method::CubicRepeated),
        "group_norm" => group_norm(x, c, 32, [h, w], "norm"),
        "instance_norm" => instance_norm(x, c, [h, w], "norm"),
        "local_response_norm" => LocalResponseNorm::of(5).apply(x, c),
        "adaptive_avg_pool" => mesh_ops::adaptive_avg_pool(x, [("h", 7), ("w", 7)]),
        "adaptive_max_pool" => mesh_ops::adaptive_max_pool(x, [("h", 7), ("w", 7)]),
        "dropout_channels" => dropout_over(x, 0.1, [of(x, "batch"), c]),
        _ => return None,
    })
}

fn along<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let (a, length) = (x[0], of(x[0], "length"));
    let recurrent = |cell| {
        let layer = Recurrent::new(cell, length, of(a, "model"), dim("unit", 256));
        layer.apply(a, &layer.weights(&Parameters::like(a), "layer"), None, None).0
    };
    Some(match name {
        "lstm_layer" => recurrent(Cell::Lstm),
        "gru_layer" => recurrent(Cell::Gru),
        "rnn_layer" => recurrent(Cell::Plain(Activation::Tanh)),
        "selective_scan" => {
            let [delta, decay, b, c] = [1, 2, 3, 4].map(|i| x[i]);
            selective_scan(a, delta, -decay, b, c, length, AssociativeScan::default())
        }
        _ => return None,
    })
}

fn loss<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let (a, b) = (x[0], x[x.len().min(2) - 1]);
    let last = a.shape().iter().last()?;
    Some(match name {
        "squared_error" => squared_error(a, b),
        "absolute_error" => absolute_error(a, b),
        "huber_loss" => huber_loss(a, b, 1.0),
        "smooth_l1_loss" => smooth_l1_loss(a, b, 1.0),
        "log_cosh" => log_cosh(a, b),
        "kl_divergence" => kl_divergence(a, b, last),
        "gaussian_nll" => gaussian_nll(a, x[2], b),
        "poisson_nll" => poisson_nll(a, b),
        "binary_cross_entropy" => binary_cross_entropy(a, b),
        "sigmoid_focal_loss" => sigmoid_focal_loss(a, b, 0.25, 2.0),
        "hinge_embedding_loss" => hinge_embedding_loss(a, b, 1.0),
        "margin_ranking_loss" => margin_ranking_loss(a, b, x[2], 0.5),
        "cosine_similarity" => cosine_similarity(a, b, last),
        "triplet_margin_loss" => triplet_margin_loss(a, b, x[2], last, 1.0),
        "accuracy" => accuracy(a, b, last, None).value(),
        "confusion_matrix" => {
            let classes = dim("classes", 64);
            confusion_matrix(a, b, classes, None).value()
        }
        _ => return None,
    })
}

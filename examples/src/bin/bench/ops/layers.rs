//! Layers.

use super::of;
use mesh_ops::layers::attention::{AttentionOptions, MultiHead, dot_product_attention};
use mesh_ops::layers::{
    Activation, BatchNorm, Dense, FeedForward, Parameters, layer_norm, log_softmax, logsumexp,
    rms_norm, sigmoid_cross_entropy, softmax, softmax_cross_entropy,
};
use mesh_ops::prelude::*;

pub(super) fn made<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let (a, b) = (x[0], x[x.len() - 1]);
    let last = a.shape().iter().last()?;
    Some(match name {
        "softmax" => softmax(a, last),
        "log_softmax" => log_softmax(a, last),
        "logsumexp" => logsumexp(a, last),
        "softmax_cross_entropy" => softmax_cross_entropy(a, b, last),
        "sigmoid_cross_entropy" => sigmoid_cross_entropy(a, b),
        "layer_norm" => layer_norm(a, last, "norm"),
        "rms_norm" => rms_norm(a, last, "norm"),
        "batch_norm" => {
            let norm = BatchNorm::keeping([last]);
            let weights = norm.weights(&Parameters::like(a), "norm");
            norm.train(a, &weights).0
        }
        "dense" => Dense::onto([dim("hidden", 3072)]).apply(a, "dense"),
        "feed_forward" => {
            let layer = FeedForward::new(last, dim("hidden", 3072)).activations([Activation::Gelu]);
            let layer = layer.with_bias();
            layer.apply(a, &layer.weights(&Parameters::like(a), "feed"))
        }
        "attention" => {
            let (memory, kv) = (of(b, "memory"), of(b, "kv"));
            dot_product_attention(a, x[1], b, memory, kv, kv, &AttentionOptions::default())
        }
        "self_attention" => {
            let layer = MultiHead::new(last, dim("heads", 6), dim("kv", 64));
            let weights = layer.weights(&Parameters::like(a), "attention");
            let options = AttentionOptions::default();
            layer.self_attention(a, of(a, "length"), &weights, None, &options)
        }
        "lstm" => lstm(a),
        _ => return None,
    })
}

/// All hidden states of a layer of 256 units.
fn lstm(x: Tensor<'_>) -> Tensor<'_> {
    let (graph, length, model) = (x.graph(), of(x, "length"), of(x, "model"));
    let (unit, gates) = (dim("unit", 256), dim("gates", 1024));
    let initial = Initializer::Uniform { low: -0.05, high: 0.05 };
    let from = graph.variable("from", [model, gates], F32, initial).value();
    let back = graph.variable("back", [unit, gates], F32, initial).value();
    let bias = graph.variable("bias", [gates], F32, initial).value();
    // The products with the inputs do not wait for each other; the loop's dim comes first.
    let x = mesh_ops::transpose(x, [length, of(x, "batch"), model]);
    let seen = x.einsum(&[from], [length, of(x, "batch"), gates]);
    let zeros = graph.fill(0.0, [of(x, "batch"), unit], F32);
    let (_, [states]) = graph.scan(length, [zeros, zeros], [seen], |[h, c], [seen]| {
        let g = seen + h.einsum(&[back], [of(x, "batch"), gates]) + bias;
        let [i, f, o, z] = mesh_ops::split_evenly::<4>(g, gates).map(|part| {
            let of_gate = of(part, "gates");
            let shape = part.shape();
            let dims = shape.iter().map(|d| if d == of_gate { unit } else { d });
            mesh_ops::reshape(part, dims.collect::<Vec<_>>())
        });
        let c = f.sigmoid() * c + i.sigmoid() * z.tanh();
        let h = o.sigmoid() * c.tanh();
        ([h, c], [h])
    });
    states
}

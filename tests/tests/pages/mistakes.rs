//! Common mistakes, and what is said of them, as text to be read.

use mesh_ops::conv::Conv;
use mesh_ops::layers::attention::{
    AttentionOptions, LocalAttention, MultiHead, RelativeBias, Rotation, additive_mask, as_memory,
    causal_mask, dot_product_attention, padding_mask,
};
use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
use mesh_ops::layers::{
    Around, BatchNorm, CrossEntropy, Dense, FeedForward, Norm, NormWeights, Parameters,
    TransformerLayer, clip_activation_gradient, conv_layer, dense_product, dense_relu_dense, embed,
    embedding, embedding_logits, layer_norm, rms_norm, separable_conv_layer, sigmoid_cross_entropy,
    softmax_with, weighted_mean,
};
use mesh_ops::prelude::*;
use mesh_optimize::{Adam, Optimizer, Schedule, Sgd, schedule};

use crate::printed::{refused, without_lines};

/// Of what a user calls, not of what it is made of: the function, and the dims that it got.
#[test]
fn errors_of_layers_name_the_layer() {
    let wrong = |g: &Graph| {
        let (batch, length, model) = (dim("batch", 2), dim("length", 4), dim("model", 8));
        let (heads, kv, hidden, classes) =
            (dim("heads", 2), dim("kv", 4), dim("hidden", 6), dim("classes", 5));
        let p = &Parameters::new(g, F32);
        let x = g.input("x", [batch, length, model], F32);
        let n = g.input("n", [batch, length], I32);
        let narrow = g.input("narrow", [batch, length, hidden], F32);
        let double = g.input("double", [batch, length, model], F64);
        let scale = g.input("scale", [model], F64);
        let table = g.input("table", [classes, model], F64);
        let sink = g.input("sink", [], F64);
        x.softmax(dim("modle", 8));
        x.log_softmax(classes);
        x.logsumexp(model.resized(9));
        softmax_with(x, model, Some(sink));
        x.softmax_cross_entropy(n, classes);
        CrossEntropy { z_loss: 1e-4, ..Default::default() }.apply(x, double, model);
        sigmoid_cross_entropy(x, double);
        weighted_mean(x, double);
        n.dense(hidden, "dense_of_integers");
        Dense::onto([hidden]).over([classes]).apply(x, "dense_over");
        let weights = Dense::onto([hidden]).over([model]).weights(p, "given");
        Dense::onto([hidden]).over([model]).apply_with(double, &weights);
        layer_norm(x, classes, "layer_norm");
        rms_norm(n, length, "rms_norm");
        Norm::Rms.apply(x, model, &NormWeights { scale, bias: None });
        let norm = BatchNorm::keeping([model]);
        let averages = norm.weights(p, "batch_norm");
        norm.evaluate(double, &averages);
        embed(x, table, classes);
        embedding(x, classes, [model], "embedding");
        embedding_logits(x, table, classes);
        let slide = Conv::over([("length", "tap")]);
        conv_layer(x, &slide, [3, 3], hidden, "conv");
        separable_conv_layer(x, &Conv::over([("time", "tap")]), [3], hidden, "separable");
        let feed_forward = FeedForward::new(model, hidden);
        let inner = feed_forward.weights(p, "feed_forward");
        feed_forward.apply(narrow, &inner);
        feed_forward.apply(double, &inner);
        dense_product(n, &Dense::onto([hidden]), &[], "product");
        dense_relu_dense(n, hidden, "dense_relu_dense");
        clip_activation_gradient(x, -1.0);
        let (memory, options) = (dim("memory_length", 4), AttentionOptions::default());
        dot_product_attention(x, x, x, memory, model, model, &options);
        let attention = MultiHead::new(model, heads, kv);
        let projections = attention.weights(p, "attention");
        attention.self_attention(narrow, length, &projections, None, &options);
        attention.self_attention(x, classes, &projections, None, &options);
        attention.cross_attention(x, x, length, &projections, &options);
        let local = LocalAttention::new(length, 2).in_blocks_of(3);
        attention.local_self_attention(x, &local, &projections, None, &options);
        causal_mask(n, n);
        padding_mask(as_memory(n, classes));
        additive_mask(n, F32);
        RelativeBias::looking_back([heads]).apply(x, n, n);
        Rotation::new(n, dim("odd", 3), 10_000.0);
        let layer =
            TransformerLayer { norm: Norm::Rms, attention: attention.clone(), feed_forward };
        let whole = layer.weights(p, "layer");
        layer.apply(narrow, length, &whole, &Around::default());
        let mixture = MixtureOfExperts::new(model, hidden, dim("experts", 2), Gating::Switch);
        let routed = mixture.weights(p, "mixture");
        mixture.apply(narrow, &[batch, length], &routed, None);
    };
    insta::assert_snapshot!("layers", refused(wrong, "", ""));
}

#[test]
fn errors_of_training_read_well() {
    let bad = |rate: Schedule| {
        move |g: &Graph| {
            let x = g.input("x", [dim("batch", 8), dim("x", 4)], F32);
            let loss = x.dense(dim("h", 3), "one").dense(dim("y", 6), "two").mean();
            Adam::new(rate.clone()).minimize(loss);
        }
    };
    let rates = [
        schedule::with_warmup(schedule::cosine_decay(1e-3, 0, 0.1), 100),
        (-1e-3).into(),
        f64::NAN.into(),
        schedule::linear_decay(1e-3, -1.0, 100),
    ];
    let texts = rates.map(|rate| refused(bad(rate), "", ""));
    insta::assert_snapshot!("schedules", texts.join("\n"));

    let g = mesh_ops::graph();
    let x = g.input("x", [dim("batch", 8), dim("x", 4)], F32);
    let losses = x.dense(dim("y", 6), "d").square().sum([dim("y", 6)]).named("losses");
    g.function("train", [x], [losses.mean()], Sgd::new(0.1).minimize(losses));
    g.check().unwrap();
    let told: Vec<_> = g.warnings().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("losses_with_dims", without_lines(&told.join("\n")));
}

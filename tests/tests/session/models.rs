//! Small models for tests of traces, probes and comparisons.

use mesh_core::program::ValueId;
use mesh_ops::conv::Conv;
use mesh_ops::layers::attention::{AttentionOptions, causal, dot_product_attention, memory_dim};
use mesh_ops::prelude::*;
use mesh_ops::testing::legal_layouts;
use mesh_optimize::{AdamWeightDecay, Optimizer, Sgd};

/// A model: its name, and a function that builds its function `train`.
pub type Model = (&'static str, fn(&Graph));

pub const MODELS: &[Model] = &[("mlp", mlp), ("attention", attention), ("conv", conv)];

pub fn mlp(g: &Graph) {
    let (batch, classes) = (dim("batch", 8), dim("classes", 4));
    let image = g.input("image", [batch, dim("pixels", 12)], F32);
    let label = g.input("label", [batch], I32);
    let logits = image.dense(dim("hidden", 8), "hidden").relu().dense(classes, "logits");
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    g.function("train", [image, label], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
}

/// Causal attention between dense layers: a query attends to its own and earlier positions.
fn attention(g: &Graph) {
    let (batch, length, model) = (dim("batch", 4), dim("length", 4), dim("model", 8));
    let (heads, kv) = (dim("heads", 2), dim("kv", 4));
    let x = g.input("image", [batch, length, model], F32);
    let onto = |name: &str| mesh_ops::layers::Dense::onto([heads, kv]).over([model]).apply(x, name);
    let memory = memory_dim(length);
    let [k, v] = ["key", "value"].map(|name| onto(name).rename(length, "memory_length"));
    let options = AttentionOptions { mask: Some(causal(g, length)), ..Default::default() };
    let seen = dot_product_attention(onto("query"), k, v, memory, kv, kv, &options);
    let out = mesh_ops::layers::Dense::onto([model]).over([heads, kv]).apply(seen, "out");
    let loss = (x + out).square().mean();
    g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
}

pub fn conv(g: &Graph) {
    let (batch, rows, channel) = (dim("batch", 4), dim("rows", 8), dim("channel", 2));
    let x = g.input("image", [batch, rows, channel], F32);
    let taps = g.variable("taps", [dim("tap", 3), channel, dim("filters", 4)], F32, spread());
    let y = x.conv(taps.value(), &Conv::over([("rows", "tap")])).tanh();
    let loss = y.square().mean();
    g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
}

fn spread() -> Initializer {
    Initializer::Uniform { low: -0.5, high: 0.5 }
}

/// Feeds for a function: numbers between -1 and 1 that differ, and labels below 4.
pub fn feeds(module: &Module, function: &str) -> Vec<(String, Array)> {
    let program = module.function(function).unwrap();
    let feed = |(slot, value): (&mesh_core::program::Slot, ValueId)| {
        let shape = ndarray::IxDyn(&slot.shape);
        let count: usize = slot.shape.iter().product();
        let number = |i: usize| ((i * 37 + 11) % 64) as f32 / 32.0 - 1.0;
        let array = match program.value(value).dtype {
            I32 => Array::I32(
                ndarray::ArrayD::from_shape_vec(
                    shape,
                    (0..count).map(|i| (i * 3 % 4) as i32).collect(),
                )
                .unwrap(),
            ),
            _ => Array::F32(
                ndarray::ArrayD::from_shape_vec(shape, (0..count).map(number).collect()).unwrap(),
            ),
        };
        (slot.name.clone(), array)
    };
    program.fed().map(feed).collect()
}

/// The feeds by name, borrowed.
pub fn borrowed(feeds: &[(String, Array)]) -> Vec<(&str, ArrayRef<'_>)> {
    feeds.iter().map(|(name, array)| (name.as_str(), array.into())).collect()
}

/// At most `most` of the legal layouts of a graph on a mesh, evenly spread, with what it is lowered to.
pub fn layouts(g: &Graph, mesh: &Mesh, most: usize) -> Vec<(Layout, Module)> {
    let legal = legal_layouts(g, mesh).unwrap().legal;
    let step = legal.len().div_ceil(most);
    let lowered = |layout: Layout| {
        let module = g.lower(mesh, &layout).unwrap();
        (layout, module)
    };
    legal.into_iter().step_by(step).map(lowered).collect()
}

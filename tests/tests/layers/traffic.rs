//! The collectives of layers, counted in the programs.

use mesh_ops::layers::attention::*;
use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

/// Every collective of a function, as its form and elements of one processor's operands.
fn sent(graph: &Graph, mesh: &str, layout: &str, function: &str) -> Vec<String> {
    let module = graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let program = module.function(function).unwrap();
    let collectives = program.steps().iter().filter(|step| step.axes().is_some());
    let mut found: Vec<_> = collectives
        .flat_map(|step| {
            let form = step.form.name();
            step.reads().map(move |id| format!("{form} {}", program.value(id).len()))
        })
        .collect();
    found.sort();
    found
}

const BATCH: usize = 4;
const LENGTH: usize = 8;
const MODEL: usize = 16;

fn dims() -> [Dimension; 3] {
    [dim("batch", BATCH), dim("length", LENGTH), dim("model", MODEL)]
}

/// `forward` returns the result, `backward` the gradient of the input.
fn functions<'g>(g: &'g Graph, x: Tensor<'g>, y: Tensor<'g>) {
    g.function("forward", [x], [y], []);
    let dy = g.input("dy", y.shape(), F32);
    let gradient = g.gradients(&[y], &[x], Some(&[dy]))[0].unwrap();
    g.function("backward", [x, dy], [gradient], []);
}

const ACTIVATIONS: usize = BATCH * LENGTH * MODEL;

#[test]
fn tensor_parallel_blocks_cost_one_all_reduce_each_way() {
    let [batch, length, model] = dims();
    let g = mesh_ops::graph();
    let x = g.input("x", [batch, length, model], F32);
    let mlp = FeedForward::new(model, dim("hidden", 32));
    functions(&g, x, mlp.apply(x, &mlp.weights(&Parameters::like(x), "mlp")));
    for function in ["forward", "backward"] {
        let all = sent(&g, "m:2", "hidden:m", function);
        assert_eq!(all, [format!("all_reduce {ACTIVATIONS}")], "{function}");
    }
    for attention in [
        MultiHead::new(model, dim("heads", 4), dim("kv", 4)),
        MultiHead::grouped(model, dim("heads", 2), dim("own", 2), dim("kv", 4)),
    ] {
        let g = mesh_ops::graph();
        let x = g.input("x", [batch, length, model], F32);
        let options = AttentionOptions { mask: Some(causal(&g, length)), ..Default::default() };
        let rotation = Rotation::new(mesh_ops::range(&g, length, I32), attention.kv, 100.0);
        let weights = attention.weights(&Parameters::like(x), "attention");
        let y = attention.self_attention(x, length, &weights, Some(&rotation), &options);
        functions(&g, x, y);
        for function in ["forward", "backward"] {
            let all = sent(&g, "m:2", "heads:m", function);
            assert_eq!(all, [format!("all_reduce {ACTIVATIONS}")], "{function}");
            assert_eq!(sent(&g, "m:2", "batch:m", function), [""; 0], "batch, {function}");
        }
    }
}

#[test]
fn a_transformer_layer_costs_two_all_reduces_forward() {
    let [batch, length, model] = dims();
    let g = mesh_ops::graph();
    let layer = TransformerLayer {
        norm: Norm::Layer,
        attention: MultiHead::new(model, dim("heads", 4), dim("kv", 4)),
        feed_forward: FeedForward::new(model, dim("hidden", 32)),
    };
    let x = g.input("x", [batch, length, model], F32);
    let weights = layer.weights(&Parameters::like(x), "layer");
    functions(&g, x, layer.apply(x, length, &weights, &Around::default()));
    let all = format!("all_reduce {ACTIVATIONS}");
    let half = format!("all_reduce {}", ACTIVATIONS / 2);
    assert_eq!(sent(&g, "m:2", "heads:m;hidden:m", "forward"), [all.clone(), all.clone()]);
    assert_eq!(sent(&g, "d:2;m:2", "batch:d;heads:m;hidden:m", "forward"), [half.clone(), half]);
    // Attention's sum of the forward pass is needed again; then there is one for each part's
    // gradient.
    assert_eq!(sent(&g, "m:2", "heads:m;hidden:m", "backward"), [all.clone(), all.clone(), all]);
}

#[test]
fn a_split_length_gathers_keys_and_values() {
    let [batch, length, model] = dims();
    let g = mesh_ops::graph();
    let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 4));
    let x = g.input("x", [batch, length, model], F32);
    let weights = attention.weights(&Parameters::like(x), "attention");
    let options = AttentionOptions { mask: Some(causal(&g, length)), ..Default::default() };
    functions(&g, x, attention.self_attention(x, length, &weights, None, &options));
    let each = format!("all_gather {}", ACTIVATIONS / 2);
    assert_eq!(sent(&g, "m:2", "length:m", "forward"), [each.clone(), each]);
    let backward = sent(&g, "m:2", "length:m", "backward");
    let scattered = backward.iter().filter(|line| line.starts_with("reduce_scatter")).count();
    assert_eq!(scattered, 2, "gradients of keys and values: {backward:?}");
}

#[test]
fn a_split_window_sends_its_borders() {
    let (batch, length, kv) = (dim("batch", 1), dim("length", 64), dim("kv", 4));
    let g = mesh_ops::graph();
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [batch, length, kv], F32));
    let local = LocalAttention::new(length, 5).in_blocks_of(16);
    let y = local.apply(q, k, v, kv, kv, &AttentionOptions::default());
    g.function("forward", [q, k, v], [y], []);
    let all = sent(&g, "m:4", "length:m;length_blocks:m", "forward");
    assert_eq!(all, ["permute 16", "permute 16"], "4 positions of keys, 4 of values");
}

#[test]
fn experts_on_the_axis_of_the_batch_cost_two_all_to_alls() {
    let [batch, length, model] = dims();
    let g = mesh_ops::graph();
    let x = g.input("x", [batch, length, model], F32);
    let experts = dim("experts", 4);
    for (gating, name) in [(Gating::Switch, "switch"), (Gating::TopTwo { threshold: 0.0 }, "top")] {
        let mixture = MixtureOfExperts::new(model, dim("hidden", 32), experts, gating);
        let weights = mixture.weights(&Parameters::like(x), name);
        let (y, _) = mixture.apply(x, &[batch, length], &weights, None);
        g.function(name, [x], [y], []);
        // Per processor and group: 4 experts of 4 places.
        let each = format!("all_to_all {}", 4 * mixture.router.capacity(LENGTH) * MODEL);
        assert_eq!(sent(&g, "all:4", "batch:all;experts:all", name), [each.clone(), each]);
        assert_eq!(sent(&g, "all:4", "batch:all;batch_at_experts:all", name), [""; 0]);
        let all = sent(&g, "all:4", "batch:all", name);
        assert_eq!(all.len(), 1, "tokens gathered, results cut: {all:?}");
    }
}

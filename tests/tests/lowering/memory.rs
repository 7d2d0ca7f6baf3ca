//! The memory of a training step.

use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer, Sgd};
use tests::on_host;

/// The activation after each layer.
type Activation = for<'g> fn(Tensor<'g>) -> Tensor<'g>;

/// Six dense layers that keep their width, computed in `dtype`.
fn mlp(g: &Graph, dtype: DType, activation: Activation, optimizer: &dyn Optimizer) {
    let (batch, classes) = (dim("batch", 2048), dim("classes", 16));
    let input = g.input("input", [batch, dim("in", 1024)], F32);
    let label = g.input("label", [batch], I32);
    let mut h = input.cast(dtype);
    for layer in 0..6 {
        h = activation(h.dense(dim(&format!("h{layer}"), 1024), &format!("dense{layer}")));
    }
    let loss = h.dense(classes, "logits").cast(F32).softmax_cross_entropy(label, classes).mean();
    g.function("train", [input, label], [loss], optimizer.minimize(loss));
}

/// f32 copies of bf16 activations do not live from the forward phase to the backward phase.
#[test]
fn training_in_bf16_takes_less_memory_than_in_f32() {
    let activations: [(&str, Activation); 4] = [
        ("relu", |x| x.relu()),
        ("gelu", |x| x.gelu()),
        ("tanh", |x| x.tanh()),
        ("nothing", |x| x),
    ];
    let optimizers: [&dyn Optimizer; 2] = [&Sgd::new(0.1), &AdamWeightDecay::new(0.1)];
    for (name, activation) in activations {
        for (mesh, layout) in
            [("", ""), ("d:2", "batch:d"), ("d:2", "h0:d;h2:d;h4:d"), ("d:2", "params/*:d")]
        {
            for optimizer in optimizers {
                let [narrow, wide] = [BF16, F32].map(|dtype| {
                    let g = mesh_ops::graph();
                    mlp(&g, dtype, activation, optimizer);
                    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
                    on_host(&module.unwrap())[0].plan.arena_bytes
                });
                println!(
                    "{name} under {layout:?}: {narrow} {wide} {}",
                    narrow as f64 / wide as f64
                );
            }
        }
    }
}

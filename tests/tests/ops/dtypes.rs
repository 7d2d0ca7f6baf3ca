//! The dtypes of variables, of computations, and of sums of gradients.

use mesh_ops::layers::{ConvLayer, Dense, Norm, Parameters};
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, AdamWeightDecay, Momentum, Optimizer, Sgd};
use ndarray::{ArrayD, IxDyn};

const LAYOUTS: &[(&str, &str)] =
    &[("", ""), ("d:2", "x:d"), ("d:2", "slots/*:d"), ("d:2", "params/*:d;slots/*:d")];

/// There are a thousand updates of 0.001, each far below the distance of bf16 numbers near 1.
#[test]
fn small_updates_vanish_in_bf16_and_not_in_a_master_of_f32() {
    for (mesh, layout) in LAYOUTS {
        let g = mesh_ops::graph();
        let x = dim("x", 4);
        let narrow = g.variable("narrow", [x], BF16, Initializer::ONES);
        let wide = Parameters::new(&g, F32).computed_in(BF16);
        let computed = wide.variable("wide", [x], Initializer::ONES);
        assert_eq!(computed.dtype(), BF16);
        let loss = (narrow.value() + computed).sum_all();
        let train = g.function("train", [], [], Sgd::new(0.001).minimize(loss));
        let look = g.function("look", [], [computed], []);
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        session.set_replica_check(true).unwrap();
        for _ in 0..1_000 {
            let [] = session.call(&train, []).unwrap();
        }
        let [narrow, wide] = ["narrow", "wide"].map(|name| session.read(name).unwrap().to_f64());
        assert!(narrow.iter().all(|w| *w == 1.0), "{layout}");
        assert!(wide.iter().all(|w| w.abs() < 1e-4), "{layout}: {wide}");
        let [seen] = session.call(&look, []).unwrap();
        let rounded = |w: f64| half::bf16::from_f32(w as f32).to_f64();
        assert_eq!(seen.to_f64(), wide.mapv(rounded));
    }
}

/// A small network in bf16, with all kinds of layers that have weights.
fn network<'g>(g: &'g Graph, dtype: DType) -> (Tensor<'g>, Tensor<'g>) {
    let (batch, x, hidden, y) = (dim("batch", 8), dim("x", 8), dim("hidden", 16), dim("y", 4));
    let input = g.input("input", [batch, x], F32);
    let h = input.cast(dtype).dense(hidden, "one").relu();
    let norm = Norm::Layer.weights(&Parameters::like(h), hidden, "norm");
    let h = Norm::Layer.apply(h, hidden, &norm);
    let out = Dense::onto([y]).apply(h, "two");
    assert_eq!(out.dtype(), dtype);
    (input, out.cast(F32).square().mean())
}

#[test]
fn layers_of_bf16_are_stored_in_f32_with_slots_of_f32() {
    let optimizers: [Box<dyn Optimizer>; 4] = [
        Box::new(Sgd::new(0.1)),
        Box::new(Momentum::new(0.1, 0.9)),
        Box::new(AdamWeightDecay::new(0.1)),
        Box::new(Adafactor::default()),
    ];
    for optimizer in optimizers {
        let g = mesh_ops::graph();
        let (input, loss) = network(&g, BF16);
        g.function("train", [input], [loss], optimizer.minimize(loss));
        let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        for variable in module.variables().iter().filter(|variable| variable.name != "step") {
            assert_eq!(variable.dtype, F32, "{}", variable.name);
        }
    }
    let g = mesh_ops::graph();
    let image = g.input("image", [dim("h", 8), dim("w", 8), dim("c", 2)], F32).cast(BF16);
    let filtered = ConvLayer::onto(
        dim("out", 4),
        &mesh_ops::conv::Conv::over([("h", "fh"), ("w", "fw")]),
        [3, 3],
    );
    assert_eq!(filtered.apply(image, "conv").dtype(), BF16);
    assert!(g.trainable_variables().iter().all(|variable| variable.dtype() == F32));
    // Asked for, variables are bf16.
    let weights =
        Dense::onto([dim("y", 4)]).over([dim("c", 2)]).weights(&Parameters::new(&g, BF16), "d");
    assert_eq!(weights.kernel.dtype(), BF16);
    assert_eq!(g.trainable_variables().last().unwrap().dtype(), BF16);
}

/// The form and the dtype of every reduced value of a program.
fn reductions(
    layout: &str,
    stored: impl for<'g> Fn(&'g Graph) -> (Tensor<'g>, Tensor<'g>),
) -> Vec<(String, DType)> {
    let g = mesh_ops::graph();
    let (input, loss) = stored(&g);
    g.function("train", [input], [loss], AdamWeightDecay::new(0.1).minimize(loss));
    let module = g.lower(&"d:4".parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let program = &module.functions()[0];
    let sums = program.steps().iter();
    let sums = sums.filter(|step| matches!(step.form.name(), "all_reduce" | "reduce_scatter"));
    let reduced = sums.flat_map(|step| step.reads().map(|input| (step.form.name(), input)));
    reduced.map(|(form, input)| (form.to_owned(), program.value(input).dtype)).collect()
}

#[test]
fn gradients_of_bf16_are_reduced_in_f32() {
    for layout in ["batch:d", "batch:d;slots/*:d", "batch:d;params/*:d;slots/*:d"] {
        let found = reductions(layout, |g| network(g, BF16));
        // Two kernels, two biases, a scale and a bias of the norm, and the loss.
        assert_eq!(found.len(), 7, "{layout}: {found:?}");
        assert!(found.iter().all(|(_, dtype)| *dtype == F32), "{layout}: {found:?}");
        // The variables are bf16, too, so the gradient is bf16; its sum is f32 until it is settled.
        let found = reductions(layout, |g| {
            let (batch, x) = (dim("batch", 8), dim("x", 8));
            let input = g.input("input", [batch, x], F32);
            let w = g.variable("w", [x], BF16, Initializer::ONES);
            let y = input.cast(BF16).einsum(&[w.value()], [batch]);
            (input, y.cast(F32).square().mean())
        });
        assert_eq!(found.len(), 2, "{layout}: {found:?}");
        assert!(found.iter().all(|(_, dtype)| *dtype == F32), "{layout}: {found:?}");
    }
}

#[test]
fn training_in_bf16_follows_training_in_f32() {
    let data = ArrayD::from_shape_fn(IxDyn(&[8, 8]), |i| ((i[0] * 8 + i[1]) as f32 * 0.7).sin());
    let losses = |dtype: DType, mesh: &str, layout: &str| -> Vec<f64> {
        let g = mesh_ops::graph();
        let (input, loss) = network(&g, dtype);
        let train =
            g.function("train", [input], [loss], AdamWeightDecay::new(0.003).minimize(loss));
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 1).unwrap();
        let mut step = || session.call(&train, [data.view().into()]).unwrap()[0].item().unwrap();
        (0..30).map(|_| step()).collect()
    };
    let wide = losses(F32, "", "");
    assert!(wide[29] < 0.5 * wide[0], "{wide:?}");
    for (mesh, layout) in [("", ""), ("d:4", "batch:d"), ("d:4", "batch:d;params/*:d;slots/*:d")] {
        let narrow = losses(BF16, mesh, layout);
        for (narrow, wide) in narrow.iter().zip(&wide) {
            // In bf16 the next number after 1 is 1.0078.
            assert!((narrow - wide).abs() < 0.03 * wide.abs().max(0.1), "{narrow} not {wide}");
        }
    }
}

//! Defects of layers and their parameters.

use crate::fed::{Fed, near};
use mesh_core::program::forms::Generate;
use mesh_core::program::{Form, Generator};
use mesh_ops::layers::attention::{AttentionOptions, LocalAttention, MultiHead};
use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
use mesh_ops::layers::{BatchNorm, Parameters};
use mesh_ops::prelude::*;

/// One of the mixtures read a capacity that its constructor never set. Here every gating has one, and
/// it holds: with one place per expert no more tokens are computed than there are experts in a group.
#[test]
fn d04_mixtures_have_a_capacity() {
    for (gating, choices) in [(Gating::Switch, 1), (Gating::TopTwo { threshold: 0.2 }, 2)] {
        for places in [1, 8] {
            let g = mesh_ops::graph();
            let mut fed = Fed::new(&g, "D4");
            let (batch, length, model) = (dim("batch", 2), dim("length", 8), dim("model", 4));
            let (x, _) = fed.normal("x", "batch:2;length:8;model:4");
            let mut mixture =
                MixtureOfExperts::new(model, dim("hidden", 4), dim("experts", 2), gating);
            let router = &mut mixture.router;
            assert_eq!((router.min_capacity, router.capacity(4), router.capacity(80)), (4, 4, 50));
            (router.capacity_factor, router.min_capacity) = (0.0, places);
            assert_eq!(router.capacity(8), places);
            let weights = mixture.weights(&Parameters::like(x), "moe");
            let (y, _) = mixture.apply(x, &[batch, length], &weights, None);
            let y = fed.value(y, &[("", ""), ("a:2", "batch:a;experts:a"), ("a:2", "hidden:a")]);
            for group in y.outer_iter() {
                let computed = group.rows().into_iter().filter(|row| row.iter().any(|y| *y != 0.0));
                let computed = computed.count();
                match places {
                    1 => assert!((1..=2 * choices).contains(&computed), "{gating:?}: {computed}"),
                    // What relu makes of a token may be 0 throughout.
                    _ => assert!(computed > 2 * choices, "{gating:?}: {computed}"),
                }
            }
        }
    }
}

/// Self-attention over mixtures passed an argument that mixtures do not have. Here it sees what a mixture makes
/// as it sees any other tensor, and its gradient reaches the mixture.
#[test]
fn d05_attention_takes_what_mixtures_make() {
    let layouts = [("", ""), ("a:2", "batch:a;experts:a"), ("a:2", "heads:a"), ("a:2", "length:a")];
    let (batch, length, model) = (dim("batch", 2), dim("length", 4), dim("model", 4));
    fn attention<'g>(h: Tensor<'g>, [length, model]: [Dimension; 2]) -> Tensor<'g> {
        let heads = MultiHead::new(model, dim("heads", 2), dim("kv", 2));
        let weights = heads.weights(&Parameters::like(h), "attention");
        heads.self_attention(h, length, &weights, None, &AttentionOptions::default())
    }
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "D5");
    let (x, _) = fed.normal("x", "batch:2;length:4;model:4");
    let experts = MixtureOfExperts::new(model, dim("hidden", 4), dim("experts", 2), Gating::Switch);
    let of_experts = experts.weights(&Parameters::like(x), "moe");
    let (h, _) = experts.apply(x, &[batch, length], &of_experts, None);
    let y = attention(h, [length, model]);
    let gradient = g.gradients(&[y.mean()], &[of_experts.router], None)[0].unwrap();
    let (made, seen) = (fed.value(h, &layouts), fed.value(y, &layouts));
    assert!(fed.value(gradient, &layouts).iter().any(|slope| slope.abs() > 1e-6));

    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "D5");
    let made: Vec<f32> = made.iter().map(|h| *h as f32).collect();
    let h = fed.given("h", "batch:2;length:4;model:4", &made);
    let y = attention(h, [length, model]);
    near(&fed.value(y, &layouts), &seen, 1e-5, "attention to what a mixture made");
}

fn seen(window: usize, local: LocalAttention, layouts: &[(&str, &str)]) {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "local");
    let (length, kv) = (dim("length", 8), dim("kv", 1));
    // The logits are equal, so each position gets the mean of the values that it attends to.
    let same = g.fill(0.0, [length, kv], F32);
    let v = fed.given("v", "length:8;kv:1", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
    let y = local.apply(same, same, v, kv, kv, &AttentionOptions::default());
    let value = fed.value(y, layouts);
    for (i, got) in value.iter().enumerate() {
        let seen = (i + 1).saturating_sub(window)..i + 1;
        let want = seen.clone().map(|j| f64::from(1 << j)).sum::<f64>() / seen.len() as f64;
        assert!((got - want).abs() < 1e-4, "{window}: {value}");
    }
}

/// Local attention failed on a length that was not divided into blocks.
#[test]
fn d10_local_attention_needs_no_blocks_of_ones_own() {
    seen(3, LocalAttention::new(dim("length", 8), 3), &[("", ""), ("a:2", "length:a")]);
}

/// Local attention reached as far as the block, not as far as the window.
#[test]
fn d12_windows_are_windows_whatever_the_blocks() {
    for window in [1, 3, 5] {
        for block in [2, 4, 8] {
            seen(
                window,
                LocalAttention::new(dim("length", 8), window).in_blocks_of(block),
                &[("", "")],
            );
        }
    }
}

/// The documentation said that logsumexp keeps its dim.
#[test]
fn d13_logsumexp_loses_its_dim() {
    let g = mesh_ops::graph();
    let fed = Fed::new(&g, "D13");
    let (p, classes) = (dim("p", 2), dim("classes", 4));
    let y = g.fill(3.0, [p, classes], F32).logsumexp(classes);
    assert_eq!(y.shape().to_string(), "[p:2]");
    let value = fed.value(y, &[("", ""), ("a:2", "classes:a")]);
    assert!(value.iter().all(|y| (y - (3.0 + 4f64.ln())).abs() < 1e-6), "{value}");
}

/// Dropout of bf16 compared its rate with noise of bf16, of which there are 256 values.
#[test]
fn d32_dropout_draws_noise_of_f32() {
    for dtype in [F32, BF16, I32] {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("p", 4)], dtype);
        g.function("f", [x], [x.dropout(0.1)], []);
        let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        let program = &module.functions()[0];
        let drawn = program.steps().iter().filter_map(|step| match &step.form {
            Form::Generate(Generate { generator: Generator::Uniform { .. }, .. }) => {
                Some(step.outs[0])
            }
            _ => None,
        });
        let dtypes: Vec<_> = drawn.map(|id| program.value(id).dtype).collect();
        assert_eq!(dtypes, [F32], "noise for {dtype}");
    }
}

/// Batch norm's moving average of means started with random numbers around 1.
#[test]
fn d33_averages_begin_at_mean_0_and_variance_1() {
    let g = mesh_ops::graph();
    let k = dim("k", 3);
    let x = g.input("x", [dim("batch", 2), k], F32);
    let norm = BatchNorm::keeping([k]);
    let weights = norm.weights(&Parameters::like(x), "norm");
    g.function("evaluate", [x], [norm.evaluate(x, &weights)], []);
    for seed in 0..3 {
        let module = g.lower(&"a:3".parse().unwrap(), &"k:a".parse().unwrap()).unwrap();
        let session = Session::threads(&module, seed).unwrap();
        let read = |name: &str| session.read(name).unwrap();
        assert_eq!(read("norm/moving_mean"), ndarray::arr1(&[0.0_f32; 3]).into());
        assert_eq!(read("norm/moving_variance"), ndarray::arr1(&[1.0_f32; 3]).into());
    }
}

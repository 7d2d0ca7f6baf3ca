//! Decoding with a cache gives the numbers of the full pass, position by position.

use crate::fed::{Fed, near};
use mesh_core::program::{Compiled, Form, Place, ValueId};
use mesh_ops::layers::attention::*;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use ndarray::{ArrayD, Axis, arr0};

const LENGTH: usize = 6;

/// How positions enter attention.
#[derive(Clone, Copy, PartialEq)]
enum Positions {
    None,
    Rotary,
    Relative,
    Window,
}

fn dims() -> [Dimension; 4] {
    [dim("batch", 2), dim("length", LENGTH), dim("heads", 2), dim("model", 8)]
}

fn layer(attention: MultiHead) -> TransformerLayer {
    let [.., model] = dims();
    let feed_forward = FeedForward::new(model, dim("hidden", 12));
    TransformerLayer { norm: Norm::Layer, attention, feed_forward }
}

/// The part of the layer around attention, for queries at these positions that attend to `memory`.
fn around<'g>(
    kind: Positions,
    query: Tensor<'g>,
    memory: Tensor<'g>,
    table: Tensor<'g>,
    kv: Dimension,
    heads: Dimension,
) -> Around<'g, 'g> {
    let mut around = Around::default();
    match kind {
        Positions::None => {}
        Positions::Rotary => around.rotation = Some(Rotation::new(query, kv, 100.0)),
        Positions::Relative => {
            let relative = RelativeBias {
                buckets: dim("buckets", 4),
                max_distance: 5,
                ..RelativeBias::looking_back([heads])
            };
            around.attention.bias = Some(relative.apply(table, query, memory));
        }
        Positions::Window => around.attention.mask = Some(window_mask(query, memory, 3)),
    }
    around
}

/// The results of the whole pass and of decoding, each in a session of its own, under one layout.
fn both(attention: &MultiHead, kind: Positions, mesh: &str, layout: &str) {
    let [batch, length, heads, model] = dims();
    let memory = memory_dim(length);
    let g = mesh_ops::graph();
    let layer = layer(attention.clone());
    let kv = attention.kv;
    let table = g
        .variable(
            "table",
            [dim("buckets", 4), heads],
            F32,
            Initializer::Uniform { low: -1.0, high: 1.0 },
        )
        .value();
    let x = g.input("x", [batch, length, model], F32);
    let weights = layer.weights(&Parameters::like(x), "layer");
    let range = |dim| mesh_ops::range(&g, dim, I32);
    let mut full = around(kind, range(length), range(memory), table, kv, heads);
    let past = causal(&g, length);
    full.attention.mask = Some(full.attention.mask.map_or(past, |mask| mask.logical_and(past)));
    let y = layer.apply(x, length, &weights, &full);
    let all = g.function("all", [x], [y], []);

    let (here, position) = (g.input("here", [batch, model], F32), g.input("position", [], I32));
    let kept = attention.cache_variables(&g, &[batch], memory, F32, "cache");
    let near_it = around(kind, position, range(memory), table, kv, heads);
    let (next, cache) = layer.decode(here, position, &kept.value(), memory, &weights, &near_it);
    let step = g.function("step", [here, position], [next], kept.assign(&cache));

    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 3).unwrap();
    session.set_replica_check(true).unwrap();
    let data = ndarray::Array3::from_shape_fn((2, LENGTH, 8), |(b, i, m)| {
        ((b * 131 + i * 37 + m * 17) % 23) as f32 / 11.0 - 1.0
    });
    let [expected] = session.call(&all, [data.view().into()]).unwrap();
    for i in 0..LENGTH {
        let row = data.index_axis(Axis(1), i);
        let at = arr0(i as i32);
        let [got] = session.call(&step, [row.into(), at.view().into()]).unwrap();
        let want: ArrayD<f64> = expected.to_f64().index_axis(Axis(1), i).to_owned();
        near(&got.to_f64(), &want, 1e-5, &format!("position {i}, {layout}"));
    }
}

#[test]
fn decoding_equals_the_full_pass() {
    let [_, _, heads, model] = dims();
    let kv = dim("kv", 4);
    for attention in [MultiHead::new(model, heads, kv), MultiHead::multi_query(model, heads, kv)] {
        for kind in [Positions::None, Positions::Rotary, Positions::Relative, Positions::Window] {
            for (mesh, layout) in [
                ("", ""),
                ("a:2", "batch:a"),
                ("a:2", "heads:a;hidden:a"),
                ("a:2", "memory_length:a"),
                ("a:2;b:2", "kv:a;model:b"),
            ] {
                both(&attention, kind, mesh, layout);
            }
        }
    }
    let grouped = MultiHead::grouped(model, dim("groups", 2), heads, kv);
    both(&grouped, Positions::Rotary, "a:2;b:2", "groups:a;batch:b");
}

/// The sequences of a batch may be at different positions.
#[test]
fn positions_may_differ_in_a_batch() {
    let [batch, length, heads, model] = dims();
    let memory = memory_dim(length);
    let attention = MultiHead::new(model, heads, dim("kv", 4));
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "positions");
    let (x, _) = fed.normal("x", "batch:2;model:8");
    let position = fed.integers("position", "batch:2", &[4, 1]);
    let (key, _) = fed.normal("key", "batch:2;heads:2;memory_length:6;kv:4");
    let (value, _) = fed.normal("value", "batch:2;heads:2;memory_length:6;kv:4");
    let cache = KeyValues { key, value };
    let weights = attention.weights(&Parameters::like(x), "attention");
    let options = AttentionOptions::default();
    let decode = |x, position, cache: &KeyValues<'_>| -> (ArrayD<f64>, ArrayD<f64>) {
        let (y, after) = attention.decode(x, position, cache, memory, &weights, None, &options);
        let layouts = [("", "")];
        (fed.value(y, &layouts), fed.value(after.key, &layouts))
    };
    let (together, keys) = decode(x, position, &cache);
    for (b, at) in [(0, 4.0), (1, 1.0)] {
        let one = |t| mesh_ops::slice(t, batch.resized(1), b);
        let cache = KeyValues { key: one(key), value: one(value) };
        let (alone, of_one) = decode(one(x), g.scalar(at, I32), &cache);
        let row = |all: &ArrayD<f64>| all.slice_axis(Axis(0), (b..b + 1).into()).to_owned();
        near(&alone, &row(&together), 1e-6, "result");
        near(&of_one, &row(&keys), 1e-6, "cache");
    }
}

/// With a cache of several blocks, most of them empty for one sequence or the other, and full of old numbers:
/// as attention to all positions with a mask.
#[test]
fn what_is_filled_is_all_that_counts() {
    let [_, _, heads, model] = dims();
    let memory = dim("memory_length", 768);
    let attention = MultiHead::new(model, heads, dim("kv", 4));
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "filled");
    let (x, _) = fed.normal("x", "batch:2;model:8");
    let position = fed.integers("position", "batch:2", &[700, 255]);
    let (key, _) = fed.normal("key", "batch:2;heads:2;memory_length:768;kv:4");
    let (value, _) = fed.normal("value", "batch:2;heads:2;memory_length:768;kv:4");
    let weights = attention.weights(&Parameters::like(x), "attention");
    let (cache, options) = (KeyValues { key, value }, AttentionOptions::default());
    let (y, _) = attention.decode(x, position, &cache, memory, &weights, None, &options);

    let new = attention.keys_values(x, &weights, None);
    let positions = mesh_ops::range(&g, memory, I32);
    let here = positions.equal(position);
    let cache = KeyValues { key: here.select(new.key, key), value: here.select(new.value, value) };
    let mask = Some(positions.less_equal(position));
    let options = AttentionOptions { mask, ..options };
    let q = attention.queries(x, &weights, None);
    let whole = attention.attend(q, &cache, memory, &weights, &options);
    let layouts = [
        ("", ""),
        ("a:2", "memory_length:a"),
        ("a:2", "batch:a"),
        ("a:3", "memory_length:a"),
        ("a:2;b:2", "heads:a;memory_length:b"),
    ];
    near(&fed.value(y, &layouts), &fed.value(whole, &[("", "")]), 1e-5, "filled");
}

/// A position is put into the caches' own memory, and their blocks are looked at where they lie: nothing as
/// large as what a head has of a cache is written or copied.
#[test]
fn a_step_writes_one_row_of_its_caches() {
    let (heads, model, kv) = (dim("heads", 2), dim("model", 64), dim("kv", 32));
    let memory = dim("memory_length", 4096);
    let attention = MultiHead::new(model, heads, kv);
    let g = mesh_ops::graph();
    let (x, position) = (g.input("x", [model], F32), g.input("position", [], I32));
    let weights = attention.weights(&Parameters::like(x), "attention");
    let kept = attention.cache_variables(&g, &[], memory, F32, "cache");
    let options = AttentionOptions::default();
    let (y, cache) = attention.decode(x, position, &kept.value(), memory, &weights, None, &options);
    g.function("step", [x, position], [y], kept.assign(&cache));
    for (mesh, layout, parts) in [("", "", 1), ("a:2", "heads:a", 1), ("a:2", "memory_length:a", 2)]
    {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let Compiled { program, plan } = &tests::on_host(&module)[0];
        let place = |value: ValueId| plan.places[value.index()];
        let puts = program.steps().iter().filter(|step| matches!(step.form, Form::Put(_)));
        let puts: Vec<_> = puts.map(|step| place(step.outs[0])).collect();
        assert_eq!(puts.len(), 2, "{layout}");
        assert!(puts.iter().all(|at| matches!(at, Place::Variable(_))), "{layout}: {puts:?}");
        let of_head = 4 * memory.size * kv.size / parts;
        assert!(plan.arena_bytes < of_head, "{layout}: {} of {of_head}", plan.arena_bytes);
    }
}

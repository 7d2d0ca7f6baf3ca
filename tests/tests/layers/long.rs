//! Attention in blocks against attention with all scores at once: outputs and gradients.

use crate::fed::{Fed, near};
use mesh_core::program::Block;
use mesh_ops::attention::{Blocks, Mask};
use mesh_ops::layers::attention::*;
use mesh_ops::prelude::*;
use ndarray::ArrayD;

/// Sums of a few terms of magnitude 1 in f64, in different orders.
const ORDERS: f64 = 1e-12;

const LENGTH: usize = 8;
const LAYOUTS: &[(&str, &str)] =
    &[("", ""), ("a:2", "batch:a"), ("a:2;b:2", "length:a;heads:b"), ("a:4", "length:a")];

fn length() -> Dimension {
    dim("length", LENGTH)
}

type Options = for<'g> fn(&'g Graph, &[Tensor<'g>]) -> AttentionOptions<'g>;

/// Options of each kind, of a bias for each head, an extra logit for each, bools, segments, and bools of
/// which some hold for each query.
const OPTIONS: &[(&str, Options)] = &[
    ("nothing", |_, _| AttentionOptions::default()),
    ("causal, scale, cap", |g, _| {
        let rules = along(g).causal();
        AttentionOptions { rules, scale: Some(0.5), cap: Some(1.5), ..Default::default() }
    }),
    ("a window, bias, an extra logit", |g, x| AttentionOptions {
        rules: along(g).causal().window(3),
        bias: Some(x[0]),
        extra_logit: Some(x[1]),
        ..Default::default()
    }),
    ("bools, of which none holds for some", |_, x| AttentionOptions {
        mask: Some(x[2]),
        bias: Some(x[0]),
        ..Default::default()
    }),
    ("rules, and bools of which none holds for some", |g, x| AttentionOptions {
        mask: Some(x[2]),
        rules: along(g).causal(),
        ..Default::default()
    }),
    ("added numbers and a bias", |_, x| AttentionOptions {
        mask: Some(additive_mask(x[4], F64)),
        bias: Some(x[0]),
        ..Default::default()
    }),
    ("segments of which the memory has others", |g, x| AttentionOptions {
        rules: along(g).causal().segments(x[3], as_memory(x[3] + x[3].scalar_like(1.0), length())),
        extra_logit: Some(x[1]),
        ..Default::default()
    }),
    ("dropout", |_, _| AttentionOptions { dropout: 0.3, ..Default::default() }),
    ("dropout, causal, scale, cap, bias, an extra logit", |g, x| AttentionOptions {
        rules: along(g).causal(),
        scale: Some(0.5),
        cap: Some(1.5),
        bias: Some(x[0]),
        extra_logit: Some(x[1]),
        dropout: 0.3,
        ..Default::default()
    }),
    ("dropout, bools, of which none holds for some", |_, x| AttentionOptions {
        mask: Some(x[2]),
        bias: Some(x[0]),
        dropout: 0.3,
        ..Default::default()
    }),
    ("dropout, rules, and bools of which none holds for some", |g, x| AttentionOptions {
        mask: Some(x[2]),
        rules: along(g).causal(),
        dropout: 0.3,
        ..Default::default()
    }),
];

fn along(g: &Graph) -> Mask<'_> {
    Mask::along(g, length(), memory_dim(length()))
}

#[test]
fn blocks_are_the_whole() {
    for (name, options) in OPTIONS {
        let [plain, blocks] = [
            AttentionWay::Plain,
            // Neither divides the length.
            AttentionWay::Blocks(Blocks { queries: 3, memory: 5 }),
        ]
        .map(|way| {
            let g = mesh_ops::graph();
            let mut fed = Fed::new(&g, "long");
            let mut floats = |name: &str, shape: &str| fed.normal(name, shape).0.cast(F64);
            let q = floats("q", "batch:2;length:8;heads:2;kv:2");
            let k = floats("k", "batch:2;memory_length:8;heads:2;kv:2");
            let v = floats("v", "batch:2;memory_length:8;heads:2;kv:2");
            let weights = floats("weights", "batch:2;length:8;heads:2;kv:2");
            let bias = floats("bias", "heads:2;length:8;memory_length:8");
            let extra = floats("extra", "heads:2");
            let numbers = floats("numbers", "length:8;memory_length:8");
            // Whatever the numbers are, the second query sees nothing.
            let second = mesh_ops::range(&g, length(), I32).equal(g.scalar(1.0, I32));
            let allowed = numbers.greater(g.scalar(0.0, F64)).logical_and(second.logical_not());
            let segments = fed.integers("segments", "length:8", &[1, 1, 1, 2, 2, 2, 3, 3]);
            let some = numbers.greater(g.scalar(-1.0, F64));
            let given = [bias, extra, allowed, segments, some];
            let options = AttentionOptions { way, ..options(&g, &given) };
            let (memory, kv) = (memory_dim(length()), dim("kv", 2));
            let y = dot_product_attention(q, k, v, memory, kv, kv, &options);
            let grads = g.gradients(&[(y * weights).sum_all()], &[q, k, v, bias, extra], None);
            let all: Vec<_> = std::iter::once(y).chain(grads.into_iter().flatten()).collect();
            let layouts = if way == AttentionWay::Plain { &LAYOUTS[..1] } else { LAYOUTS };
            let under = |x| layouts.iter().map(|layout| fed.value(x, &[*layout])).collect();
            all.iter().map(|x| under(*x)).collect::<Vec<Vec<_>>>()
        });
        assert_eq!(plain.len(), blocks.len(), "{name}");
        for (i, (plain, blocks)) in plain.iter().zip(&blocks).enumerate() {
            for (found, layout) in blocks.iter().zip(LAYOUTS) {
                near(found, &plain[0], ORDERS, &format!("{name}: {i}, {layout:?}"));
            }
        }
    }
}

/// Layers of a loop, recomputed for the gradient, whose attention to itself drops weights: each iteration has its
/// own zeros, and the same backward as forward, whole and in blocks, in order and dealt.
fn dropping_layers(way: AttentionWay, dealt: bool, dropout: f64) -> Vec<Vec<ArrayD<f64>>> {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "dropping");
    let mut floats = |name: &str, shape: &str| fed.normal(name, shape).0.cast(F64);
    let x = floats("x", "batch:2;length:8;model:4");
    let weight = floats("weight", "batch:2;length:8;model:4");
    let query = floats("query", "layers:2;model:4;groups:2;heads:2;kv:2");
    let [key, value] = ["key", "value"].map(|name| floats(name, "layers:2;model:4;groups:2;kv:2"));
    let output = floats("output", "layers:2;groups:2;heads:2;kv:2;model:4");
    let model = dim("model", 4);
    let heads = MultiHead::grouped(model, dim("groups", 2), dim("heads", 2), dim("kv", 2));
    let mask = match dealt {
        true => Mask::in_zigzag(&g, length(), memory_dim(length()), LENGTH),
        false => along(&g),
    };
    let options = AttentionOptions { rules: mask.causal(), dropout, way, ..Default::default() };
    let stacks = [query, key, value, output];
    let ([y], []) = g.scan(dim("layers", 2), [x], stacks, |[x], [query, key, value, output]| {
        let weights = MultiHeadWeights { query, key, value, output };
        let [y] = g.recompute([x], |[x]| {
            [x + heads.self_attention(x, length(), &weights, None, &options)]
        });
        ([y], [])
    });
    let grads = g.gradients(&[(y * weight).sum_all()], &[x, query, value], None);
    let all = std::iter::once(y).chain(grads.into_iter().flatten());
    let layouts = if way == AttentionWay::Plain { &LAYOUTS[..1] } else { LAYOUTS };
    all.map(|x| layouts.iter().map(|layout| fed.value(x, &[*layout])).collect()).collect()
}

#[test]
fn blocks_drop_what_the_whole_drops() {
    let blocks = AttentionWay::Blocks(Blocks { queries: 3, memory: 1 });
    for dealt in [false, true] {
        let plain = dropping_layers(AttentionWay::Plain, dealt, 0.3);
        let found = dropping_layers(blocks, dealt, 0.3);
        assert_eq!((plain.len(), found.len()), (4, 4));
        for (i, (plain, found)) in plain.iter().zip(&found).enumerate() {
            for (found, layout) in found.iter().zip(LAYOUTS) {
                near(found, &plain[0], ORDERS, &format!("{i}, {layout:?}, dealt: {dealt}"));
            }
        }
        let kept = &dropping_layers(AttentionWay::Plain, dealt, 0.0)[0][0];
        assert!(
            plain[0][0].iter().zip(kept).all(|(a, b)| (a - b).abs() > ORDERS),
            "nothing dropped"
        );
    }
}

/// Whether some value of a block or of its loops has the size along two dims.
fn squares(block: &Block, size: usize) -> bool {
    let is_square = |extents: &[usize]| extents.iter().filter(|&&e| e == size).count() > 1;
    block.values.iter().any(|value| is_square(&value.extents))
        || block.steps.iter().any(|step| match &step.form {
            mesh_core::program::Form::Loop(form) => squares(&form.body, size),
            _ => false,
        })
}

/// With 1,024 positions or more, blocks are chosen without anybody asking.
#[test]
fn long_sequences_have_no_score_for_each_pair() {
    const LONG: usize = 1031;
    let ways = [(AttentionWay::Auto, false), (AttentionWay::Plain, true)];
    for ((way, expected), dropout) in ways.into_iter().flat_map(|way| [(way, 0.0), (way, 0.25)]) {
        let g = mesh_ops::graph();
        let (length, memory, kv) = (dim("length", LONG), dim("memory", LONG), dim("kv", 2));
        let q = g.input("q", [length, kv], F32);
        let k = g.input("k", [memory, kv], F32);
        let rules = Mask::along(&g, length, memory).causal();
        let options = AttentionOptions { rules, dropout, way, ..Default::default() };
        let y = dot_product_attention(q, k, k, memory, kv, kv, &options).sum_all();
        let grads = g.gradients(&[y], &[q, k], None);
        g.declare_function(
            "train",
            &[q, k],
            &grads.into_iter().flatten().collect::<Vec<_>>(),
            vec![],
        );
        let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        let block = &module.function("train").unwrap().block;
        assert_eq!(squares(block, LONG), expected, "{way:?}, dropout {dropout}");
    }
}

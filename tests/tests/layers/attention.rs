//! Attention against naive loops over positions.

use crate::fed::{Fed, near};
use mesh_ops::layers::attention::*;
use mesh_ops::layers::{Parameters, Weights};
use mesh_ops::prelude::*;
use ndarray::ArrayD;

const BATCH: usize = 2;
const LENGTH: usize = 8;
const HEADS: usize = 4;
const KV: usize = 2;

const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("a:2", "batch:a"),
    ("a:2", "heads:a"),
    ("a:4", "length:a"),
    ("a:2;b:2", "batch:a;memory_length:b"),
    ("a:2;b:2", "length:a;kv:b"),
];

/// `softmax(q k) v` by loops: element `[b, i, h, d]`. Head `h` uses the keys and values of head
/// `of(h)`.
fn naive(
    [q, k, v]: [&ArrayD<f32>; 3],
    of: impl Fn(usize) -> usize,
    allowed: impl Fn(usize, usize, usize) -> bool,
) -> ArrayD<f64> {
    let (q, k, v) = (
        q.mapv(f64::from).into_shape_with_order((BATCH, LENGTH, HEADS, KV)).unwrap(),
        with_heads(k),
        with_heads(v),
    );
    let mut out = ndarray::Array4::<f64>::zeros((BATCH, LENGTH, HEADS, KV));
    for (b, i, h) in ndarray::indices((BATCH, LENGTH, HEADS)) {
        let mut total = 0.0;
        for j in (0..LENGTH).filter(|&j| allowed(b, i, j)) {
            let logit: f64 = (0..KV).map(|d| q[[b, i, h, d]] * k[[b, j, of(h), d]]).sum();
            total += logit.exp();
            for d in 0..KV {
                out[[b, i, h, d]] += logit.exp() * v[[b, j, of(h), d]];
            }
        }
        for d in 0..KV {
            out[[b, i, h, d]] /= total;
        }
    }
    out.into_dyn()
}

/// With a dim of heads, be it of size 1.
fn with_heads(x: &ArrayD<f32>) -> ndarray::Array4<f64> {
    let heads = x.len() / (BATCH * LENGTH * KV);
    x.mapv(f64::from).into_shape_with_order((BATCH, LENGTH, heads, KV)).unwrap()
}

fn length() -> Dimension {
    dim("length", LENGTH)
}

fn positions(g: &Graph, dim: Dimension) -> Tensor<'_> {
    mesh_ops::range(g, dim, I32)
}

const QUERIES: &str = "batch:2;length:8;heads:4;kv:2";
const MEMORY: &str = "batch:2;memory_length:8;heads:4;kv:2";

/// Attention with a mask, as bools and as numbers, against loops.
fn masked(
    mask: impl for<'g> Fn(&'g Graph, Tensor<'g>) -> Tensor<'g>,
    allowed: impl Fn(usize, usize, usize) -> bool + Copy,
) {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "masked");
    let (q, of_q) = fed.normal("q", QUERIES);
    let (k, of_k) = fed.normal("k", MEMORY);
    let (v, of_v) = fed.normal("v", MEMORY);
    let segments = fed.integers("segments", "batch:2;length:8", &SEGMENTS);
    let mask = mask(&g, segments);
    let want = naive([&of_q, &of_k, &of_v], |h| h, allowed);
    let (memory, kv) = (memory_dim(length()), dim("kv", KV));
    for mask in [mask, additive_mask(mask, F32)] {
        let options = AttentionOptions { mask: Some(mask), ..Default::default() };
        let y = dot_product_attention(q, k, v, memory, kv, kv, &options);
        near(&fed.value(y, LAYOUTS), &want, 1e-5, "masked");
    }
}

#[rustfmt::skip]
const SEGMENTS: [i32; BATCH * LENGTH] = [
    1, 1, 1, 2, 2, 2, 2, 0,
    3, 1, 1, 1, 1, 1, 0, 0,
];

#[test]
fn everything_may_be_seen() {
    masked(|g, _| g.fill(1.0, [length(), memory_dim(length())], Bool), |_, _, _| true);
}

#[test]
fn causal_masks() {
    masked(|g, _| causal(g, length()), |_, i, j| j <= i);
}

#[test]
fn padding_masks() {
    masked(
        |_, ids| padding_mask(as_memory(ids, length())),
        |b, _, j| SEGMENTS[b * LENGTH + j] != 0,
    );
}

#[test]
fn segments_and_causality() {
    masked(
        |g, ids| causal(g, length()).logical_and(segment_mask(ids, as_memory(ids, length()))),
        |b, i, j| j <= i && SEGMENTS[b * LENGTH + i] == SEGMENTS[b * LENGTH + j],
    );
}

#[test]
fn window_masks() {
    for width in [1, 3, 20] {
        masked(
            |g, _| {
                let memory = positions(g, memory_dim(length()));
                window_mask(positions(g, length()), memory, width)
            },
            move |_, i, j| j <= i && i - j < width,
        );
    }
}

#[test]
fn a_query_that_may_see_nothing_gets_the_mean() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "nothing");
    let (memory, kv) = (dim("memory_length", 2), dim("kv", 1));
    let q = fed.given("q", "length:2;kv:1", &[1.0, 2.0]);
    let k = fed.given("k", "memory_length:2;kv:1", &[3.0, -1.0]);
    let v = fed.given("v", "memory_length:2;kv:1", &[10.0, 20.0]);
    let none = g.fill(0.0, [dim("length", 2), memory], Bool);
    for mask in [none, additive_mask(none, F32)] {
        let options = AttentionOptions { mask: Some(mask), ..Default::default() };
        let y = dot_product_attention(q, k, v, memory, kv, kv, &options);
        let y = fed.value(y, &[("", ""), ("a:2", "length:a"), ("a:2", "memory_length:a")]);
        assert_eq!(y.iter().copied().collect::<Vec<_>>(), [15.0, 15.0]);
    }
    let zero = Some(g.scalar(0.0, F32));
    let options = AttentionOptions { mask: Some(none), extra_logit: zero, ..Default::default() };
    let y = dot_product_attention(q, k, v, memory, kv, kv, &options);
    let y = fed.value(y, &[("", ""), ("a:2", "memory_length:a")]);
    assert_eq!(y.iter().copied().collect::<Vec<_>>(), [0.0, 0.0], "an extra logit takes it all");
}

/// Each head has keys and values of its own, all heads share one, or two heads share one.
#[test]
fn heads_share_keys_and_values() {
    let kv = dim("kv", KV);
    let memory = memory_dim(length());
    type Of = fn(usize) -> usize;
    let table: [(&str, &str, Of); 3] = [
        (QUERIES, MEMORY, |h| h),
        (QUERIES, "batch:2;memory_length:8;kv:2", |_| 0),
        ("batch:2;length:8;groups:2;heads:2;kv:2", "batch:2;memory_length:8;groups:2;kv:2", |h| {
            h / 2
        }),
    ];
    for (queries, keys, of) in table {
        let g = mesh_ops::graph();
        let mut fed = Fed::new(&g, keys);
        let (q, of_q) = fed.normal("q", queries);
        let (k, of_k) = fed.normal("k", keys);
        let (v, of_v) = fed.normal("v", keys);
        let y = dot_product_attention(q, k, v, memory, kv, kv, &AttentionOptions::default());
        assert_eq!(y.shape(), q.shape());
        let got = fed.value(y, LAYOUTS);
        let want = naive([&of_q, &of_k, &of_v], of, |_, _, _| true);
        let want = want.into_shape_with_order(got.shape()).unwrap();
        near(&got, &want, 1e-5, keys);
    }
}

/// D12 of Mesh TensorFlow: local attention reached as far as the block, not as the window. D10: it
/// failed on a length that was not divided into blocks.
#[test]
fn windows_are_windows_whatever_the_blocks() {
    for window in [1, 2, 3, 5, 8, 100] {
        let whole = LocalAttention::new(length(), window);
        let blocks = [1, 2, 4, 8].map(|block| whole.in_blocks_of(block));
        blocks.into_iter().chain([whole]).for_each(|local| window_of(window, local));
    }
}

fn window_of(window: usize, local: LocalAttention) {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "local");
    let (q, of_q) = fed.normal("q", QUERIES);
    let (k, of_k) = fed.normal("k", QUERIES);
    let (v, of_v) = fed.normal("v", QUERIES);
    let kv = dim("kv", KV);
    let want = naive([&of_q, &of_k, &of_v], |h| h, |_, i, j| j <= i && i - j < window);
    let y = local.apply(q, k, v, kv, kv, &AttentionOptions::default());
    let by = local.blocks().size;
    let mut layouts = vec![("", ""), ("a:2", "heads:a"), ("a:2", "batch:a")];
    if by.is_multiple_of(2) {
        layouts.extend([("a:2", "length:a;length_blocks:a"), ("a:2", "length_blocks:a")]);
    }
    if by.is_multiple_of(4) {
        layouts.push(("a:2;b:2", "length:a+b;length_blocks:a+b"));
    }
    near(&fed.value(y, &layouts), &want, 1e-5, &format!("window {window} in {by} blocks"));
}

#[test]
fn local_attention_takes_masks_of_blocks() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "local segments");
    let (q, of_q) = fed.normal("q", QUERIES);
    let (k, of_k) = fed.normal("k", QUERIES);
    let (v, of_v) = fed.normal("v", QUERIES);
    let segments = fed.integers("segments", "batch:2;length:8", &SEGMENTS);
    let (kv, local) = (dim("kv", KV), LocalAttention::new(length(), 3).in_blocks_of(2));
    let mask = segment_mask(local.cut(segments), local.seen(segments));
    let same = |b: usize, i: usize, j: usize| SEGMENTS[b * LENGTH + i] == SEGMENTS[b * LENGTH + j];
    let want = naive([&of_q, &of_k, &of_v], |h| h, |b, i, j| j <= i && i - j < 3 && same(b, i, j));
    for mask in [mask, additive_mask(mask, F32)] {
        let options = AttentionOptions { mask: Some(mask), ..Default::default() };
        let y = local.apply(q, k, v, kv, kv, &options);
        near(&fed.value(y, &[("", ""), ("a:4", "length:a;length_blocks:a")]), &want, 1e-5, "");
    }
}

/// Products of rotated queries and keys depend only on distances, and lengths do not change.
#[test]
fn rotation_is_relative() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "rotary");
    let kv = dim("kv", 4);
    let (x, of_x) = fed.normal("x", "kv:4");
    let at = |position: f64| Rotation::new(g.scalar(position, I32), kv, 100.0).apply(x, kv);
    let product = |a: f64, b: f64| {
        let product = at(a).einsum(&[at(b)], []);
        fed.value(product, &[("", ""), ("a:2", "kv:a"), ("a:4", "kv:a")]).sum()
    };
    let square: f64 = of_x.iter().map(|x| f64::from(x * x)).sum();
    assert!((product(0.0, 0.0) - square).abs() < 1e-5);
    assert!((product(7.0, 7.0) - square).abs() < 1e-5);
    assert!((product(3.0, 1.0) - product(40.0, 38.0)).abs() < 1e-4);
    assert!((product(3.0, 1.0) - product(3.0, 0.0)).abs() > 1e-3);
    // The indices 0 and 2 are rotated by one radian per position, 1 and 3 by a tenth.
    let turned = fed.value(at(2.0), &[("", "")]);
    for (i, frequency) in [(0, 1.0), (1, 0.1)] {
        let (sin, cos) = (2.0f64 * frequency).sin_cos();
        let (a, b) = (f64::from(of_x[[i]]), f64::from(of_x[[i + 2]]));
        assert!((turned[[i]] - (a * cos - b * sin)).abs() < 1e-6);
        assert!((turned[[i + 2]] - (b * cos + a * sin)).abs() < 1e-6);
    }
}

/// T5's classes in f64, for distances that are far from the borders of classes.
fn bucket(relative: i64, count: i64, most: i64, bidirectional: bool) -> i64 {
    let (count, base) = match bidirectional {
        true => (count / 2, if relative > 0 { count / 2 } else { 0 }),
        false => (count, 0),
    };
    let n = if bidirectional { relative.abs() } else { (-relative).max(0) };
    let exact = count / 2;
    if n < exact {
        return base + n;
    }
    let logarithm = |x: i64| (x as f64 / exact as f64).ln();
    let steps = logarithm(n) / logarithm(most) * (count - exact) as f64 + 1e-9;
    base + (exact + steps.floor() as i64).min(count - 1)
}

#[test]
fn distances_fall_into_the_classes_of_t5() {
    let g = mesh_ops::graph();
    let fed = Fed::new(&g, "buckets");
    let all = dim("all", 600);
    for (count, most, bidirectional) in
        [(32, 128, false), (32, 128, true), (8, 20, true), (4, 3, false), (64, 300, true)]
    {
        let relative = RelativeBias {
            buckets: dim("buckets", count),
            max_distance: most,
            bidirectional,
            ..RelativeBias::looking_back([])
        };
        let distance = positions(&g, all) - g.scalar(300.0, I32);
        let got = fed.value(relative.bucket(distance), &[("", ""), ("a:4", "all:a")]);
        for (i, got) in got.iter().enumerate() {
            let at = i as i64 - 300;
            let want = bucket(at, count as i64, most as i64, bidirectional);
            assert_eq!(*got as i64, want, "distance {at} of {count}, {most}, {bidirectional}");
        }
    }
}

#[test]
fn relative_bias_is_looked_up() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "relative");
    let heads = dim("heads", 2);
    let relative = RelativeBias::both_ways([heads]);
    let (table, of_table) = fed.normal("table", "buckets:32;heads:2");
    let bias = relative.apply(table, positions(&g, length()), positions(&g, memory_dim(length())));
    let got =
        fed.value(bias, &[("", ""), ("a:2", "heads:a"), ("a:4", "length:a"), ("a:4", "buckets:a")]);
    for (h, i, j) in ndarray::indices((2, LENGTH, LENGTH)) {
        let bucket = bucket(j as i64 - i as i64, 32, 128, true) as usize;
        assert_eq!(got[[h, i, j]], f64::from(of_table[[bucket, h]]));
    }
}

#[test]
fn projections_have_their_names_and_scales() {
    let g = mesh_ops::graph();
    let (model, heads, kv) = (dim("model", 64), dim("heads", 4), dim("kv", 16));
    let grouped = MultiHead::grouped(model, dim("groups", 2), heads, kv);
    let weights = grouped.weights(&Parameters::new(&g, F32), "attention");
    assert_eq!(weights.tensors().len(), 4);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let session = Session::threads(&module, 5).unwrap();
    let table = [
        ("attention/q/kernel", vec![64, 2, 4, 16], (64.0 * 16.0f64).powf(-0.5)),
        ("attention/k/kernel", vec![64, 2, 16], 64f64.powf(-0.5)),
        ("attention/v/kernel", vec![64, 2, 16], 64f64.powf(-0.5)),
        ("attention/o/kernel", vec![2, 4, 16, 64], 128f64.powf(-0.5)),
    ];
    for (name, shape, deviation) in table {
        let value = session.read(name).unwrap().to_f64();
        assert_eq!(value.shape(), shape);
        // A normal distribution that is cut at two deviations has 0.8796 of its deviation.
        let ratio = value.std(0.0) / (0.8796 * deviation);
        assert!((ratio - 1.0).abs() < 0.05, "{name}: {ratio}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let g = mesh_ops::graph();
    let (kv, memory) = (dim("kv", 3), dim("memory_length", 8));
    let q = g.input("q", [length(), kv], F32);
    let k = g.input("k", [memory, kv], F32);
    let options = AttentionOptions::default();
    dot_product_attention(q, k, q, memory, kv, kv, &options);
    dot_product_attention(k, k, k, memory, kv, kv, &options);
    Rotation::new(positions(&g, length()), kv, 10.0).apply(q, kv);
    LocalAttention::new(length(), 2).in_blocks_of(3).apply(q, q, q, kv, kv, &options);
    LocalAttention::new(dim("other", 8), 2).cut(q);
    let few = RelativeBias { buckets: dim("buckets", 1), ..RelativeBias::looking_back([]) };
    few.bucket(positions(&g, length()));
    let report = g.check().unwrap_err().to_string();
    for expected in [
        "values q: f32[length:8, kv:3] has no dim memory_length:8",
        "has the memory's dim memory_length:8; rename the dim of keys and values first",
        "kv:3 cannot be turned in pairs: make it even",
        "length:8 cannot be cut into blocks of 3",
        "q: f32[length:8, kv:3] has no dim other:8",
        "1 classes of distances up to 128 cannot be told apart",
    ] {
        assert!(report.contains(expected), "{expected} in {report}");
    }
}

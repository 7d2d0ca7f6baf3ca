//! Attention to neighbours over two dims, to means of blocks, and of heads that talk, against loops.

use crate::fed::{Fed, near};
use mesh_ops::layers::Parameters;
use mesh_ops::layers::attention::*;
use mesh_ops::prelude::*;
use ndarray::ArrayD;

fn none<'g>() -> AttentionOptions<'g> {
    AttentionOptions::default()
}

/// The sum of values weighted by the exponentials of logits, over their total and `nothing`.
fn weighted(seen: impl Iterator<Item = (f64, Vec<f64>)>, size: usize, nothing: f64) -> Vec<f64> {
    let (mut total, mut sum) = (nothing, vec![0.0; size]);
    for (logit, value) in seen {
        total += logit.exp();
        sum.iter_mut().zip(value).for_each(|(sum, value)| *sum += logit.exp() * value);
    }
    sum.into_iter().map(|x| x / total).collect()
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Rows of the last dim of an array.
fn rows(x: &ArrayD<f32>) -> Vec<Vec<f64>> {
    let size = *x.shape().last().unwrap();
    let all: Vec<f64> = x.iter().copied().map(f64::from).collect();
    all.chunks(size).map(<[f64]>::to_vec).collect()
}

const HEIGHT: usize = 4;
const WIDTH: usize = 8;
const KV: usize = 2;

fn in_2d(reach: [usize; 2], blocks: [usize; 2], causal: bool) {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "2-D");
    const SHAPE: &str = "height:4;width:8;kv:2";
    let (q, of_q) = fed.normal("q", SHAPE);
    let (k, of_k) = fed.normal("k", SHAPE);
    let (v, of_v) = fed.normal("v", SHAPE);
    let [of_q, of_k, of_v] = [of_q, of_k, of_v].map(|x| rows(&x));
    let mut want = Vec::new();
    for (i, q) in of_q.iter().enumerate() {
        let seen = (0..HEIGHT * WIDTH).filter(|j| {
            let near = |a: usize, b: usize, reach: usize| a.abs_diff(b) <= reach;
            near(i / WIDTH, j / WIDTH, reach[0])
                && near(i % WIDTH, j % WIDTH, reach[1])
                && (!causal || *j <= i)
        });
        let seen = seen.map(|j| (product(q, &of_k[j]), of_v[j].clone()));
        want.extend(weighted(seen, KV, 0.0));
    }
    let want = ArrayD::from_shape_vec(vec![HEIGHT, WIDTH, KV], want).unwrap();
    let dims = [dim("height", HEIGHT), dim("width", WIDTH)];
    let mut local = LocalAttention2d::new(dims, reach).in_blocks_of(blocks);
    if causal {
        local = local.in_raster_order();
    }
    let kv = dim("kv", KV);
    let y = local.apply(q, k, v, kv, kv, &none());
    let mut layouts = vec![("", ""), ("a:2", "kv:a")];
    let [rows, columns] = local.blocks().map(|d| d.size % 2 == 0);
    if rows {
        layouts.extend([("a:2", "height:a;height_blocks:a"), ("a:2", "height_blocks:a")]);
    }
    if rows && columns {
        layouts.push(("a:2;b:2", "height:a;height_blocks:a;width:b;width_blocks:b"));
    }
    near(&fed.value(y, &layouts), &want, 1e-5, &format!("{reach:?} {blocks:?} {causal}"));
}

#[test]
fn neighbourhoods_are_those_asked_for_whatever_the_blocks() {
    for reach in [[1, 1], [0, 2], [3, 1], [9, 9]] {
        for blocks in [[1, 2], [2, 2], [4, 4], [2, 8]] {
            in_2d(reach, blocks, false);
            in_2d(reach, blocks, true);
        }
    }
}

#[test]
fn a_split_neighbourhood_takes_masks_of_blocks() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "masked 2-D");
    let dims = [dim("height", HEIGHT), dim("width", WIDTH)];
    let local = LocalAttention2d::new(dims, [1, 1]).in_blocks_of([2, 2]);
    let same = g.fill(0.0, [dims[0], dims[1], dim("kv", 1)], F32);
    let numbers: Vec<f32> = (0..HEIGHT * WIDTH).map(|i| i as f32).collect();
    let v = fed.given("v", "height:4;width:8;kv:1", &numbers);
    // Only memory of its own row, so the mean of up to three numbers of it.
    let row = mesh_ops::range(&g, dims[0], I32);
    let all = g.fill(0.0, dims, F32).cast(I32);
    let mask = segment_mask(local.cut(row + all), local.seen(row + all));
    for mask in [mask, additive_mask(mask, F32)] {
        let options = AttentionOptions { mask: Some(mask), ..none() };
        let kv = dim("kv", 1);
        let y = local.apply(same, same, v, kv, kv, &options);
        let got = fed.value(y, &[("", ""), ("a:2", "height:a;height_blocks:a")]);
        for (i, got) in got.iter().enumerate() {
            let near = (i % WIDTH).saturating_sub(1)..(i % WIDTH + 2).min(WIDTH);
            let mean = near.clone().map(|j| (i / WIDTH * WIDTH + j) as f64).sum::<f64>();
            assert!((got - mean / near.len() as f64).abs() < 1e-4, "{i}: {got}");
        }
    }
}

#[test]
fn a_compressed_memory_is_of_means() {
    const LENGTH: usize = 12;
    let (length, kv) = (dim("length", LENGTH), dim("kv", KV));
    for (factor, causal) in [(1, true), (3, false), (3, true), (4, true), (12, true)] {
        let g = mesh_ops::graph();
        let mut fed = Fed::new(&g, "compressed");
        let (q, of_q) = fed.normal("q", "length:12;kv:2");
        let (k, of_k) = fed.normal("k", "length:12;kv:2");
        let (v, of_v) = fed.normal("v", "length:12;kv:2");
        let mean = |x: &ArrayD<f32>| -> Vec<Vec<f64>> {
            let means = rows(x);
            let means = means.chunks(factor).map(|block| {
                (0..KV).map(|d| block.iter().map(|row| row[d]).sum::<f64>() / factor as f64)
            });
            means.map(Iterator::collect).collect()
        };
        let (of_q, of_k, of_v) = (rows(&of_q), mean(&of_k), mean(&of_v));
        let mut want = Vec::new();
        for (i, q) in of_q.iter().enumerate() {
            let seen = (0..LENGTH / factor).filter(|j| !causal || j * factor + factor - 1 <= i);
            let seen = seen.map(|j| (product(q, &of_k[j]), of_v[j].clone()));
            want.extend(weighted(seen, KV, if causal { 1.0 } else { 0.0 }));
        }
        let want = ArrayD::from_shape_vec(vec![LENGTH, KV], want).unwrap();
        let mut memory = CompressedMemory::new(length, factor);
        if causal {
            memory = memory.looking_back();
        }
        let y = memory.apply(q, k, v, kv, kv, &none());
        let mut layouts = vec![("", ""), ("a:2", "length:a"), ("a:2", "kv:a")];
        if (LENGTH / factor).is_multiple_of(2) {
            layouts.extend([("a:2", "length:a;length_blocks:a"), ("a:2", "memory_length:a")]);
        }
        near(&fed.value(y, &layouts), &want, 1e-5, &format!("{factor} {causal}"));
    }
}

/// Nothing but the means travels.
#[test]
fn a_compressed_memory_is_gathered_compressed() {
    let (length, kv) = (dim("length", 64), dim("kv", 4));
    let g = mesh_ops::graph();
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [length, kv], F32));
    let y = CompressedMemory::new(length, 4).apply(q, k, v, kv, kv, &none());
    g.function("f", [q, k, v], [y], []);
    let module = g.lower(&"m:4".parse().unwrap(), &"length:m;length_blocks:m".parse().unwrap());
    let module = module.unwrap();
    let program = module.function("f").unwrap();
    let sent: Vec<_> = program
        .steps()
        .iter()
        .filter(|step| step.axes().is_some())
        .map(|step| (step.form.name(), step.reads().map(|id| program.value(id).len()).sum()))
        .collect();
    assert_eq!(sent, [("all_gather", 4 * 4); 2], "4 means of keys, 4 of values");
}

#[test]
fn heads_that_talk() {
    const LENGTH: usize = 4;
    const HEADS: usize = 2;
    const SOFTMAX: usize = 3;
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "talking");
    let (q, of_q) = fed.normal("q", "length:4;heads:2;kv:2");
    let (k, of_k) = fed.normal("k", "memory_length:4;heads:2;kv:2");
    let (v, of_v) = fed.normal("v", "memory_length:4;heads:2;kv:2");
    let (before, of_before) = fed.normal("before", "heads:2;softmax_heads:3");
    let (after, of_after) = fed.normal("after", "softmax_heads:3;heads:2");
    let [of_q, of_k, of_v] = [of_q, of_k, of_v].map(|x| rows(&x));
    let mix = |x: &ArrayD<f32>, i: usize, j: usize| f64::from(x[[i, j]]);
    let mut want = ArrayD::zeros(vec![LENGTH, HEADS, KV]);
    for i in 0..LENGTH {
        let logit = |j: usize, h: usize| product(&of_q[i * HEADS + h], &of_k[j * HEADS + h]);
        for s in 0..SOFTMAX {
            let mixed = |j| (0..HEADS).map(|h| logit(j, h) * mix(&of_before, h, s)).sum::<f64>();
            // The causal mask lies between the mixes.
            let total: f64 = (0..=i).map(|j| mixed(j).exp()).sum();
            for (j, h, d) in ndarray::indices((i + 1, HEADS, KV)) {
                let weight = mixed(j).exp() / total * mix(&of_after, s, h);
                want[[i, h, d]] += weight * of_v[j * HEADS + h][d];
            }
        }
    }
    let (length, heads, kv) = (dim("length", LENGTH), dim("heads", HEADS), dim("kv", KV));
    let softmax_heads = dim("softmax_heads", SOFTMAX);
    let talking = TalkingHeads { heads, softmax_heads, logits: before, weights: after };
    let options =
        AttentionOptions { mask: Some(causal(&g, length)), talking: Some(talking), ..none() };
    let y = dot_product_attention(q, k, v, memory_dim(length), kv, kv, &options);
    let layouts = [
        ("", ""),
        ("a:2", "heads:a"),
        ("a:3", "softmax_heads:a"),
        ("a:2", "length:a"),
        ("a:2;b:3", "heads:a;softmax_heads:b"),
    ];
    near(&fed.value(y, &layouts), &want, 1e-5, "talking");

    let local = LocalAttention::new(length, LENGTH).in_blocks_of(2);
    let own = |x| mesh_ops::rename(x, memory_dim(length), "length");
    let options = AttentionOptions { mask: None, ..options };
    let y = local.apply(q, own(k), own(v), kv, kv, &options);
    near(&fed.value(y, &layouts), &want, 1e-5, "a window as long as all positions");
}

#[test]
fn what_does_not_fit_is_refused() {
    let g = mesh_ops::graph();
    let (length, kv) = (dim("length", 8), dim("kv", 2));
    let [height, width] = [dim("height", 8), dim("width", 8)];
    let x = g.input("x", [length, kv], F32);
    CompressedMemory::new(length, 3).apply(x, x, x, kv, kv, &none());
    CompressedMemory::new(dim("lenght", 8), 2).apply(x, x, x, kv, kv, &none());
    let image = g.input("image", [height, width, kv], F32);
    LocalAttention2d::new([height, width], [1, 1]).in_blocks_of([3, 2]).cut(image);
    LocalAttention2d::new([height, length], [1, 1]).apply(image, image, image, kv, kv, &none());
    let (heads, softmax_heads) = (dim("heads", 2), dim("softmax_heads", 2));
    let parameters = Parameters::new(&g, F32);
    let talking = TalkingHeads::new(&parameters, heads, softmax_heads, "talking");
    let options = AttentionOptions { talking: Some(talking), ..none() };
    let memory = g.input("memory", [dim("memory", 4), kv], F32);
    dot_product_attention(x, memory, memory, dim("memory", 4), kv, kv, &options);
    let report = g.check().unwrap_err().to_string();
    for expected in [
        "length:8 cannot be cut into blocks of 3",
        "x: f32[length:8, kv:2] has no dim lenght:8",
        "height:8 cannot be cut into blocks of 3",
        "image: f32[height:8, width:8, kv:2] has no dim length:8",
        "queries x: f32[length:8, kv:2] has no dim heads:2",
    ] {
        assert_eq!(report.matches(expected).count(), 1, "{expected} in {report}");
    }
}

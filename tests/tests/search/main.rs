//! What the search for layouts finds without hints, each on a machine that makes it true; and the problems of
//! Mesh TensorFlow's `auto_mtf`.

mod memory;

use mesh_core::passes::{Level, Machine};
use mesh_ops::conv::{Conv, conv};
use mesh_ops::layers::Parameters;
use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
use mesh_ops::prelude::*;
use mesh_optimize::search::{FindLayout, Found, Objective, Search, SearchError};
use mesh_optimize::{AdamWeightDecay, Optimizer};

/// Four cores of a host that exchange as fast as they read.
fn host() -> Machine {
    Machine::host()
}

/// Four hosts, joined by a network a hundred times slower than memory.
fn slow() -> Machine {
    let level = Level { latency: 1e-5, bandwidth: 1e8, ..host().levels[0].clone() };
    Machine { levels: vec![level], ..host() }
}

fn search(machine: Machine) -> Search {
    Search { axes: 1, ..Search::new("train", 4, machine) }
}

fn train<'g>(graph: &'g Graph, inputs: &[Tensor<'g>], loss: Tensor<'g>) {
    let updates = AdamWeightDecay::standard(1e-3).minimize(loss);
    graph.declare_function("train", inputs, &[loss], updates);
}

/// The rules of computations in the best layout; the answer must be proven.
fn rules(found: &Found) -> Vec<String> {
    assert!(found.certificate.proven, "{found}");
    let rules = found.best.layout.rules().iter().map(ToString::to_string);
    rules.filter(|rule| !rule.contains('/')).collect()
}

fn normal(inputs: &[Dimension]) -> Initializer {
    Initializer::variance_scaling(1.0, Fan::In, inputs, &[])
}

/// One layer of a decoder, between an embedding and logits.
fn decoder(graph: &Graph, batch: usize, length: usize, width: usize) {
    let (batch, length) = (dim("batch", batch), dim("length", length));
    let (d_model, d_ff, vocab) =
        (dim("d_model", width), dim("d_ff", 4 * width), dim("vocab", 4096));
    let (heads, kv) = (dim("heads", 8), dim("kv", width / 8));
    let weights = |name: &str, dims: &[Dimension], inputs: &[Dimension]| {
        graph.variable(name, dims.iter().copied(), F32, normal(inputs)).value()
    };
    let text = graph.input("text", [batch, length], I32);
    let next = graph.input("next", [batch, length], I32);
    let x = weights("embedding", &[vocab, d_model], &[d_model]).gather(text, vocab);
    let memory = x.rename(length, "memory");
    let at = memory.shape().get("memory".into()).unwrap();
    let q =
        x.einsum(&[weights("q", &[d_model, heads, kv], &[d_model])], [batch, heads, length, kv]);
    let k =
        memory.einsum(&[weights("k", &[d_model, heads, kv], &[d_model])], [batch, heads, at, kv]);
    let v =
        memory.einsum(&[weights("v", &[d_model, heads, kv], &[d_model])], [batch, heads, at, kv]);
    let seen = q.einsum(&[k], [batch, heads, length, at]).softmax(at);
    let seen = seen.einsum(&[v], [batch, heads, length, kv]);
    let x = x + seen
        .einsum(&[weights("o", &[heads, kv, d_model], &[heads, kv])], [batch, length, d_model]);
    let hidden =
        x.einsum(&[weights("up", &[d_model, d_ff], &[d_model])], [batch, length, d_ff]).relu();
    let x =
        x + hidden.einsum(&[weights("down", &[d_ff, d_model], &[d_ff])], [batch, length, d_model]);
    let logits =
        x.einsum(&[weights("logits", &[d_model, vocab], &[d_model])], [batch, length, vocab]);
    train(graph, &[text, next], logits.softmax_cross_entropy(next, vocab).mean());
}

#[test]
fn a_small_model_is_split_by_its_batch() {
    let graph = mesh_ops::graph();
    let (batch, pixels) = (dim("batch", 4096), dim("pixels", 64));
    let (hidden, classes) = (dim("hidden", 32), dim("classes", 10));
    let image = graph.input("image", [batch, pixels], F32);
    let label = graph.input("label", [batch], I32);
    let logits = image.dense(hidden, "hidden").relu().dense(classes, "logits");
    train(&graph, &[image, label], logits.softmax_cross_entropy(label, classes).mean());
    assert_eq!(rules(&graph.search(&search(host())).unwrap()), ["batch:a"]);
}

#[test]
fn a_small_batch_of_a_wide_model_is_split_as_megatron_does() {
    let graph = mesh_ops::graph();
    decoder(&graph, 2, 16, 512);
    let found = graph.search(&search(host())).unwrap();
    assert_eq!(rules(&found), ["d_ff:a", "heads:a", "vocab:a"]);
}

#[test]
fn parameters_are_split_when_memory_is_short() {
    let graph = mesh_ops::graph();
    decoder(&graph, 256, 16, 64);
    let asked = search(slow());
    let free = graph.search(&asked).unwrap();
    assert_eq!(rules(&free), ["batch:a"]);
    assert!(!free.best.layout.to_string().contains("params/"), "{free}");
    let memory = Some(free.best.price.bytes() as u64 - 1);
    let short = graph.search(&Search { memory, ..asked.clone() }).unwrap();
    assert_eq!(short.best.layout.to_string(), "batch:a;params/*:a;slots/*:a");
    assert!(short.certificate.pruned.memory > 0, "{short}");
    let refused = graph.search(&Search { memory: Some(1000), ..asked }).unwrap_err();
    let SearchError::NothingFits { capacity, floor, least } = &refused else { panic!("{refused}") };
    assert_eq!(*capacity, 1000);
    assert!((1001..=least.price.bytes() as u64).contains(floor), "{refused}");
    assert!(refused.to_string().contains("would have to shrink"), "{refused}");
    assert!(least.price.bytes() <= short.best.price.bytes());
}

/// Rules for single dims are searched if they are asked for, and the answer says which are not.
#[test]
fn single_dims_of_slots_are_split_where_that_pays() {
    let graph = mesh_ops::graph();
    // `*` would split the largest dim, which the axis does not divide.
    let (batch, from, onto) = (dim("batch", 64), dim("from", 1023), dim("onto", 512));
    let x = graph.input("x", [batch, from], F32);
    train(&graph, &[x], x.dense(onto, "layer").square().mean());
    let stars = Search { objective: Objective::Bytes, ..search(host()) };
    let without = graph.search(&stars).unwrap();
    let single_dims = true;
    let found = graph.search(&Search { single_dims, ..stars }).unwrap();
    assert!(found.certificate.proven && without.certificate.proven);
    assert!(found.best.price.bytes() <= without.best.price.bytes(), "{found}");
    assert!(found.certificate.priced > without.certificate.priced);
    let says = |found: &Found| found.left_out.iter().any(|text| text.contains("single dims"));
    assert!(says(&without) && !says(&found), "{found}");
}

#[test]
fn experts_lie_on_the_axis_of_the_data() {
    let graph = mesh_ops::graph();
    let (batch, length, model) = (dim("batch", 16), dim("length", 16), dim("model", 64));
    let x = graph.input("x", [batch, length, model], F32);
    let (hidden, experts) = (dim("hidden", 512), dim("experts", 8));
    let experts = MixtureOfExperts::new(model, hidden, experts, Gating::Switch);
    let weights = experts.weights(&Parameters::like(x), "moe");
    let (y, losses) = experts.apply(x, &[batch, length], &weights, None);
    train(&graph, &[x], y.square().mean() + losses.balance * 0.01);
    let found = graph.search(&search(host())).unwrap();
    let rules = rules(&found);
    let has = |rule: &str| rules.iter().any(|own| own == rule);
    assert!(has("batch:a") && has("experts:a"), "{found}");
}

#[test]
fn one_large_image_is_split_in_space() {
    let graph = mesh_ops::graph();
    let (batch, rows, cols) = (dim("batch", 1), dim("rows", 512), dim("cols", 64));
    let (from, onto, last) = (dim("colors", 4), dim("filters", 8), dim("features", 8));
    let (height, width) = (dim("height", 3), dim("width", 3));
    let image = graph.input("image", [batch, rows, cols, from], F32);
    let window = Conv::over([("rows", "height"), ("cols", "width")]);
    let filter = |name: &str, from, onto| {
        let initial = normal(&[height, width, from]);
        graph.variable(name, [height, width, from, onto], F32, initial).value()
    };
    let x = conv(image, filter("first", from, onto), &window).relu();
    let x = conv(x, filter("second", onto, last), &window).relu();
    train(&graph, &[image], x.mean());
    assert_eq!(rules(&graph.search(&search(host())).unwrap()), ["rows:a"]);
}

/// Bytes of all tensors of Mesh TensorFlow's problem, `[a:10, b:5] * [b:5, c:20]`, which live at once at its
/// peak: its objective.
fn peak(found: &Found) -> usize {
    let mesh = &found.best.mesh;
    let rules = mesh_core::names::Rules::bind(&found.best.layout, mesh).unwrap();
    let bytes = |shape: &str| {
        let shape: Shape = shape.parse().unwrap();
        4 * rules.compute(&shape).local_shape(mesh, &shape).unwrap().size()
    };
    ["a:10 b:5", "b:5 c:20", "a:10 c:20"].map(bytes).iter().sum()
}

#[test]
fn the_least_memory_is_that_of_mesh_tensorflow() {
    let graph = mesh_ops::graph();
    let (a, b, c) = (dim("a", 10), dim("b", 5), dim("c", 20));
    let (x, y) = (graph.input("x", [a, b], F32), graph.input("y", [b, c], F32));
    graph.function("f", [x, y], [x.einsum(&[y], [a, c])], []);
    let search = Search { objective: Objective::Bytes, ..Search::new("f", 8, host()) };
    // On m1:4;m2:2 it prints `a:m2;c:m1`; with an axis of one processor besides, the same and `b:m3`.
    let theirs = 4 * (5 * 5 + 5 * 5 + 5 * 5);
    for mesh in ["m1:4;m2:2", "m1:4;m2:2;m3:1"] {
        let mesh = Some(mesh.parse().unwrap());
        let found = graph.search(&Search { mesh, ..search.clone() }).unwrap();
        assert_eq!(found.best.layout.to_string(), "a:m2;c:m1");
        assert_eq!(peak(&found), theirs);
    }
    // Of 8 machines it makes a mesh of 4 x 2, and splits nothing on one axis of 8.
    let found = graph.search(&search).unwrap();
    assert_eq!(peak(&found), theirs, "{found}");
    let line = graph.search(&Search { axes: 1, ..search }).unwrap();
    assert_eq!(line.best.layout.to_string(), "");
}

#[test]
fn answers_are_data() {
    let graph = mesh_ops::graph();
    decoder(&graph, 2, 16, 64);
    let search = Search { every: true, ..search(host()) };
    let found = graph.search(&search).unwrap();
    let front = found.front();
    assert!(found.all.len() as u64 == found.certificate.priced && !front.is_empty());
    assert!(front.windows(2).all(|pair| {
        let [one, other] = [&pair[0].price, &pair[1].price];
        one.seconds() <= other.seconds() && one.bytes() > other.bytes()
    }));
    let json = found.json();
    for key in ["mesh", "layout", "step_seconds", "memory_bytes", "seconds_searched", "runners_up"]
    {
        assert!(!json[key].is_null(), "{key}");
    }
    for key in ["visited", "pruned", "proven"] {
        assert!(!json["certificate"][key].is_null(), "{key}");
    }
    let text = found.to_string();
    assert!(text.contains("proven") && text.contains("without the rule"), "{text}");
    let limit = Some(std::time::Duration::ZERO);
    let late = graph.search(&Search { limit, ..search }).unwrap_err();
    assert!(matches!(late, SearchError::Nothing { late: true }), "{late}");
}

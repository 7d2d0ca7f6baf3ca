//! The page of `explain`: its numbers against arithmetic, its advice against the lowering.

use mesh_core::lower::{Advice, Explain, FunctionRows, Target};
use mesh_core::session::Threads;
use mesh_ops::conv::{Conv, conv};
use mesh_ops::layers::{
    Around, FeedForward, Norm, Parameters, TransformerLayer, attention::MultiHead,
};
use mesh_ops::prelude::*;
use mesh_ops::testing::legal_layouts;
use mesh_optimize::{AdamWeightDecay, Optimizer};

const BATCH: u64 = 16;
const PIXELS: u64 = 32;
const HIDDEN: u64 = 64;
const CLASSES: u64 = 8;

pub fn perceptron(g: &Graph) {
    let (batch, pixels) = (dim("batch", BATCH as usize), dim("pixels", PIXELS as usize));
    let (hidden, classes) = (dim("hidden", HIDDEN as usize), dim("classes", CLASSES as usize));
    let image = g.input("image", [batch, pixels], F32);
    let label = g.input("label", [batch], I32);
    let logits = image.dense(hidden, "hidden").relu().dense(classes, "logits");
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    g.function("train", [image, label], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
    g.function("evaluate", [image, label], [loss], []);
}

pub fn layers(g: &Graph, count: usize) {
    let (batch, length, model) = (dim("batch", 4), dim("length", 16), dim("model", 32));
    let x = g.input("x", [batch, length, model], F32);
    let y = (0..count).fold(x, |x, i| {
        let layer = TransformerLayer {
            norm: Norm::Rms,
            attention: MultiHead::new(model, dim("heads", 4), dim("kv", 8)),
            feed_forward: FeedForward::new(model, dim("d_ff", 64)),
        };
        let weights = layer.weights(&Parameters::like(x), &format!("layer{i}"));
        layer.apply(x, length, &weights, &Around::default())
    });
    let loss = y.square().mean();
    g.function("train", [x], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
}

/// Four dense layers of one loop.
pub fn scanned(g: &Graph) {
    let (batch, model, layers) = (dim("batch", 8), dim("model", 16), dim("layers", 4));
    let x = g.input("x", [batch, model], F32);
    let w = g.variable("w", [layers, model, dim("hidden", 32)], F32, Initializer::ONES);
    let v = g.variable("v", [layers, dim("hidden", 32), model], F32, Initializer::ONES);
    let [y] = g
        .scan(layers, [x], [w.value(), v.value()], |[x], [w, v]| {
            let y = x.einsum(&[w], [batch, dim("hidden", 32)]).tanh();
            ([x + y.einsum(&[v], [batch, model])], [])
        })
        .0;
    let loss = y.square().mean();
    g.function("train", [x], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
}

fn explained(build: impl Fn(&Graph), mesh: &str, layout: &str) -> Explain {
    let g = mesh_ops::graph();
    build(&g);
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    module.explain_for(&Target::host()).unwrap()
}

/// FLOPs of matrix products.
fn products(function: &FunctionRows) -> u64 {
    let rows = function.rows.iter().filter(|row| row.steps.iter().any(|step| step == "contract"));
    rows.map(|row| row.cost.flops).sum()
}

#[test]
fn flops_are_those_of_the_products() {
    // Forward, and the gradients: of the first layer that of the kernel alone.
    let forward = 2 * BATCH * (PIXELS * HIDDEN + HIDDEN * CLASSES);
    let train = 2 * BATCH * (2 * PIXELS * HIDDEN + 3 * HIDDEN * CLASSES);
    for (mesh, layout, parts) in
        [("", "", 1), ("d:4", "batch:d", 4), ("d:2;m:2", "batch:d;hidden:m", 4)]
    {
        let explain = explained(perceptron, mesh, layout);
        let [training, evaluating] = &explain.functions[..] else { panic!() };
        assert_eq!(products(training) * parts, train, "{mesh} {layout}");
        assert_eq!(products(evaluating) * parts, forward, "{mesh} {layout}");
        assert!(explain.to_string().contains("at least"));
    }
    // Tokens times: four projections, logits and what they weigh, two dense layers; the gradient
    // twice as much, but for that of the input of the first projections.
    let (tokens, model, length, hidden) = (4 * 16, 32, 16, 64);
    let layer = 2 * tokens * (4 * model * model + 2 * length * model + 2 * model * hidden);
    let explain = explained(|g| layers(g, 1), "", "");
    // The gradients of the norms' scales are products, too, of vectors.
    let found = products(&explain.functions[0]);
    assert!((3 * layer..3 * layer + layer / 50).contains(&found), "{found} of {}", 3 * layer);
}

#[test]
fn bytes_received_are_those_of_the_all_reduces() {
    let parameters = PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES;
    let explain = explained(perceptron, "d:4", "batch:d");
    assert_eq!(explain.parameters as u64, parameters);
    let received = explain.functions[0].received();
    let bytes = |axes: &str| received[axes].iter().map(|(.., bytes)| bytes).sum::<u64>();
    // A processor of four receives 2 * 3/4 of each sum: of the gradients, and of the loss.
    assert_eq!(bytes("d"), 4 * (parameters + 1) * 2 * 3 / 4);
    assert_eq!(received.len(), 1);

    // The logits are a sum over the parts of `hidden`: forward alone, for the gradient of the input is
    // not needed.
    let explain = explained(perceptron, "m:2", "hidden:m");
    let received = explain.functions[0].received();
    assert_eq!(received["m"], [("all_reduce", 1, 4 * BATCH * CLASSES)]);
    assert!(explained(perceptron, "", "").to_string().contains("receives  nothing"));
}

#[test]
fn kinds_of_memory_are_the_peak() {
    let g = mesh_ops::graph();
    layers(&g, 4);
    let module = g.lower(&"d:2".parse().unwrap(), &"batch:d;slots/*:d".parse().unwrap()).unwrap();
    let explain = module.explain_for(&Target::host()).unwrap();
    let executable = module.compile(&Target::host()).unwrap();
    let parameters = 4 * explain.parameters;
    assert_eq!(explain.parameter_bytes, parameters);
    // Two slots, halves of them each, and the step.
    assert_eq!(explain.variable_bytes, parameters + 2 * parameters / 2 + 4);
    let evaluate = &explained(perceptron, "", "").functions[1];
    assert_eq!((evaluate.name.as_str(), evaluate.kept_bytes), ("evaluate", Some(0)));
    for (function, compiled) in explain.functions.iter().zip(&executable.functions) {
        let (values, kept) = (function.arena_bytes.unwrap(), function.kept_bytes.unwrap());
        assert_eq!(values, compiled.plan.arena_bytes);
        // The gradients of a layer's kernels need at least what its norms and relu gave.
        let layer = 4 * 2 * 16 * (32 + 32 + 64);
        assert!(kept >= 3 * layer && kept < values, "{kept} of {values}");
    }
}

#[test]
fn equal_layers_are_one_line() {
    let page = explained(|g| layers(g, 8), "d:2;m:2", "batch:d;heads:m;d_ff:m").to_string();
    assert!(page.lines().count() < 40, "{page}");
    assert!(page.contains(" x 8 "), "{page}");
}

/// A loop's operations count once per iteration, and what it stacks is kept for the gradient.
#[test]
fn loops_are_what_their_iterations_are() {
    let explain = explained(scanned, "m:2", "hidden:m");
    let function = &explain.functions[0];
    let received = function.received();
    let (_, count, bytes) = received["m"].iter().find(|(form, ..)| *form == "all_reduce").unwrap();
    // Of each iteration what the second product gives, and the gradient of what the first is given.
    assert_eq!((*count, *bytes), (8, 8 * 8 * 16 * 4));
    assert!(function.dearest().iter().any(|alike| alike.count == 4), "{explain}");
    // The four inputs of iterations, and the halves of what tanh gave.
    let kept = function.kept_bytes.unwrap();
    assert!(kept >= 4 * (8 * 16 + 8 * 16) * 4, "{kept} of {:?}", function.arena_bytes);
}

/// Of what is repeated over an axis: share, advice.
fn repeated(explain: &Explain, axis: &str) -> Option<(f64, Advice)> {
    let found = explain.functions[0].repeated.iter().find(|found| found.axis == axis);
    found.map(|found| (found.share, found.advice.clone()))
}

#[test]
fn a_forgotten_rule_is_named_and_helps() {
    let (share, advice) = repeated(&explained(perceptron, "d:2;m:2", "batch:d"), "m").unwrap();
    assert!(share > 0.9, "all but what is written: {share}");
    let Advice::Rule { rule, share } = advice else { panic!("{advice:?}") };
    assert_eq!(rule, "hidden:m");
    let left = repeated(&explained(perceptron, "d:2;m:2", &format!("batch:d;{rule}")), "m");
    let left = left.map_or(0.0, |(share, _)| share);
    assert!(left < 1.0 - share + 0.1, "{left} after {share} was divided");

    // What the batch does not divide is the update; slots do.
    let (_, advice) = repeated(&explained(perceptron, "d:2", "batch:d"), "d").unwrap();
    let Advice::Rule { rule, .. } = advice else { panic!("{advice:?}") };
    assert_eq!(rule, "slots/*:d");
    let left = repeated(&explained(perceptron, "d:2", "batch:d;slots/*:d"), "d");
    assert!(left.as_ref().is_none_or(|(share, _)| *share < 0.05), "{left:?}");

    // Nothing divides by 3.
    let (_, advice) = repeated(&explained(perceptron, "c:3", ""), "c").unwrap();
    assert_eq!(advice, Advice::None("`hidden` of size 64 does not divide by 3".to_owned()));
}

/// Whatever the layout, a rule that is advised is legal beside those there are, and repeats less.
#[test]
fn advice_can_be_followed() {
    let mut followed = 0;
    let models: [fn(&Graph); 3] = [perceptron, |g| layers(g, 1), scanned];
    for build in models {
        for mesh in ["a:2", "a:2;b:2", "a:3;b:2"] {
            let g = mesh_ops::graph();
            build(&g);
            let mesh: Mesh = mesh.parse().unwrap();
            let legal = legal_layouts(&g, &mesh).unwrap().legal;
            let step = legal.len().div_ceil(25);
            let sets = ["", "slots/*:a", "params/*:a"];
            for (layout, set) in legal.iter().step_by(step).flat_map(|l| sets.map(|set| (l, set))) {
                let layout = format!("{layout};{set}").trim_matches(';').to_owned();
                let before = g.lower(&mesh, &layout.parse().unwrap()).unwrap().explain();
                for found in &before.functions[0].repeated {
                    let Advice::Rule { rule, .. } = &found.advice else { continue };
                    let more = format!("{layout};{rule}").trim_matches(';').parse().unwrap();
                    let module = g.lower(&mesh, &more);
                    let after =
                        module.unwrap_or_else(|e| panic!("{layout} with {rule}: {e}")).explain();
                    let left = repeated(&after, &found.axis).map_or(0.0, |(share, _)| share);
                    assert!(
                        left < found.share,
                        "{layout} with {rule}: {} then {left}",
                        found.share
                    );
                    followed += 1;
                }
            }
        }
    }
    assert!(followed > 40, "{followed}");
}

#[test]
fn a_summary_has_every_variable() {
    let g = mesh_ops::graph();
    perceptron(&g);
    let module = g.lower(&"d:2".parse().unwrap(), &"batch:d;params/*:d".parse().unwrap()).unwrap();
    let summary = module.summary();
    assert_eq!(summary.variables.len(), module.variables().len());
    assert_eq!(summary.bytes, summary.variables.iter().map(|row| row.bytes).sum::<usize>());
    let kernel = summary.variables.iter().find(|row| row.name == "hidden/kernel").unwrap();
    assert_eq!((kernel.elements, kernel.bytes, kernel.trainable), (2048, 4096, true));
    let text = summary.to_string();
    assert!(text.contains("f32[pixels:32, hidden:64@d]"), "{text}");
    assert!(text.contains("\n2,632 parameters in all; a processor holds at most "), "{text}");
}

#[test]
fn a_function_has_a_picture_of_its_own() {
    let g = mesh_ops::graph();
    perceptron(&g);
    let [all, part] = [g.dot(), g.dot_of("evaluate").unwrap()];
    assert!(part.starts_with("digraph") && part.lines().count() * 2 < all.lines().count());
    assert!(part.contains("logits/einsum") && !part.contains("adam"));
    assert!(g.dot_of("nothing").is_none());
}

/// An image of so many channels, a filter of so many positions to each side, features.
fn convolved(g: &Graph, name: &str, [channels, side, features]: [usize; 3], stride: usize) {
    let image = [dim("batch", 8), dim("h", 16), dim("w", 16), dim("channel", channels)];
    let filter = [dim("fh", side), dim("fw", side), dim("channel", channels)];
    let x = g.input(&format!("{name}/x"), image, F32);
    let over = Conv::over([("h", "fh"), ("w", "fw")]).strides([stride, stride]);
    let apart = features == 1;
    let over = if apart { over.depthwise(["channel"]) } else { over };
    let own = (!apart).then(|| dim("feature", features));
    let filter = Shape::new(filter.into_iter().chain(own)).unwrap();
    let filter = g.input(&format!("{name}/filter"), filter, F32);
    g.declare_function(name, &[x, filter], &[conv(x, filter, &over)], Vec::new());
}

/// Which way a convolution runs, where that is the same on all instruction sets.
#[test]
fn the_ways_of_convolutions_are_listed() {
    let table = [
        ("point", [32, 1, 64], 1, "a product of matrices;"),
        ("channels", [32, 3, 1], 1, "vectors of channels, each channel by itself;"),
        ("narrow", [32, 3, 16], 2, "register blocks;"),
    ];
    let g = mesh_ops::graph();
    for (name, sizes, stride, _) in table {
        convolved(&g, name, sizes, stride);
    }
    let module = g.lower(&"d:2".parse().unwrap(), &"batch:d".parse().unwrap()).unwrap();
    let explain = Threads::default().explain(&module).unwrap();
    for (function, (name, [channels, side, features], stride, way)) in
        explain.functions.iter().zip(table)
    {
        let [found] = &function.chosen[..] else { panic!("{name}: {:?}", function.chosen) };
        assert_eq!(format!("{};", found.way), way, "{name}");
        let to = 16 / stride;
        let last = if features == 1 { channels } else { features };
        assert_eq!(found.outs, [format!("f32[4, {to}, {to}, {last}]")], "{name}");
        let tail = if features == 1 { String::new() } else { format!(", {features}") };
        let filter = format!("f32[{side}, {side}, {channels}{tail}]");
        assert_eq!(found.inputs, [format!("f32[4, 16, 16, {channels}]"), filter], "{name}");
    }
    let listing = explain.listing().to_string();
    assert_eq!(listing.matches("kernels that were chosen:").count(), table.len());
    for (.., way) in table {
        assert!(listing.contains(&format!(": {way} ")), "{way} in\n{listing}");
    }
    // What does not depend on a back-end says nothing of its kernels.
    let explain = module.explain_for(&Target::host()).unwrap();
    assert!(explain.functions.iter().all(|function| function.chosen.is_empty()));
}

//! Collectives, counted in the programs: not one more than the layout needs.

use mesh_core::names::{Layout, Mesh};
use mesh_core::program::{Form, Program, Step};
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, Optimizer};
use tests::on_host;

/// Every value that a collective of a program has (small all-reduces are combined): form, axes,
/// elements of one processor's value.
fn collectives(program: &Program, mesh: &Mesh) -> Vec<(&'static str, String, usize)> {
    let collective = |step: &Step| {
        let axes = step.axes().map(|axes| mesh.list(axes));
        let form = step.form.name();
        let each = step.reads().map(|id| (id, axes.clone()));
        let each = each.filter_map(|(id, axes)| Some((form, axes?, program.value(id).len())));
        each.collect::<Vec<_>>()
    };
    program.steps().iter().flat_map(collective).collect()
}

/// The number of collectives in a training step of the [`perceptron`].
fn meetings(mesh: &str, layout: &str) -> usize {
    let g = mesh_ops::graph();
    perceptron(&g);
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let functions = on_host(&module);
    functions[0].program.steps().iter().filter(|step| step.axes().is_some()).count()
}

/// The collectives as sorted text, where equal ones are counted: `all_reduce(a) 64 x2`.
fn summary(graph: &Graph, mesh: &str, layout: &str) -> Vec<String> {
    let (mesh, layout): (Mesh, Layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
    let module = graph.lower(&mesh, &layout).unwrap();
    let mut found: Vec<_> = collectives(&module.functions()[0], &mesh)
        .into_iter()
        .map(|(form, axes, elements)| format!("{form}({axes}) {elements}"))
        .collect();
    found.sort();
    let mut lines: Vec<(String, usize)> = Vec::new();
    for line in found {
        match lines.last_mut() {
            Some((last, count)) if *last == line => *count += 1,
            _ => lines.push((line, 1)),
        }
    }
    let text = |(line, count)| if count == 1 { line } else { format!("{line} x{count}") };
    lines.into_iter().map(text).collect()
}

/// `y = x w v`, the mean square of `y - x`, and the gradients of w and v: the model for which Mesh
/// TensorFlow's own counters have numbers.
fn two_matrices(g: &Graph) {
    let (b, dx, dh) = (dim("b", 8), dim("dx", 4), dim("dh", 16));
    let x = g.input("x", [b, dx], F32);
    let w = g.variable("w", [dx, dh], F32, Initializer::ONES);
    let v = g.variable("v", [dh, dx], F32, Initializer::ONES);
    let h = x.einsum(&[w.value()], [b, dh]);
    let y = h.einsum(&[v.value()], [b, dx]);
    let difference = y - x;
    let loss = (difference * difference).mean();
    let grads: Vec<_> = g.gradients(&[loss], &[w.value(), v.value()], None);
    g.function("step", [x], [loss, grads[0].unwrap(), grads[1].unwrap()], []);
}

/// The elements of all all-reduces: one processor's, times the number of processors.
fn reduced(mesh: &str, layout: &str) -> usize {
    let g = mesh_ops::graph();
    two_matrices(&g);
    let (mesh, layout): (Mesh, Layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
    let module = g.lower(&mesh, &layout).unwrap();
    let found = collectives(&module.functions()[0], &mesh);
    assert!(found.iter().all(|(form, ..)| *form == "all_reduce"), "{found:?}");
    found.iter().map(|(_, _, elements)| elements * mesh.processors()).sum()
}

#[test]
fn the_numbers_of_mesh_tensorflow() {
    let table = [
        ("all:4", "b:all", 516, "256 for each gradient, 4 for the loss"),
        ("all:4", "dh:all", 128, "y"),
        ("all:4", "dx:all", 1028, "512 for h and for its gradient, 4 for the loss"),
        ("r:2;c:2", "b:r;dh:c", 324, "64 for y, 128 for each gradient, 4 for the loss"),
        ("all:4", "", 0, "nothing is split"),
    ];
    for (mesh, layout, expected, what) in table {
        assert_eq!(reduced(mesh, layout), expected, "{layout} on {mesh}: {what}");
    }
}

/// The same numbers under its keys, and the work of the products: four of 8 x 4 x 16.
#[test]
fn counters_have_the_keys_of_mesh_tensorflow() {
    let g = mesh_ops::graph();
    two_matrices(&g);
    let name = g.functions()[0].name.clone();
    for (mesh, layout, sums) in [
        ("all:4", "b:all", 516),
        ("all:4", "dh:all", 128),
        ("all:4", "dx:all", 1028),
        ("r:2;c:2", "b:r;dh:c", 324),
    ] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let counters = module.counters(&name).unwrap();
        let of = |prefix: &str| -> u64 {
            counters.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, n)| n).sum()
        };
        assert_eq!(of("allreduce/["), sums, "{layout}: {counters:?}");
        assert_eq!(counters["einsum"], 5 * 8 * 4 * 16, "{layout}: {counters:?}");
        assert!(of("output/") > 0 && of("allconcat/") == 0, "{counters:?}");
    }
    let module = g.lower(&"all:4".parse().unwrap(), &"".parse().unwrap()).unwrap();
    // What is not split is done by all four.
    assert_eq!(module.counters(&name).unwrap()["einsum"], 4 * 5 * 8 * 4 * 16);
    assert!(module.counters("nothing").is_none());
}

/// A classifier of two layers with its training step by hand: `p := p - gradient`.
fn perceptron(g: &Graph) {
    let (batch, pixels, hidden, out) =
        (dim("batch", 16), dim("pixels", 12), dim("hidden", 8), dim("out", 4));
    let x = g.input("x", [batch, pixels], F32);
    let target = g.input("target", [batch, out], F32);
    let w = g.variable("w", [pixels, hidden], F32, Initializer::ONES);
    let b = g.variable("b", [hidden], F32, Initializer::ZEROS);
    let v = g.variable("v", [hidden, out], F32, Initializer::ONES);
    let h = (x.einsum(&[w.value()], [batch, hidden]) + b.value()).relu();
    let error = h.einsum(&[v.value()], [batch, out]) - target;
    let loss = (error * error).mean();
    let variables = [w, b, v];
    let grads = g.gradients(&[loss], &variables.map(Variable::value), None);
    let updates = variables.iter().zip(grads).map(|(p, grad)| p.assign_sub(grad.unwrap() * 0.5));
    g.function("train", [x, target], [loss], updates);
}

fn trained(mesh: &str, layout: &str) -> Vec<String> {
    let g = mesh_ops::graph();
    perceptron(&g);
    summary(&g, mesh, layout)
}

#[test]
fn alone_nothing_is_sent() {
    assert_eq!(trained("", ""), [""; 0]);
    assert_eq!(trained("a:4", ""), [""; 0]);
}

#[test]
fn data_parallelism_reduces_each_gradient_once() {
    assert_eq!(
        trained("a:4", "batch:a"),
        ["all_reduce(a) 1", "all_reduce(a) 32", "all_reduce(a) 8", "all_reduce(a) 96"]
    );
}

#[test]
fn small_reductions_over_the_same_axes_are_one() {
    assert_eq!(meetings("a:4", "batch:a"), 1, "three gradients and the loss");
    // The activations, then the sums that are pending over the rows.
    assert_eq!(meetings("r:4;c:2", "batch:r;hidden:c"), 2);
}

/// Adafactor needs scalars of every variable, some for others: the scalars of each kind are reduced
/// together.
#[test]
fn scalars_of_an_optimizer_are_one_reduction_each() {
    let count = |layers: usize| {
        let g = mesh_ops::graph();
        let (batch, label) = (dim("batch", 8), g.input("label", [dim("batch", 8)], I32));
        let input = g.input("x", [batch, dim("d", 16)], F32);
        let mut x = input;
        for i in 0..layers {
            x = x.dense(dim(&format!("d{i}"), 16), &format!("layer{i}")).relu();
        }
        let classes = dim("classes", 4);
        let loss = x.dense(classes, "logits").softmax_cross_entropy(label, classes).mean();
        g.function("train", [input, label], [loss], Adafactor::default().minimize(loss));
        let layout = "batch:a; params/*:a; slots/*:a".parse().unwrap();
        let module = g.lower(&"a:2".parse().unwrap(), &layout).unwrap();
        let functions = on_host(&module);
        let steps = functions[0].program.steps().iter();
        let all_reduces = steps.filter(|step| matches!(step.form, Form::AllReduce(_)));
        all_reduces.map(|step| step.outs.len()).collect::<Vec<_>>()
    };
    assert_eq!((count(2), count(4)), (vec![13], vec![21]));
}

#[test]
fn model_parallelism_reduces_the_activations_once() {
    assert_eq!(trained("a:4", "hidden:a"), ["all_reduce(a) 64"]);
}

#[test]
fn mixed_parallelism_is_both_on_slices() {
    assert_eq!(
        trained("r:4;c:2", "batch:r;hidden:c"),
        [
            "all_reduce(c) 16",
            "all_reduce(r) 1",
            "all_reduce(r) 16",
            "all_reduce(r) 4",
            "all_reduce(r) 48",
        ]
    );
}

#[test]
fn sharded_state_makes_reduce_scatters_and_gathers() {
    // Parameters at rest are split into quarters. They are gathered for use (w and v again in the
    // backward phase, if they are needed there), and gradients are reduce-scattered.
    let lines = trained("a:4", "batch:a;params/*:a");
    let count = |form: &str| lines.iter().filter(|line| line.starts_with(form)).count();
    assert_eq!(count("reduce_scatter"), 3, "{lines:?}");
    assert_eq!(count("all_reduce"), 1, "the loss: {lines:?}");
}

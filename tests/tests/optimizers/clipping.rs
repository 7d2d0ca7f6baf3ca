//! Clipping against plain numbers on several layouts, and what it sends.

use mesh_core::program::Step;
use mesh_ops::prelude::*;
use mesh_optimize::{
    AdamWeightDecay, Optimizer, Sgd, clip_by_global_norm, clip_by_norm, clip_by_value,
    clip_per_replica, compute_gradients, per_replica, per_replica_gradients,
};
use ndarray::{Array1, Array2, Array3, ArrayD, Axis};
use tests::on_host;

/// The rounding of sums of a few dozen products in f32.
const TOLERANCE: f64 = 1e-5;

const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("d:4", ""),
    ("d:2", "batch:d"),
    ("d:4", "batch:d;slots/*:d"),
    ("d:4", "batch:d;params/*:d;slots/*:d"),
    ("d:2;m:2", "batch:d;y:m"),
    ("d:2;m:2", "batch:d+m;slots/*:d"),
    ("m:2", "x:m"),
    ("d:2", "batch:d;params/*:d@0;slots/*:d@0"),
    ("d:2", "batch:d;params/*:d@each;slots/*:d@each"),
    ("d:2;m:2", "batch:d;y:m;params/*:d@each;slots/*:d@each"),
];

fn close(got: &ArrayD<f64>, want: &ArrayD<f64>, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= TOLERANCE * want.abs().max(1e-2), "{what}: {got} not {want}");
    }
}

/// Numbers of both signs that follow no pattern.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i as f32 + 1.0) * 12.9898).sin() * 3.0).collect()
}

fn inputs() -> Array2<f32> {
    Array2::from_shape_vec((8, 4), numbers(32)).unwrap()
}

/// The gradients of `mean over all of (x w + b)²`, where w is 0.5 and b is 0.25 everywhere.
fn plain_gradients() -> [ArrayD<f64>; 2] {
    let x = inputs().mapv(f64::from);
    let y = x.dot(&Array2::from_elem((4, 6), 0.5)) + 0.25;
    let dy = y * (2.0 / 48.0);
    [x.t().dot(&dy).into_dyn(), dy.sum_axis(Axis(0)).into_dyn()]
}

fn norm(grads: &[ArrayD<f64>]) -> f64 {
    grads.iter().flatten().map(|g| g * g).sum::<f64>().sqrt()
}

type Pairs<'g> = Vec<(Option<Tensor<'g>>, Variable<'g>)>;

/// A change of gradients.
#[derive(Clone, Copy)]
enum Change {
    Value(f64, f64),
    Norm(f64),
    GlobalNorm(f64),
}

impl Change {
    fn apply<'g>(self, grads: &Pairs<'g>) -> (Pairs<'g>, Option<Tensor<'g>>) {
        match self {
            Self::Value(low, high) => (clip_by_value(grads, low, high), None),
            Self::Norm(norm) => (clip_by_norm(grads, norm), None),
            Self::GlobalNorm(norm) => clip_by_global_norm(grads, norm),
        }
    }
}

/// Asserts that the changed gradients of that loss are `want` on every layout. Returns the norm, if
/// there is one.
fn check(change: Change, want: &[ArrayD<f64>; 2]) -> f64 {
    let mut seen = f64::NAN;
    for (mesh, layout) in LAYOUTS {
        let g = mesh_ops::graph();
        let (batch, x, y) = (dim("batch", 8), dim("x", 4), dim("y", 6));
        let input = g.input("input", [batch, x], F32);
        let w = g.variable("w", [x, y], F32, Initializer::Constant(0.5));
        let b = g.variable("b", [y], F32, Initializer::Constant(0.25));
        let loss = (input.einsum(&[w.value()], [batch, y]) + b.value()).square().mean();
        let (grads, norm) = change.apply(&compute_gradients(loss, &[]));
        let updates = Sgd::new(1.0).apply_grads(&grads);
        g.function("train", [input], [norm.unwrap_or(loss)], updates);
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        session.set_replica_check(true).unwrap();
        let fetched = session.call_named("train", &[("input", inputs().view().into())]).unwrap();
        seen = fetched[0].1.item().unwrap();
        for ((name, before), want) in [("w", 0.5), ("b", 0.25)].iter().zip(want) {
            let moved = *before - session.read(name).unwrap().to_f64();
            close(&moved, want, &format!("{name} under {layout}"));
        }
    }
    seen
}

#[test]
fn by_value() {
    let want = plain_gradients().map(|g| g.mapv(|g| g.clamp(-0.2, 0.3)));
    assert_ne!(want, plain_gradients());
    check(Change::Value(-0.2, 0.3), &want);
}

#[test]
fn by_norm() {
    // The bound lies between the norms of the two: one gradient is clipped, the other is not.
    let norms = plain_gradients().map(|g| norm(&[g]));
    assert!(norms[0] > 2.0 && norms[1] < 2.0, "{norms:?}");
    let want = plain_gradients().map(|g| {
        let norm = norm(std::slice::from_ref(&g));
        if norm > 2.0 { g * 2.0 / norm } else { g }
    });
    check(Change::Norm(2.0), &want);
}

#[test]
fn by_global_norm() {
    let plain = norm(&plain_gradients());
    for bound in [0.5, 1e4] {
        let want = plain_gradients().map(|g| g * (bound / plain.max(bound)));
        let seen = check(Change::GlobalNorm(bound), &want);
        assert!((seen - plain).abs() < 1e-5 * plain, "{} not {plain}", seen);
    }
}

#[test]
fn missing_gradients_pass() {
    let g = mesh_ops::graph();
    let lonely = g.variable("lonely", [dim("x", 2)], F32, Initializer::ONES);
    let used = g.variable("used", [dim("x", 2)], BF16, Initializer::ONES);
    let grads = vec![(None, lonely), (Some(used.value()), used)];
    let (clipped, norm) = clip_by_global_norm(&grads, 1.0);
    for clipped in [clipped, clip_by_norm(&grads, 1.0), clip_by_value(&grads, 0.0, 1.0)] {
        assert!(clipped[0].0.is_none() && clipped.len() == 2);
        assert_eq!(clipped[1].0.unwrap().dtype(), F32);
    }
    let nothing = clip_by_global_norm(&[(None, lonely)], 1.0);
    g.function("f", [], [norm.unwrap(), nothing.1.unwrap()], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let norms = session.call_named("f", &[]).unwrap();
    assert!((norms[0].1.item().unwrap() - 2f64.sqrt()).abs() < 1e-6);
    assert_eq!(norms[1].1.item(), Some(0.0));
    assert!(clip_by_global_norm(&[], 1.0).1.is_none());
}

#[test]
fn impossible_bounds_are_errors() {
    let refused = |clip: fn(&Pairs<'_>), words: &[&str]| {
        let g = mesh_ops::graph();
        let w = g.variable("w", [dim("x", 2)], F32, Initializer::ONES);
        clip(&vec![(Some(w.value()), w)]);
        let report = g.check().unwrap_err().to_string();
        for word in words.iter().chain(&["tests/tests/optimizers/clipping.rs:"]) {
            assert!(report.contains(word), "no {word:?} in {report}");
        }
    };
    refused(|grads| drop(clip_by_value(grads, 1.0, -1.0)), &["clip_by_value", "1 to -1"]);
    refused(|grads| drop(clip_by_norm(grads, 0.0)), &["clip_by_norm", "0 is no norm"]);
    refused(|grads| drop(clip_by_global_norm(grads, f64::NAN)), &["clip_by_global_norm", "NaN"]);
    refused(
        |grads| drop(clip_per_replica(grads, dim("replica", 2), 1.0)),
        &["clip_per_replica", "has no dim replica:2"],
    );
}

/// The values that collectives have, with the elements of one processor's; small all-reduces are
/// combined.
fn collectives(clipped: bool, mesh: &str, layout: &str, sizes: [usize; 3]) -> Vec<String> {
    let g = mesh_ops::graph();
    let [x, hidden, y] = sizes;
    let (batch, x, hidden, y) = (dim("batch", 16), dim("x", x), dim("hidden", hidden), dim("y", y));
    let input = g.input("input", [batch, x], F32);
    let h = input.dense(hidden, "one").relu();
    let loss = h.dense(y, "two").square().mean();
    let mut grads = compute_gradients(loss, &[]);
    if clipped {
        grads = clip_by_global_norm(&grads, 1.0).0;
    }
    let updates = AdamWeightDecay::new(0.1).apply_grads(&grads);
    g.function("train", [input], [loss], updates);
    let mesh: Mesh = mesh.parse().unwrap();
    let module = g.lower(&mesh, &layout.parse().unwrap()).unwrap();
    let program = &module.functions()[0];
    let lines = |step: &Step| {
        let Some(axes) = step.axes().map(|axes| mesh.list(axes)) else { return Vec::new() };
        let line = |id| format!("{}({axes}) {}", step.form.name(), program.value(id).len());
        step.reads().map(line).collect()
    };
    let mut lines: Vec<_> = program.steps().iter().flat_map(lines).collect();
    lines.sort();
    lines
}

/// The collectives that clipping adds, if everything else stays the same.
#[track_caller]
fn added(mesh: &str, layout: &str, sizes: [usize; 3]) -> Vec<String> {
    let plain = collectives(false, mesh, layout, sizes);
    let mut clipped = collectives(true, mesh, layout, sizes);
    for line in &plain {
        let at = clipped.iter().position(|other| other == line);
        let at = at.unwrap_or_else(|| panic!("{line} of {plain:?} is not among {clipped:?}"));
        clipped.remove(at);
    }
    clipped
}

#[test]
fn the_global_norm_is_one_scalar_on_the_wire() {
    let even = [12, 8, 4];
    assert!(collectives(false, "d:4", "batch:d", even).iter().all(|l| l.starts_with("all_reduce")));
    assert_eq!(added("d:4", "batch:d", even), [""; 0]);
    assert_eq!(added("d:4", "batch:d;slots/*:d", even), ["all_reduce(d) 1"]);
    let sharded = collectives(true, "d:4", "batch:d;slots/*:d", even);
    let scattered = sharded.iter().filter(|line| line.starts_with("reduce_scatter")).count();
    assert_eq!(scattered, 4, "{sharded:?}");
    assert_eq!(added("d:4", "batch:d;params/*:d;slots/*:d", even), ["all_reduce(d) 1"]);
    assert_eq!(added("d:2;m:2", "batch:d;hidden:m", even), ["all_reduce(m) 1"]);
}

/// Sums over different axes are reduced together.
#[test]
fn the_global_norm_of_uneven_layouts_is_one_scalar_too() {
    let layouts = [
        // 3 is not divisible by 4: the second bias stays whole while the others are scattered.
        ("d:4", "batch:d;slots/*:d", [12, 8, 3]),
        ("d:2;m:2", "batch:d;hidden:m;slots/*:d", [12, 8, 4]),
    ];
    for (mesh, layout, sizes) in layouts {
        let added = added(mesh, layout, sizes);
        assert!(added.len() == 1 && added[0].ends_with(" 1"), "{layout}: {added:?}");
    }
}

/// Replicas with increasing numbers.
fn replicated() -> Array3<f32> {
    let mut all = Array3::from_shape_vec((4, 3, 2), numbers(24)).unwrap();
    for (i, mut replica) in all.outer_iter_mut().enumerate() {
        replica *= 0.3 * i as f32;
    }
    all
}

/// Each replica's gradients of the sum of `mean over batch of (x w + b)²`, clipped to 1, then
/// summed.
fn plain_replicas() -> (ArrayD<f64>, ArrayD<f64>) {
    let mut sums = (Array2::zeros((2, 2)).into_dyn(), Array1::zeros(2).into_dyn());
    let mut clipped = 0;
    for x in replicated().outer_iter() {
        let x = x.mapv(f64::from);
        let dy = (x.dot(&Array2::from_elem((2, 2), 0.5)) + 0.25) * (2.0 / 6.0);
        let grads = [x.t().dot(&dy).into_dyn(), dy.sum_axis(Axis(0)).into_dyn()];
        let norm = norm(&grads);
        clipped += usize::from(norm > 1.0);
        let factor = 1.0 / norm.max(1.0);
        let [w, b] = grads;
        sums = (sums.0 + w * factor, sums.1 + b * factor);
    }
    assert!(clipped > 0 && clipped < 4, "{clipped}");
    sums
}

#[test]
fn per_replica_before_aggregation() {
    let layouts = [
        ("", ""),
        ("d:2", "replica:d"),
        ("d:4", "replica:d"),
        ("d:3", "batch:d"),
        ("d:2", "y:d"),
        ("d:2;m:2", "replica:d;y:m"),
        ("d:2", "replica:d;slots/*:d"),
        ("d:2", "replica:d;params/*:d;slots/*:d"),
        ("d:2;m:2", "replica:m+d"),
    ];
    let (w_sum, b_sum) = plain_replicas();
    for (mesh, layout) in layouts {
        let g = mesh_ops::graph();
        let (replica, batch) = (dim("replica", 4), dim("batch", 3));
        let (x, y) = (dim("x", 2), dim("y", 2));
        let input = g.input("input", [replica, batch, x], F32);
        let w = g.variable("w", [x, y], F32, Initializer::Constant(0.5));
        let b = g.variable("b", [y], F32, Initializer::Constant(0.25));
        let values = [w, b].map(|variable| (per_replica(variable, replica), variable));
        let out = input.einsum(&[values[0].0], [replica, batch, y]) + values[1].0;
        let loss = out.square().mean_over([batch, y]);
        let grads = per_replica_gradients(loss, &values);
        let updates = Sgd::new(1.0).apply_grads(&clip_per_replica(&grads, replica, 1.0));
        let train = g.function("train", [input], [], updates);
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        session.set_replica_check(true).unwrap();
        let [] = session.call(&train, [replicated().view().into()]).unwrap();
        let read = |name: &str| session.read(name).unwrap().to_f64();
        close(&(0.5 - read("w")), &w_sum, layout);
        close(&(0.25 - read("b")), &b_sum, layout);
        // The norms of whole replicas need no collective. Each gradient is reduced once, clipped;
        // as both are small, they are reduced together.
        let functions = on_host(&module);
        let steps = functions[0].program.steps().iter();
        let sent: Vec<_> = steps.filter(|step| step.axes().is_some()).collect();
        let forms: Vec<_> = sent.iter().map(|step| step.form.name()).collect();
        if layout == "replica:d" {
            assert_eq!((forms.as_slice(), sent[0].outs.len()), (&["all_reduce"][..], 2));
        }
        if layout == "replica:d;slots/*:d" {
            let scattered = forms.iter().filter(|form| **form == "reduce_scatter").count();
            assert_eq!((scattered, forms.contains(&"all_reduce")), (2, false), "{forms:?}");
        }
    }
}

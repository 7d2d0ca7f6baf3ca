//! The same computation of other tensors: what is computed again, and its gradients, are what a model of
//! those tensors gives; through loops, recomputed and reversible parts, and both within each other.

use mesh_ops::prelude::*;
use ndarray::{ArrayD, IxDyn};

const LAYERS: usize = 3;
const WIDTH: usize = 4;

/// Reversible parts compute their inputs again, up to rounding.
const TOLERANCE: f64 = 1e-12;

type Model = for<'g> fn(&'g Graph, Tensor<'g>, Tensor<'g>) -> Tensor<'g>;

/// Layers of the weights `w`, which has the dims `layers` and `d`.
fn layer<'g>(x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    (x * w).tanh() + x * w
}

fn plain<'g>(_: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    (0..LAYERS).fold(x, |x, i| layer(x, w.pick(layers(), i)))
}

fn recomputed<'g>(g: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    let apply = |x, i| g.recompute([x], |[x]| [layer(x, w.pick(layers(), i))])[0];
    (0..LAYERS).fold(x, apply)
}

fn recomputed_twice<'g>(g: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    g.recompute([x], |[x]| [recomputed(g, x.tanh(), w).tanh()])[0]
}

fn scanned<'g>(g: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    let scale = w.sum([layers()]);
    let ([y], []) = g.scan(layers(), [x], [w], |[x], [w]| ([layer(x, w) * scale], []));
    y
}

fn scanned_and_recomputed<'g>(g: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    let scale = w.sum([layers()]);
    let ([y], []) =
        g.scan(layers(), [x], [w], |[x], [w]| (g.recompute([x], |[x]| [layer(x, w) * scale]), []));
    y
}

fn scanned_twice<'g>(g: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    let rounds = dim("rounds", 2);
    let ([y], []) = g.scan(rounds, [x], [], |[x], []| ([scanned(g, x, w)], []));
    y
}

fn reversed<'g>(g: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    let f = |i: usize, x| layer(x, w.pick(layers(), i));
    let [a, b] = g.reversible([x, x * 0.5], LAYERS, f, |i, x| layer(x, w.pick(layers(), i)) * 0.5);
    a + b
}

fn dropped<'g>(_: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    (x * w.sum([layers()])).dropout(0.5)
}

const MODELS: &[(&str, Model)] = &[
    ("plain", plain),
    ("recomputed", recomputed),
    ("recomputed_twice", recomputed_twice),
    ("scanned", scanned),
    ("scanned_and_recomputed", scanned_and_recomputed),
    ("scanned_twice", scanned_twice),
    ("reversed", reversed),
    ("dropped", dropped),
];

fn layers() -> Dimension {
    dim("layers", LAYERS)
}

/// The value and the gradient with respect to the weights, at weights that are `factor` times the
/// variable's: computed from a product that the model is made with, or replaced afterwards.
fn at(model: Model, factor: f64, replaced: bool) -> [ArrayD<f64>; 2] {
    let g = mesh_ops::graph();
    let d = dim("d", WIDTH);
    let x = g.input("x", [d], F64);
    let w = g.variable("w", [layers(), d], F64, Initializer::ONES);
    let other = w.value() * factor;
    let (y, of) = if replaced {
        let y = model(&g, x, w.value());
        // A gradient that is made before asks loops to save what it needs.
        let before = g.gradients(&[y], &[w.value()], None)[0].unwrap();
        let y = g.replace(&[y], &[(w.value(), other)])[0] + before.sum_all() * 0.0;
        (y, other)
    } else {
        (model(&g, x, other), other)
    };
    let grad = g.gradients(&[y.square()], &[of], None)[0].expect("it depends on the weights");
    let f = g.function("f", [x], [y, grad], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"d:a".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let number = |i: usize| ((i * 7 % 11) as f64 - 5.0) / 8.0;
    let weights: Vec<_> = (0..LAYERS * WIDTH).map(number).collect();
    session.write("w", &ArrayD::from_shape_vec(IxDyn(&[LAYERS, WIDTH]), weights).unwrap()).unwrap();
    let x = ArrayD::from_shape_vec(IxDyn(&[WIDTH]), (1..=WIDTH).map(number).collect()).unwrap();
    session.call(&f, [x.view().into()]).unwrap().map(|y| y.to_f64())
}

#[test]
fn replaced_tensors_count_in_values_and_gradients() {
    for (name, model) in MODELS {
        let (want, got) = (at(*model, 1.5, false), at(*model, 1.5, true));
        assert!(want[1].iter().any(|x| *x != 0.0), "{name}");
        for (got, want) in got.iter().zip(&want) {
            let off = (got - want).iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            let size = want.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
            assert!(off <= TOLERANCE * size, "{name}: {got} not {want}");
        }
    }
}

/// A recomputation within a recomputation has the gradient of what it computes.
#[test]
fn recomputations_nest() {
    let grads = [plain_of_twice as Model, recomputed_twice].map(|model| at(model, 1.0, false));
    for (got, want) in grads[1].iter().zip(&grads[0]) {
        let off = (got - want).iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        assert!(off <= TOLERANCE, "{got} not {want}");
    }
}

fn plain_of_twice<'g>(g: &'g Graph, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    plain(g, x.tanh(), w).tanh()
}

#[test]
fn what_does_not_depend_stays_and_names_are_kept() {
    let g = mesh_ops::graph();
    let d = dim("d", WIDTH);
    let (x, w) = (g.input("x", [d], F32), g.variable("w", [d], F32, Initializer::ONES));
    let alone = x.tanh();
    let both = (alone * w.value()).probe("shown").sum_all().named("total");
    let found = g.replace(&[alone, both, w.value()], &[(w.value(), w.value() * 3.0)]);
    assert_eq!(found[0].id(), alone.id());
    assert!(format!("{:?}", found[1]).starts_with("total: "), "{:?}", found[1]);
    g.function("f", [x], [found[1], found[2]], []);
    g.check().unwrap();
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let session = Session::threads(&module, 0).unwrap();
    assert_eq!(session.shown("f").unwrap().count(), 0, "the probe is passed over");
}

#[test]
fn what_does_not_fit_is_an_error() {
    let g = mesh_ops::graph();
    let (x, y) = (g.input("x", [dim("d", 4)], F32), g.input("y", [dim("d", 5)], F32));
    let found = g.replace(&[x.tanh()], &[(x, y)]);
    assert!(found[0].is_poisoned());
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("replace: y: f32[d:5] cannot stand for x: f32[d:4]"), "{report}");
    assert!(report.contains("replace.rs:"), "{report}");
}

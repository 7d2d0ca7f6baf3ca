//! Trajectories of the optimizers against numbers computed elsewhere, on one processor and on
//! layouts that split, shard state (ZeRO) and shard parameters (FSDP).
//!
//! Origin of the numbers: Mesh TensorFlow's update rules, restated in plain Python and evaluated
//! in f64, apart from this project.

use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, AdamWeightDecay, Factoring, LearningRate, Optimizer, Sgd};
use ndarray::{ArrayD, IxDyn, arr1};

/// f32 arithmetic of a dozen operations on numbers near 1.
const TOLERANCE: f64 = 2e-6;

/// Values of a variable after each step, and of its slots at the end.
type Trajectory = (Vec<ArrayD<f64>>, Vec<(String, ArrayD<f64>)>);

/// A variable `w` is set to `start`, then updated with each of `grads`; its values after each step
/// and the values of all slots at the end.
fn trajectory(
    optimizer: &dyn Optimizer,
    start: &ArrayD<f32>,
    grads: &[ArrayD<f32>],
    mesh: &str,
    layout: &str,
) -> Trajectory {
    let g = mesh_ops::graph();
    let names = ["rows", "cols"];
    let dims: Vec<_> = start.shape().iter().zip(names).map(|(&n, name)| dim(name, n)).collect();
    let w = g.variable("w", dims.iter().copied(), F32, Initializer::ZEROS);
    // The gradient arrives as a sum over a batch of two, as in training.
    let batch = dim("batch", 2);
    let per_example = g.input("grad", std::iter::once(batch).chain(dims), F32);
    let grad = per_example.sum([batch]);
    let updates = optimizer.apply_grads(&[(Some(grad), w)]);
    let step = g.function("step", [per_example], [], updates);

    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    session.set_replica_check(true);
    session.write("w", start).unwrap();
    let mut values = Vec::new();
    for grad in grads {
        // Halves that sum to the gradient exactly.
        let half = grad.mapv(|v| v / 2.0);
        let pair = ndarray::stack(ndarray::Axis(0), &[half.view(), half.view()]).unwrap();
        let [] = session.call(&step, [pair.view().into()]).unwrap();
        values.push(session.read("w").unwrap().to_f64());
    }
    let slots = session.variables().map(str::to_owned).collect::<Vec<_>>();
    let slots = slots.into_iter().filter(|name| name.starts_with("w/"));
    let slots = slots.map(|name| (name.clone(), session.read(&name).unwrap().to_f64())).collect();
    (values, slots)
}

fn close(got: &ArrayD<f64>, want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= TOLERANCE * want.abs().max(1e-2), "{what}: {got} not {want}");
    }
}

fn array(values: &[&[f32]]) -> ArrayD<f32> {
    let flat: Vec<_> = values.concat();
    let shape =
        if values.len() == 1 { vec![flat.len()] } else { vec![values.len(), values[0].len()] };
    ArrayD::from_shape_vec(IxDyn(&shape), flat).unwrap()
}

/// Layouts for a 2 x 3 matrix or a vector of 2 whose gradient is summed over a batch of 2.
const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("d:2", "batch:d"),
    ("d:2", "rows:d"),
    ("d:2", "batch:d;slots/*:d"),
    ("d:2", "batch:d;params/*:d"),
    ("d:2", "batch:d;params/*:d;slots/*:d"),
    ("d:2;m:2", "batch:d;rows:m"),
    ("m:2", "params/rows:m"),
];

#[test]
fn adam_with_weight_decay() {
    let start = array(&[&[1.0, -2.0]]);
    let grads = [array(&[&[0.5, -0.25]]), array(&[&[0.1, 0.1]])];
    let adam = AdamWeightDecay::new(0.1).weight_decay(0.01);
    for (mesh, layout) in LAYOUTS {
        let (values, _) = trajectory(&adam, &start, &grads, mesh, layout);
        close(&values[0], &[0.6827922327, -1.6818122289], layout);
        close(&values[1], &[0.3408709867, -1.5332792970], layout);
    }
}

#[test]
fn adafactor_of_a_vector() {
    let start = array(&[&[1.0, -2.0, 3.0]]);
    let grads = [array(&[&[0.1, 0.2, -0.3]]), array(&[&[0.05, -0.4, 0.1]])];
    for (mesh, layout) in [("", ""), ("d:2", "batch:d"), ("d:3", "rows:d"), ("d:3", "slots/*:d")] {
        let (values, slots) = trajectory(&Adafactor::default(), &start, &grads, mesh, layout);
        close(&values[0], &[0.9783975310, -2.0216024690, 3.0216024690], layout);
        close(&values[1], &[0.9639925738, -1.9952578854, 3.0112461406], layout);
        close(&slots[0].1, &[0.0056923812, 0.1089219013, 0.0440520658], layout);
    }
}

#[test]
fn adafactor_of_a_matrix() {
    let start = array(&[&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]]);
    let grads = [
        array(&[&[0.1, 0.2, 0.3], &[0.4, 0.5, 0.6]]),
        array(&[&[-0.1, 0.0, 0.2], &[0.3, -0.2, 0.1]]),
    ];
    let factored =
        Adafactor { factoring: Factoring::TwoLargest { least: 2 }, ..Adafactor::default() };
    for (mesh, layout) in LAYOUTS {
        let (values, slots) = trajectory(&factored, &start, &grads, mesh, layout);
        let first =
            [0.9759188464, 1.9631249391, 2.9555965467, 3.9589270463, 4.9606910531, 5.9621326078];
        let second =
            [1.0013189679, 1.9631249391, 2.9165998731, 3.9234830033, 4.9829391325, 5.9530630988];
        close(&values[0], &first, layout);
        close(&values[1], &second, layout);
        let slot = |name: &str| &slots.iter().find(|(n, _)| n == name).unwrap().1;
        close(slot("w/adafactor_vr"), &[0.0294361913, 0.1360533394], layout);
        close(slot("w/adafactor_vc"), &[0.0648977788, 0.0732063528, 0.1101301645], layout);
    }
}

#[test]
fn sgd() {
    let start = arr1(&[1.0f32, -2.0]).into_dyn();
    let grads = [arr1(&[0.5f32, -0.25]).into_dyn()];
    for (mesh, layout) in LAYOUTS {
        let (values, _) = trajectory(&Sgd::new(0.5), &start, &grads, mesh, layout);
        close(&values[0], &[0.75, -1.875], layout);
    }
}

#[test]
fn a_learning_rate_of_the_step() {
    let start = array(&[&[1.0, -2.0]]);
    let grads: Vec<_> = (0..3).map(|_| array(&[&[1.0, -0.5]])).collect();
    // 1/2, 1/4, 1/6.
    let rate = || LearningRate::of_step(|step| ((step + 1.0) * 2.0).reciprocal());
    let third = [1.0 - 11.0 / 12.0, -2.0 + 11.0 / 24.0];
    for (mesh, layout) in LAYOUTS {
        let (values, _) = trajectory(&Sgd::new(rate()), &start, &grads, mesh, layout);
        close(&values[0], &[0.5, -1.75], layout);
        close(&values[2], &third, layout);
        // A constant is the same as a function that returns it.
        for constant in [LearningRate::from(0.1), LearningRate::of_step(|step| step * 0.0 + 0.1)] {
            let adam = AdamWeightDecay::new(constant.clone()).weight_decay(0.01);
            let grads = [array(&[&[0.5, -0.25]]), array(&[&[0.1, 0.1]])];
            let (values, _) = trajectory(&adam, &start, &grads, mesh, layout);
            close(&values[1], &[0.3408709867, -1.5332792970], layout);
            let own = Adafactor::default().learning_rate(constant);
            let (values, _) = trajectory(&own, &start, &grads[..1], mesh, layout);
            // Clipped to a root mean square of 1, times 0.1, times that of the variable.
            let scale = 0.1 * 2.5f64.sqrt();
            close(&values[0], &[1.0 - scale, -2.0 + scale], layout);
        }
    }
}

#[test]
fn a_missing_gradient_is_warned_of() {
    let g = mesh_ops::graph();
    let lonely = g.variable("lonely", [dim("x", 2)], F32, Initializer::ZEROS);
    let used = g.variable("used", [dim("x", 2)], F32, Initializer::ZEROS);
    let loss = used.value().sum_all();
    let updates = Sgd::new(0.1).minimize(loss);
    assert_eq!(updates.len(), 1);
    let warnings = g.warnings();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].subject, lonely.name());
}

#[test]
fn a_large_matrix_keeps_rows_and_columns_only() {
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("rows", 1024), dim("cols", 4096)], F32, Initializer::ZEROS);
    let grad = w.value().fill_like(1.0);
    let updates = Adafactor::default().apply_grads(&[(Some(grad), w)]);
    g.function("step", [], [], updates);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let slots = module.variables.iter().filter(|v| v.name.starts_with("w/"));
    assert_eq!(slots.map(|v| v.shape.size()).sum::<usize>(), 5_120);
}

//! Numbers computed by hand from the update rules of Mesh TensorFlow, in f64.

use crate::harness::{LAYOUTS, Problem, Trajectory, close};
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, AdamWeightDecay, Factoring, Optimizer, Schedule, Sgd};

/// Two steps of a variable of `dims`.
fn problem(dims: &[(&str, usize)], start: &[f64], grads: &[&[f64]]) -> Problem {
    let dims = dims.iter().map(|&(name, size)| dim(name, size)).collect();
    let grads = grads.iter().map(|grad| grad.to_vec()).collect();
    Problem { dims, dtype: F32, start: start.to_vec(), grads }
}

/// Runs under the layouts that are legal for a variable with dims of these sizes.
fn each_legal(problem: &Problem, optimizer: &dyn Optimizer, check: impl Fn(&Trajectory, &str)) {
    let divides = |layout: &str| {
        let parts = layout.split(';').filter_map(|rule| rule.split_once(':'));
        let ways = |axes: &str| 2_usize.pow(axes.split('+').count() as u32);
        parts.filter(|(target, _)| !target.contains('/')).all(|(target, axes)| {
            let mut dims = problem.dims.iter();
            dims.all(|dim| dim.name.as_str() != target || dim.size % ways(axes) == 0)
        })
    };
    let legal: Vec<_> = LAYOUTS.iter().filter(|(_, layout)| divides(layout)).collect();
    assert!(legal.len() >= 8, "{legal:?}");
    for (mesh, layout) in legal {
        check(&problem.run(optimizer, mesh, layout), layout);
    }
}

fn adam_problem() -> Problem {
    problem(&[("cols", 2)], &[1.0, -2.0], &[&[0.5, -0.25], &[0.1, 0.1]])
}

#[test]
fn adam_with_weight_decay() {
    let adam = AdamWeightDecay::new(0.1).weight_decay(0.01);
    each_legal(&adam_problem(), &adam, |got, layout| {
        close(&got.values[0], &[0.6827922327, -1.6818122289], layout);
        close(&got.values[1], &[0.3408709867, -1.5332792970], layout);
    });
}

#[test]
fn adafactor_of_a_vector() {
    let grads: [&[f64]; 2] = [&[0.1, 0.2, -0.3], &[0.05, -0.4, 0.1]];
    let vector = problem(&[("cols", 3)], &[1.0, -2.0, 3.0], &grads);
    each_legal(&vector, &Adafactor::default(), |got, layout| {
        close(&got.values[0], &[0.9783975310, -2.0216024690, 3.0216024690], layout);
        close(&got.values[1], &[0.9639925738, -1.9952578854, 3.0112461406], layout);
        close(&got.slots["adafactor_v"], &[0.0056923812, 0.1089219013, 0.0440520658], layout);
    });
}

#[test]
fn adafactor_of_a_matrix() {
    let grads: [&[f64]; 2] = [&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], &[-0.1, 0.0, 0.2, 0.3, -0.2, 0.1]];
    let start = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let matrix = problem(&[("rows", 2), ("cols", 3)], &start, &grads);
    let factored =
        Adafactor { factoring: Factoring::TwoLargest { least: 2 }, ..Adafactor::default() };
    each_legal(&matrix, &factored, |got, layout| {
        let first =
            [0.9759188464, 1.9631249391, 2.9555965467, 3.9589270463, 4.9606910531, 5.9621326078];
        let second =
            [1.0013189679, 1.9631249391, 2.9165998731, 3.9234830033, 4.9829391325, 5.9530630988];
        close(&got.values[0], &first, layout);
        close(&got.values[1], &second, layout);
        close(&got.slots["adafactor_vr"], &[0.0294361913, 0.1360533394], layout);
        close(&got.slots["adafactor_vc"], &[0.0648977788, 0.0732063528, 0.1101301645], layout);
    });
}

#[test]
fn a_learning_rate_of_the_step() {
    let grads: [&[f64]; 3] = [&[1.0, -0.5]; 3];
    let steady = problem(&[("cols", 2)], &[1.0, -2.0], &grads);
    // 1/2, 1/4, 1/6.
    let rate = Schedule::of_step(|step| ((step + 1.0) * 2.0).reciprocal());
    each_legal(&steady, &Sgd::new(rate), |got, layout| {
        close(&got.values[0], &[0.5, -1.75], layout);
        close(&got.values[2], &[1.0 - 11.0 / 12.0, -2.0 + 11.0 / 24.0], layout);
    });
    // A constant is the same as a function that returns it.
    for constant in [Schedule::from(0.1), Schedule::of_step(|step| step * 0.0 + 0.1)] {
        let adam = AdamWeightDecay::new(constant.clone()).weight_decay(0.01);
        let got = adam_problem().run(&adam, "d:2", "batch:d");
        close(&got.values[1], &[0.3408709867, -1.5332792970], "");
        let own = Adafactor::default().learning_rate(constant);
        let got = adam_problem().run(&own, "d:2", "batch:d");
        // The update is clipped to a root mean square of 1, times 0.1, times the variable's.
        let scale = 0.1 * 2.5_f64.sqrt();
        close(&got.values[0], &[1.0 - scale, -2.0 + scale], "");
    }
}

//! Estimates of curvature, and the slot that keeps them.

use mesh_ops::prelude::*;
use mesh_optimize::{Optimizer, Sophia, hutchinson};
use std::collections::BTreeSet;

const CALLS: usize = 40;

/// The estimates of a Hessian `2 I + 1 1ᵀ` of four elements in each call, and the slot at the end.
fn estimates(layout: &str) -> (Vec<Vec<f64>>, Vec<f64>) {
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("x", 4)], F64, Initializer::ONES);
    let sum = w.value().sum_all();
    let loss = w.value().square().sum_all() + sum * sum * 0.5;
    let found = hutchinson(loss, &[]);
    let sophia = Sophia { beta2: 0.0.into(), ..Sophia::new(0.1) };
    let updates = [sophia.minimize(loss), sophia.curvature(&found)].concat();
    let train = g.function("train", [], [found[0].0.unwrap()], updates);
    let module = g.lower(&"d:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 3).unwrap();
    let numbers = |array: &Array| array.to_f64().into_iter().collect::<Vec<_>>();
    let calls = (0..CALLS).map(|_| numbers(&session.call(&train, []).unwrap()[0])).collect();
    (calls, numbers(&session.read("w/sophia_h").unwrap()))
}

/// `r ⊙ H r` is `2 + r_i Σr`: what is more than 2 adds up to a square, and the mean is the diagonal, 3.
#[test]
fn hutchinsons_estimate_of_a_hessian() {
    let (calls, kept) = estimates("");
    let squares: Vec<_> = calls.iter().map(|call| call.iter().sum::<f64>() - 8.0).collect();
    assert!(squares.iter().all(|square| [0.0, 4.0, 16.0].contains(square)), "{squares:?}");
    let seen: BTreeSet<_> = squares.iter().map(|square| *square as i64).collect();
    assert!(seen.len() >= 2, "draws differ from call to call: {squares:?}");
    // Of the four terms of a square each has a variance of at most 3.
    let mean = calls.iter().flatten().sum::<f64>() / (4 * CALLS) as f64;
    assert!((mean - 3.0).abs() < 4.0 * (3.0 / CALLS as f64).sqrt(), "{mean}");
    // With beta2 0 the slot has the last estimate.
    assert_eq!(&kept, calls.last().unwrap());
    for layout in ["x:d", "slots/*:d", "params/*:d;slots/*:d", "slots/*:d@1"] {
        assert_eq!(estimates(layout), (calls.clone(), kept.clone()), "{layout}");
    }
}

//! Staleness from a seed.

use crate::harness::{LAYOUTS, Problem};
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, Delayed, Momentum, Optimizer, Sgd};

/// Gradients from which the step can be told: 1, 2, 4, ... and their exact sums.
fn telling(steps: usize) -> Problem {
    let grads = (0..steps).map(|t| vec![(1_u64 << t) as f64; 32]).collect();
    let dims = vec![dim("rows", 4), dim("cols", 8)];
    Problem { dims, dtype: F32, start: vec![0.0; 32], grads }
}

/// How many steps old each gradient was.
fn lateness(values: &[Vec<f64>]) -> Vec<usize> {
    let mut before = 0.0;
    let late = |(t, value): (usize, &Vec<f64>)| {
        assert!(value.iter().all(|x| *x == value[0]), "one gradient for all elements");
        let applied = before - value[0];
        before = value[0];
        t - applied.log2() as usize
    };
    values.iter().enumerate().map(late).collect()
}

#[test]
fn gradients_are_late_by_at_most_the_depth() {
    for depth in [1, 2, 3] {
        let got = telling(20).run(&Delayed::new(Sgd::new(1.0), depth), "", "");
        let late = lateness(&got.values);
        assert!(late.iter().enumerate().all(|(t, &k)| k <= depth.min(t)), "{late:?}");
        assert!((0..=depth).all(|k| late.contains(&k)), "{late:?}");
    }
}

#[test]
fn each_lateness_is_as_likely() {
    let g = mesh_ops::graph();
    let w = g.variable("w", [], F32, Initializer::ZEROS);
    let t = g.input("t", [], F32);
    let updates = Delayed::new(Sgd::new(1.0), 3).apply_grads(&[(Some(t), w)]);
    let train = g.function("train", [t], [], updates);
    let mut session =
        Session::threads(&g.lower(&Mesh::single(), &Layout::default()).unwrap(), 3).unwrap();
    let (mut counts, mut before) = ([0_u32; 4], 0.0);
    for t in 0..1000_u16 {
        let fed = ndarray::arr0(f32::from(t));
        let [] = session.call(&train, [fed.view().into()]).unwrap();
        let value = session.read("w").unwrap().item().unwrap();
        counts[(f64::from(t) - (before - value)) as usize] += 1;
        before = value;
    }
    // 1000 draws of four values, within five standard deviations.
    assert!(counts.iter().all(|n| n.abs_diff(250) < 70), "{counts:?}");
}

#[test]
fn the_same_gradients_are_late_on_every_layout() {
    let stale = Delayed::new(Momentum::new(0.5, 0.5), 2);
    let alone = telling(12).run(&stale, "", "");
    for (mesh, layout) in LAYOUTS.iter().chain(&[("d:3", "staleness:d")]) {
        let got = telling(12).run(&stale, mesh, layout);
        assert_eq!(got, alone, "{layout}");
    }
}

#[test]
fn depth_0_is_the_optimizer_itself() {
    for (mesh, layout) in LAYOUTS {
        let inner = Adafactor { beta1: 0.9.into(), ..Adafactor::tensor2tensor() };
        let plain = telling(12).run(&inner, mesh, layout);
        assert_eq!(telling(12).run(&Delayed::new(inner, 0), mesh, layout), plain, "{layout}");
    }
}

/// A second function that trains other variables advances the graph's step, but not the ring
/// buffer.
#[test]
fn the_ring_counts_its_own_updates() {
    let g = mesh_ops::graph();
    let [a, b] = ["a", "b"].map(|name| g.variable(name, [], F32, Initializer::ZEROS));
    let x = g.input("x", [], F32);
    let stale = Delayed::new(Sgd::new(1.0), 2);
    let of_a = g.function("of_a", [x], [], stale.apply_grads(&[(Some(x), a)]));
    let of_b = g.function("of_b", [x], [], Sgd::new(1.0).apply_grads(&[(Some(x), b)]));
    let mut session =
        Session::threads(&g.lower(&Mesh::single(), &Layout::default()).unwrap(), 0).unwrap();
    let mut before = 0.0;
    for t in 0..30_u16 {
        for _ in 0..2 {
            let [] = session.call(&of_b, [ndarray::arr0(0.0_f32).view().into()]).unwrap();
        }
        let fed = ndarray::arr0(f32::from(t));
        let [] = session.call(&of_a, [fed.view().into()]).unwrap();
        let value = session.read("a").unwrap().item().unwrap();
        let late = f64::from(t) - (before - value);
        assert!((0.0..=f64::from(t.min(2))).contains(&late), "{late} at {t}");
        before = value;
    }
}

//! `check_layout` takes what `lower` takes, and refuses the rest in the same words.

use crate::explained::{layers, perceptron, scanned};
use mesh_core::lower::{Options, Warnings};
use mesh_ops::prelude::*;
use mesh_ops::testing::{dim_names, options};

#[test]
fn what_lowering_refuses_is_refused_without_it() {
    let quiet = Options { warnings: Warnings::Keep, ..Options::default() };
    let models: [fn(&Graph); 3] = [perceptron, |g| layers(g, 1), scanned];
    let mut counts = [0, 0];
    for build in models {
        for mesh in ["a:2", "a:3", "a:2;b:2"] {
            let g = mesh_ops::graph();
            build(&g);
            let mesh: Mesh = mesh.parse().unwrap();
            let rules = dim_names(&g).into_iter().flat_map(|name| {
                options(&mesh).into_iter().skip(1).map(move |axes| format!("{name}:{axes}"))
            });
            let rules: Vec<_> = rules.chain(["batch:nowhere".to_owned()]).collect();
            // Each with the rule of the next dim for the same axes.
            let next = rules.iter().skip(options(&mesh).len() - 1);
            let pairs = rules.iter().zip(next).map(|(rule, next)| format!("{rule};{next}"));
            for layout in rules.iter().cloned().chain(pairs) {
                let parsed: Layout = layout.parse().unwrap();
                let lowered = g.lower_with(&mesh, &parsed, &quiet).map(drop);
                assert_eq!(g.check_layout(&mesh, &parsed), lowered, "{layout} on {mesh}");
                counts[usize::from(lowered.is_err())] += 1;
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 20), "taken and refused: {counts:?}");
}

//! Loops, recomputation, gradients of the user's own, probes: under every legal layout, with their
//! gradients, and with the collectives that they should cost.

use mesh_ops::elementwise::{greater, less};
use mesh_ops::prelude::*;
use mesh_ops::testing::Case;

fn check(case: Case) {
    if let Err(message) = case.check() {
        panic!("{message}");
    }
}

#[test]
fn a_scan_over_layers() {
    let (layers, d) = (dim("layers", 3), dim("d", 4));
    check(
        Case::new("scan", move |g, x| {
            let ([y], [all]) = g.scan(layers, [x[0]], [x[1]], |[h], [w]| {
                let next = (h * w).tanh() + h;
                ([next], [next * w])
            });
            y + all.sum([layers])
        })
        .normal("x", "b:4;d:4", F32)
        .normal("w", "layers:3;d:4", F32)
        .meshes(&["a:2", "a:4", "a:2;b:2"]),
    );
    let _ = d;
}

//! Collectives that run while ranks compute.

use super::{assert_same, bits, mesh, shared_meshes, train};
use mesh_core::program::Form;
use mesh_core::session::Ranks;
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use tests::on_host;

const STEPS: usize = 4;

/// The layout for [`wide`].
pub const LAYOUT: &str = "batch:a+b";

/// Layers with gradients that are large enough to be reduced while the next is computed.
pub fn wide() -> Graph {
    let graph = mesh_ops::graph();
    let input = graph.input("input", [dim("batch", 64), dim("x", 256)], F32);
    let hidden = (0..4).fold(input, |x, layer| {
        x.dense(dim(if layer % 2 == 0 { "y" } else { "x" }, 256), &format!("layer{layer}")).tanh()
    });
    let loss = hidden.square().mean();
    graph.function("train", [input], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
    graph
}

/// Ranks compute the bits of threads, with couriers and without.
pub fn run() {
    let graph = wide();
    let layout: Layout = LAYOUT.parse().unwrap();
    for mesh in [mesh()].into_iter().chain(shared_meshes()) {
        let module = graph.lower(&mesh, &layout).unwrap();
        let compiled = on_host(&module);
        let mut steps = compiled.iter().flat_map(|function| function.program.steps());
        let overlaps = steps.any(|step| matches!(step.form, Form::Await(_)));
        assert!(overlaps || mesh.processors() == 1, "nothing is under way on {mesh}");
        let mut threads = Session::threads(&module, 3).unwrap();
        let expected = train(&mut threads, &module, STEPS);
        for couriers in [true, false] {
            let ranks = Ranks::default().couriers(couriers);
            let mut session = Session::mpi_with(&module, 3, &ranks).unwrap();
            let what = format!("{mesh}, couriers: {couriers}");
            assert_same(&what, &train(&mut session, &module, STEPS), &expected);
            assert_eq!(bits(&session), bits(&threads), "variables on {what}");
        }
    }
    println!("couriers change nothing");
}

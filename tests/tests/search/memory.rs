//! Predicted memory beside that of compiled programs.

use super::{decoder, train};
use mesh_core::passes::Machine;
use mesh_ops::prelude::*;
use tests::on_host;

/// The largest share by which the predicted memory of variables and values differs from a compiled program's.
/// The order of steps that passes choose is not in the price, nor are the tiles themselves, gradients that are made tile by tile
/// with what variables become, and what is padded.
const APART: f64 = 0.17;

/// Bytes of a processor as predicted, and as planned for a host.
fn both(graph: &Graph, mesh: &str, layout: &str) -> (f64, f64) {
    let (mesh, layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
    let price = graph.estimator("train", &mesh, &Machine::host()).unwrap().price(&layout).unwrap();
    let module = graph.lower(&mesh, &layout).unwrap();
    let planned = on_host(&module)[0].plan.arena_bytes + module.variable_bytes();
    (price.bytes() as f64, planned as f64)
}

fn classifier(graph: &Graph) {
    let (batch, pixels) = (dim("batch", 2048), dim("pixels", 784));
    let (hidden, more, classes) = (dim("hidden", 512), dim("more", 512), dim("classes", 16));
    let image = graph.input("image", [batch, pixels], F32);
    let label = graph.input("label", [batch], I32);
    let x = image.dense(hidden, "first").relu().dense(more, "second").relu();
    let loss = x.dense(classes, "logits").softmax_cross_entropy(label, classes).mean();
    train(graph, &[image, label], loss);
}

/// Norms, softmax and attention of plain products, whose scores tiles keep out of memory.
#[test]
fn memory_is_that_of_compiled_programs() {
    type Model = (&'static str, fn(&Graph), &'static [&'static str]);
    let models: [Model; 2] = [
        ("classifier", classifier, &["", "batch:a", "hidden:a;more:b", "batch:a;slots/*:b"]),
        (
            "decoder",
            |graph| decoder(graph, 16, 128, 256),
            &["", "batch:a", "heads:a;d_ff:a;vocab:a"],
        ),
    ];
    let mut wrong = Vec::new();
    for (name, model, layouts) in models {
        let graph = mesh_ops::graph();
        model(&graph);
        for layout in layouts {
            let (predicted, planned) = both(&graph, "a:2;b:2", layout);
            let apart = (predicted - planned).abs() / planned;
            if apart > APART {
                wrong.push(format!("{name} {layout}: {predicted} is not {planned}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

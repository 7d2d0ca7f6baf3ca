//! README's first program.
#![expect(clippy::print_stdout, reason = "the program's output")]

use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::{Array1, Array2};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The model, once, over named dims. Gradients and updates are ops of the graph, too.
    let g = mesh_ops::graph();
    let (batch, pixels) = (dim("batch", 200), dim("pixels", 784));
    let (hidden, classes) = (dim("hidden", 256), dim("classes", 10));
    let image = g.input("image", [batch, pixels], F32);
    let label = g.input("label", [batch], I32);
    let logits = image.dense(hidden, "hidden").relu().dense(classes, "logits");
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    let right = logits.argmax(classes).equal(label).cast(F32).mean();
    let update = AdamWeightDecay::new(3e-4).minimize(loss);
    let train = g.function("train", [image, label], [loss], update);
    let evaluate = g.function("evaluate", [image, label], [right], []);

    // How it runs: four processors on two axes. Only these two strings say so.
    let mesh: Mesh = "rows:2;cols:2".parse()?;
    let layout: Layout = "batch:rows;hidden:cols".parse()?;
    let module = g.lower(&mesh, &layout)?; // or all mistakes at once, with their lines
    let mut session = Session::threads(&module, 0)?;

    // Waves of ten lengths; each example begins elsewhere.
    let wave = |i: usize, p: usize| (0.1 * (i % 10 + 1) as f32 * p as f32 + i as f32).sin();
    let images = Array2::from_shape_fn((200, 784), |(i, p)| wave(i, p));
    let unseen = Array2::from_shape_fn((200, 784), |(i, p)| wave(200 + i, p));
    let labels = Array1::from_shape_fn(200, |i| (i % 10) as i32);
    for step in 1..=10 {
        let [loss] = session.call(&train, [(&images).into(), (&labels).into()])?;
        println!("step {step}  loss {:.4}", loss.to_f64());
    }
    let [right] = session.call(&evaluate, [(&unseen).into(), (&labels).into()])?;
    println!("right on unseen examples: {:.3}", right.to_f64());
    Ok(())
}

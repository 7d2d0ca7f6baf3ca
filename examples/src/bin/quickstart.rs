//! README's program: a classifier of handwritten-looking digits, split over two axes.

use examples::data::Digits;
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::s;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the program's output")]
fn run() -> Result<(), Box<dyn std::error::Error>> {
    // The model, once, over named dims. No mesh in here.
    let g = mesh_ops::graph();
    let (batch, rows, cols) = (dim("batch", 100), dim("rows", 28), dim("cols", 28));
    let (hidden, classes) = (dim("hidden", 256), dim("classes", 10));
    let image = g.input("image", [batch, rows, cols], F32);
    let label = g.input("label", [batch], I32);
    let logits = image.reshape([batch, dim("pixels", 784)]).dense(hidden, "hidden").relu();
    let logits = logits.dense(classes, "logits");
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    let update = AdamWeightDecay::new(2e-3).minimize(loss);
    let train = g.function("train", [image, label], [loss], update);
    let predict = g.function("predict", [image], [logits.argmax(classes)], []);

    // How it runs: change these two strings, nothing else.
    let mesh: Mesh = "data:2;model:2".parse()?;
    let layout: Layout = "batch:data;hidden:model".parse()?;
    let module = g.lower(&mesh, &layout)?;
    let mut session = Session::threads(&module, 0)?;

    let digits = Digits::generate(0, 4_000, 100);
    let batches = digits.train.batches(&[28, 28], batch.size, 0)?.repeat_forever().prefetch(2);
    for (step, batch) in (1..=200).zip(&batches) {
        let [loss] = session.call(&train, batch?.feeds(["image", "label"])?)?;
        if step % 40 == 0 {
            println!("step {step}  loss {:.3}", loss.item().unwrap_or(f64::NAN));
        }
    }

    let tested = digits.test.weighted_batches(&[28, 28], batch.size)?;
    let tested = tested.iter().next().ok_or("no test examples")??;
    let [answers] = session.call(&predict, tested.feeds(["image"])?)?;
    let answers = answers.as_i32().ok_or("argmax is i32")?;
    let labels = tested.get("label")?.as_i32().ok_or("labels are i32")?;
    let right = answers.iter().zip(labels).filter(|(a, b)| a == b).count();
    println!("predicted {:?}", answers.slice(s![..10]).to_vec());
    println!("should be {:?}", labels.slice(s![..10]).to_vec());
    println!("{right} of {} right", batch.size);
    Ok(())
}

//! A small model, and a watcher that takes notes.

use mesh_core::lower::Module;
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, Remainder};
use mesh_optimize::training::{BoxError, Evaluated, Outcome, Position, Start, Step, Watcher};
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::{Array1, Array2};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A regression with noise in its inputs, so that a step depends on its number.
pub struct Model {
    pub module: Module,
    pub layout: Layout,
}

impl Model {
    pub fn new(mesh: &str, layout: &str) -> Self {
        let g = mesh_ops::graph();
        let (batch, width) = (dim("batch", 3), dim("width", 4));
        let x = g.input("x", [batch, width], F32);
        let y = g.input("y", [batch], F32);
        let w =
            g.variable("w", [width], F32, Initializer::TruncatedNormal { mean: 0.0, stddev: 1.0 });
        let b = g.variable("b", [], F32, Initializer::ZEROS);
        let w = w.value().probe("weights");
        let noised = mesh_ops::random::dropout(x, 0.5);
        let found = mesh_ops::reduce::sum(noised * w, [width]) + b.value().probe("bias");
        let loss = (found - y).square().mean();
        let size = mesh_ops::reduce::sum(w.square(), [width]).probe("size");
        let updates = AdamWeightDecay::new(0.05).minimize(loss);
        g.function("train", [x, y], [loss, size], updates);
        let layout: Layout = layout.parse().unwrap();
        Self { module: g.lower(&mesh.parse().unwrap(), &layout).unwrap(), layout }
    }

    pub fn session(&self, seed: u64) -> Session {
        Session::threads(&self.module, seed).unwrap()
    }

    /// Ten examples in batches of three, shuffled, made by another thread.
    pub fn data(&self, seed: u64) -> Dataset {
        let x = Array2::from_shape_fn((10, 4), |(i, j)| ((i * 4 + j) as f32).sin());
        let y = Array1::from_iter((0..10).map(|i| (i as f32).cos()));
        let examples = Dataset::from_arrays([("x", x.into()), ("y", y.into())]).unwrap();
        let batches = examples.shuffle(10, seed).unwrap().batch(3, Remainder::Drop).unwrap();
        batches.prefetch(2)
    }
}

/// Notes everything that it is told.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<(Vec<String>, Vec<f64>)>>);

impl Seen {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().0.clone()
    }

    pub fn losses(&self) -> Vec<f64> {
        self.0.lock().unwrap().1.clone()
    }

    fn note(&self, line: String) -> Result<(), BoxError> {
        self.0.lock().unwrap().0.push(line);
        Ok(())
    }
}

impl Watcher for Seen {
    fn name(&self) -> &str {
        "seen"
    }
    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        assert_eq!(run.function, "train");
        self.note(format!("start {}", run.position.step))
    }
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let names: Vec<_> = step.metrics.iter().map(|(name, _)| name).collect();
        let tensors = step.tensors.iter().map(|(label, a)| format!("{label}{:?}", a.shape()));
        let tensors: Vec<_> = tensors.collect();
        self.0.lock().unwrap().1.extend(step.metrics.iter().next().map(|(_, value)| value));
        let (step, names) = (step.position.step, names.join(" "));
        self.note(format!("step {step} {names} | {}", tensors.join(" ")))
    }
    fn evaluation(&mut self, evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        let metrics = evaluated.metrics.iter().map(|(name, value)| format!(" {name}={value}"));
        self.note(format!("evaluation {}{}", evaluated.position.step, metrics.collect::<String>()))
    }
    fn save(&mut self) -> Result<String, BoxError> {
        self.note("save".to_owned())?;
        Ok(String::new())
    }
    fn saved(&mut self, position: Position, name: &str) -> Result<(), BoxError> {
        self.note(format!("saved {} {name}", position.step))
    }
    fn finish(&mut self, outcome: &Outcome) -> Result<(), BoxError> {
        self.note(format!("finish {:?}", outcome.ended))
    }
}

/// An empty directory for this test.
pub fn scratch(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("training").join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

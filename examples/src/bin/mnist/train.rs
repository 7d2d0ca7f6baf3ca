//! The training loop.

use super::flags::Flags;
use super::model::{Functions, image_dims};
use examples::data::{Batches, Digits, SIDE, Split};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use mesh_ops::prelude::*;
use ndarray::{Array1, Array3, ArrayViewD};
use serde_json::json;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

/// Trains for the epochs or steps asked for, evaluating after each epoch.
pub(crate) fn train(
    flags: &Flags,
    functions: &Functions,
    module: &Module,
    evaluation: Option<&Module>,
    digits: &Digits,
    metrics: &mut Metrics,
) -> Result<(), Box<dyn Error>> {
    let mut session = Session::threads(module, flags.seed)?;
    let mut evaluator = evaluation.map(|m| Session::threads(m, flags.seed)).transpose()?;
    let mut batches = Batches::new(digits.train.len(), flags.batch, flags.seed)?;
    let per_epoch = batches.per_epoch() as u64;
    let total = flags.steps.unwrap_or(per_epoch.saturating_mul(flags.epochs as u64));
    let progress = Progress::new(total);
    let shape = feed_shape(flags);
    let mut images = Array3::zeros((flags.batch, SIDE, SIDE));
    let mut labels = Array1::zeros(flags.batch);
    let (started, mut best) = (Instant::now(), 0.0f64);
    for step in 1..=total {
        digits.train.gather(batches.next_batch(), &mut images, &mut labels)?;
        let feeds = [image_view(&images, &shape)?.into(), labels.view().into()];
        let [loss] = session.call(&functions.train, feeds)?;
        let loss = loss.item().unwrap_or(f64::NAN) as f32;
        metrics.line(&json!({ "step": step, "loss": loss }))?;
        progress.step(step, loss)?;
        if step % per_epoch == 0 || step == total {
            let epoch = step.div_ceil(per_epoch);
            let session = match &mut evaluator {
                None => &mut session,
                Some(evaluator) => {
                    evaluator.copy_variables(&session)?;
                    evaluator
                }
            };
            let accuracy = evaluate(flags, functions, session, &digits.test, &shape)?;
            best = best.max(accuracy);
            metrics.line(&json!({ "step": step, "epoch": epoch, "accuracy": accuracy }))?;
            progress.epoch(epoch, step, loss, accuracy, started)?;
        }
        if !loss.is_finite() {
            return Err(format!("the loss is {loss} at step {step}; try a smaller --lr").into());
        }
    }
    progress.finish();
    Ok(print(&format!("best test accuracy {:.2} %", best * 100.0))?)
}

/// The fraction of correct answers; every example counts once.
fn evaluate(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
    split: &Split,
    shape: &[usize],
) -> Result<f64, Box<dyn Error>> {
    let mut images = Array3::zeros((flags.batch, SIDE, SIDE));
    let mut labels = Array1::zeros(flags.batch);
    let mut weights = Array1::zeros(flags.batch);
    let mut correct = 0.0;
    for part in split.padded_batches(flags.batch) {
        split.gather_padded(part, &mut images, &mut labels, &mut weights)?;
        let image = image_view(&images, shape)?.into();
        let feeds = [image, labels.view().into(), weights.view().into()];
        let [count] = session.call(&functions.evaluate, feeds)?;
        correct += count.item().unwrap_or(0.0);
    }
    Ok(correct / split.len() as f64)
}

fn feed_shape(flags: &Flags) -> Vec<usize> {
    image_dims(flags.model, dim("batch", flags.batch)).iter().map(|d| d.size).collect()
}

fn image_view<'a>(
    images: &'a Array3<f32>,
    shape: &[usize],
) -> Result<ArrayViewD<'a, f32>, ndarray::ShapeError> {
    images.view().into_shape_with_order(shape.to_vec())
}

/// Number of trained values.
pub(crate) fn parameters(module: &Module) -> usize {
    module.variables.iter().filter(|v| v.trainable).map(|v| v.shape.size()).sum()
}

/// A line for the user.
pub(crate) fn print(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// JSON lines, or nothing.
pub(crate) struct Metrics {
    file: Option<BufWriter<File>>,
}

impl Metrics {
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, String> {
        let create = |path: &Path| {
            File::create(path).map_err(|e| format!("--metrics {}: {e}", path.display()))
        };
        Ok(Self { file: path.map(create).transpose()?.map(BufWriter::new) })
    }

    fn line(&mut self, value: &serde_json::Value) -> io::Result<()> {
        match &mut self.file {
            Some(file) => writeln!(file, "{value}"),
            None => Ok(()),
        }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.map_or(Ok(()), |mut file| file.flush())
    }
}

/// A bar on a terminal, a line an epoch elsewhere.
struct Progress {
    bar: ProgressBar,
    terminal: bool,
    total: u64,
}

impl Progress {
    fn new(total: u64) -> Self {
        let terminal = io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let template = "{bar:40} {pos}/{len}  {msg}  {rate}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{:.1} steps/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate));
        }
        Self { bar, terminal, total }
    }

    fn step(&self, step: u64, loss: f32) -> io::Result<()> {
        self.bar.set_message(format!("loss {loss:.4}"));
        self.bar.set_position(step);
        if !self.terminal && step.is_multiple_of(20) {
            print(&format!("step {step}/{}  loss {loss:.4}", self.total))?;
        }
        Ok(())
    }

    fn epoch(
        &self,
        epoch: u64,
        step: u64,
        loss: f32,
        accuracy: f64,
        started: Instant,
    ) -> io::Result<()> {
        let seconds = started.elapsed().as_secs_f64();
        self.bar.suspend(|| {
            print(&format!(
                "epoch {epoch}  step {step}  loss {loss:.4}  test accuracy {:.2} %  {seconds:.1} s",
                accuracy * 100.0
            ))
        })
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

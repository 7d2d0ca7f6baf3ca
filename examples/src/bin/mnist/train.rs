//! The training loop.

use super::flags::Flags;
use super::model::{Functions, image_dims};
use examples::data::{Batches, Digits, SIDE, Split};
use examples::report::{Metrics, Progress, print};
use mesh_ops::prelude::*;
use ndarray::{Array1, Array3, ArrayViewD};
use serde_json::json;
use std::error::Error;
use std::time::Instant;

/// Trains for the epochs or steps asked for, evaluating after each epoch.
pub(crate) fn train(
    flags: &Flags,
    functions: &Functions,
    mut session: Session,
    mut evaluator: Option<Session>,
    digits: &Digits,
    metrics: &mut Metrics,
) -> Result<(), Box<dyn Error>> {
    let mut batches = Batches::new(digits.train.len(), flags.batch, flags.seed)?;
    let per_epoch = batches.per_epoch() as u64;
    let total = flags.steps.unwrap_or(per_epoch.saturating_mul(flags.epochs as u64));
    let progress = Progress::new(total, 20);
    let shape = feed_shape(flags);
    let mut images = Array3::zeros((flags.batch, SIDE, SIDE));
    let mut labels = Array1::zeros(flags.batch);
    let (started, mut best) = (Instant::now(), 0.0f64);
    for step in 1..=total {
        digits.train.gather(batches.next_batch(), &mut images, &mut labels)?;
        let feeds = [image_view(&images, &shape)?.into(), labels.view().into()];
        let [loss, rate] = session.call(&functions.train, feeds)?;
        let [loss, rate] = [loss, rate].map(|array| array.item().unwrap_or(f64::NAN) as f32);
        metrics.line(&json!({ "step": step, "loss": loss, "lr": rate }))?;
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
            let seconds = started.elapsed().as_secs_f64();
            progress.line(&format!(
                "epoch {epoch}  step {step}  loss {loss:.4}  test accuracy {:.2} %  {seconds:.1} s",
                accuracy * 100.0
            ))?;
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

//! The training loop.

use super::flags::Flags;
use super::model::{Functions, image_dims};
use examples::data::Digits;
use examples::report::{Metrics, Progress, print};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::Dataset;
use serde_json::json;
use std::error::Error;
use std::time::Instant;

/// Batches that are made while one is computed with.
const AHEAD: usize = 2;

/// Trains for the epochs or steps asked for, evaluating after each epoch.
pub(crate) fn train(
    flags: &Flags,
    functions: &Functions,
    mut session: Session,
    mut evaluator: Option<Session>,
    digits: &Digits,
    metrics: &mut Metrics,
) -> Result<(), Box<dyn Error>> {
    let dims = image_sizes(flags);
    let epoch = digits.train.batches(&dims, flags.batch, flags.seed)?;
    let tested = digits.test.weighted_batches(&dims, flags.batch)?;
    let per_epoch = epoch.cardinality().unwrap_or(u64::MAX);
    let total = flags.steps.unwrap_or(per_epoch.saturating_mul(flags.epochs as u64));
    let progress = Progress::new(total, 20);
    let (started, mut best) = (Instant::now(), 0.0f64);
    for (step, batch) in (1..=total).zip(&epoch.repeat_forever().prefetch(AHEAD)) {
        let [loss, rate] = session.call(&functions.train, batch?.feeds(["image", "label"])?)?;
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
            let accuracy = evaluate(functions, session, &tested)? / digits.test.len() as f64;
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

/// The number of correct answers; every example counts once.
fn evaluate(
    functions: &Functions,
    session: &mut Session,
    tested: &Dataset,
) -> Result<f64, Box<dyn Error>> {
    let mut correct = 0.0;
    for batch in tested {
        let batch = batch?;
        let [count] =
            session.call(&functions.evaluate, batch.feeds(["image", "label", "weight"])?)?;
        correct += count.item().unwrap_or(0.0);
    }
    Ok(correct)
}

/// The sizes of the dims that an image is fed with.
fn image_sizes(flags: &Flags) -> Vec<usize> {
    let dims = image_dims(flags.model, dim("batch", flags.batch));
    dims.iter().skip(1).map(|dim| dim.size).collect()
}

//! Training and evaluation.

use super::flags::Flags;
use super::model::Functions;
use examples::optimizer::Method;
use examples::report::{Metrics, Progress};
use examples::text::Text;
use mesh_ops::prelude::*;
use mesh_optimize::dataset::Dataset;
use mesh_optimize::{AdamWeightDecay, LearningRate, Optimizer, schedule};
use serde_json::json;
use std::error::Error;
use std::time::Instant;

/// Batches that are made while one is computed with.
const AHEAD: usize = 2;
/// Bytes of the held-out text that an evaluation during training looks at.
const SOME: usize = 1 << 14;
/// And the last one, at most.
const MANY: usize = 1 << 20;

/// The optimizer. Adam averages squares over a hundred steps, since it corrects no bias, and decays
/// no scales of norms.
pub(crate) fn optimizer(flags: &Flags) -> Box<dyn Optimizer> {
    if flags.optimizer != Method::Adam {
        return flags.optimizer.optimizer(rate(flags), 0.0);
    }
    let adam = AdamWeightDecay::new(rate(flags)).weight_decay(flags.decay());
    Box::new(AdamWeightDecay { beta2: 0.99, exclude: vec!["norm".to_owned()], ..adam })
}

/// The step size: from 0 to `peak` over `warmup` steps, then along a cosine to a tenth of it.
fn rate(flags: &Flags) -> LearningRate {
    let falling = flags.steps.saturating_sub(flags.warmup).max(1);
    let cosine = schedule::cosine_decay(flags.peak(), falling, 0.1);
    let grown = schedule::linear_warmup(flags.warmup);
    // The first step is already one of growth.
    schedule::product([
        schedule::offset(grown, -1),
        schedule::offset(cosine, i64::try_from(flags.warmup).unwrap_or(i64::MAX)),
    ])
}

/// Trains, then evaluates on all of the held-out text.
pub(crate) fn train(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
    text: &Text,
    metrics: &mut Metrics,
) -> Result<(), Box<dyn Error>> {
    let mut progress = Progress::new(flags.steps, 50);
    let batches = text.batches(flags.batch, flags.sequence, flags.seed)?;
    let mut batches = batches.repeat_forever().prefetch(AHEAD).iter();
    let unit = text.unit();
    let started = Instant::now();
    let mut training = 0.0;
    for step in 1..=flags.steps {
        let begun = Instant::now();
        let Some(batch) = batches.next() else { break };
        let [loss] = session.call(&functions.train, batch?.feeds(["bytes", "following"])?)?;
        let loss = loss.item().unwrap_or(f64::NAN) as f32;
        training += begun.elapsed().as_secs_f64();
        metrics.line(&json!({ "step": step, "loss": loss }))?;
        progress.step(step, loss.into())?;
        if !loss.is_finite() {
            return Err(format!("the loss is {loss} at step {step}; try a smaller --lr").into());
        }
        let last = step == flags.steps;
        if last || flags.eval_every.is_some_and(|every| step.is_multiple_of(every)) {
            let most = if last { MANY } else { SOME };
            let windows = (most / flags.sequence).max(1);
            let held_out = text.held_out_batches(flags.batch, flags.sequence, windows)?;
            let held_out = evaluate(functions, session, &held_out)?;
            metrics.line(&json!({ "step": step, "held_out": held_out }))?;
            let speed = (flags.batch * flags.sequence) as f64 * step as f64 / training;
            progress.line(&format!(
                "step {step}  loss {loss:.4}  held-out {held_out:.4} nats per {unit}  \
                 {speed:.0} {unit}s/s  {:.1} s",
                started.elapsed().as_secs_f64()
            ))?;
        }
    }
    progress.finish();
    Ok(())
}

/// Nats per byte; every window counts once.
fn evaluate(
    functions: &Functions,
    session: &mut Session,
    held_out: &Dataset,
) -> Result<f64, Box<dyn Error>> {
    let (mut sum, mut windows) = (0.0, 0.0);
    for batch in held_out {
        let batch = batch?;
        let [losses] = session.call(&functions.evaluate, batch.feeds(["bytes", "following"])?)?;
        let weights = batch.get("weight")?.to_f64();
        let losses = losses.to_f64();
        sum += losses.iter().zip(&weights).map(|(loss, weight)| loss * weight).sum::<f64>();
        windows += weights.sum();
    }
    Ok(sum / windows)
}

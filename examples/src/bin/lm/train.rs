//! Training and evaluation.

use super::flags::Flags;
use super::model::Functions;
use examples::optimizer::Method;
use examples::report::{Metrics, Progress};
use examples::text::{Text, copy_windows, even_starts, random_starts};
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, LearningRate, Optimizer, schedule};
use ndarray::Array2;
use serde_json::json;
use std::error::Error;
use std::time::Instant;

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
    let mut bytes = Array2::zeros((flags.batch, flags.sequence));
    let mut following = bytes.clone();
    let started = Instant::now();
    let mut training = 0.0;
    for step in 1..=flags.steps {
        let begun = Instant::now();
        let starts = random_starts(text.train.len(), flags.sequence, flags.batch, flags.seed, step);
        copy_windows(&text.train, starts, &mut bytes, &mut following);
        let feeds = [bytes.view().into(), following.view().into()];
        let [loss] = session.call(&functions.train, feeds)?;
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
            let held_out = evaluate(flags, functions, session, &text.held_out, most)?;
            metrics.line(&json!({ "step": step, "held_out": held_out }))?;
            let speed = (flags.batch * flags.sequence) as f64 * step as f64 / training;
            progress.line(&format!(
                "step {step}  loss {loss:.4}  held-out {held_out:.4} nats per byte  \
                 {speed:.0} bytes/s  {:.1} s",
                started.elapsed().as_secs_f64()
            ))?;
        }
    }
    progress.finish();
    Ok(())
}

/// Nats per byte over at most `most` bytes; every window counts once.
fn evaluate(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
    text: &[u8],
    most: usize,
) -> Result<f64, Box<dyn Error>> {
    let mut bytes = Array2::zeros((flags.batch, flags.sequence));
    let mut following = bytes.clone();
    let starts: Vec<_> =
        even_starts(text.len(), flags.sequence, (most / flags.sequence).max(1)).collect();
    let mut sum = 0.0;
    for part in starts.chunks(flags.batch) {
        // Rows that are left over keep the windows of the part before, and are not counted.
        copy_windows(text, part.iter().copied(), &mut bytes, &mut following);
        let feeds = [bytes.view().into(), following.view().into()];
        let [losses] = session.call(&functions.evaluate, feeds)?;
        sum += losses.to_f64().iter().take(part.len()).sum::<f64>();
    }
    Ok(sum / starts.len() as f64)
}

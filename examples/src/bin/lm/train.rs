//! Training and evaluation.

use super::flags::Flags;
use examples::models::lm::Functions;
use examples::optimizer::linear;
use examples::report::Lines;
use examples::running::{About, Compared};
use examples::text::Text;
use mesh_ops::prelude::*;
use mesh_optimize::dataset::Dataset;
use mesh_optimize::training::{Better, BoxError, Every, Metrics, Outcome, Progress, Trainer};
use mesh_optimize::{Optimizer, Schedule, schedule};
use std::error::Error;

/// How many batches are made ahead.
const AHEAD: usize = 2;
/// How many bytes of held-out text an evaluation during training uses.
const SOME: usize = 1 << 14;
/// How many bytes the last evaluation uses at most.
const MANY: usize = 1 << 20;

/// The metric of evaluations: nats per byte.
const HELD_OUT: &str = "held_out";

/// The optimizer. Adam averages squares over a hundred steps, since it does not correct bias. None decays
/// the scales of norms.
pub(crate) fn optimizer(flags: &Flags) -> Result<Box<dyn Optimizer>, String> {
    if flags.run.compares() {
        return Ok(linear());
    }
    let method = flags.optimizer;
    let mut options = Vec::new();
    if method.name() == "adam" {
        options.push(("beta2", 0.99.into()));
    }
    if method.has("exclude") {
        options.push(("exclude", vec!["norm"].into()));
    }
    method.optimizer(&rate(flags), flags.decay(), options)
}

/// The learning rate: from 0 to `peak` over `warmup` steps, then along a cosine to a tenth of it.
fn rate(flags: &Flags) -> Schedule {
    let falling = flags.steps.saturating_sub(flags.warmup).max(1);
    let cosine = schedule::cosine_decay(flags.peak(), falling, 0.1);
    let grown = schedule::linear_warmup(flags.warmup);
    // The warm-up counts steps from 1, so that the first step has an effect.
    schedule::product([
        schedule::offset(grown, -1),
        schedule::offset(cosine, i64::try_from(flags.warmup).unwrap_or(i64::MAX)),
    ])
}

/// Trains, then evaluates on the held-out text.
pub(crate) fn train(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
    text: &Text,
    about: &About<'_>,
) -> Result<Outcome, Box<dyn Error>> {
    let unit = text.unit();
    let progress = Progress::to(Lines).every(Every::Steps(50));
    let progress = progress.evaluation_line(|evaluated, metrics, seconds| {
        let loss = metrics.get("loss").unwrap_or(f64::NAN);
        let (step, speed) = (evaluated.position.step, evaluated.pace.per_second().unwrap_or(0.0));
        let held_out = evaluated.metrics.get(HELD_OUT).unwrap_or(f64::NAN);
        format!(
            "step {step}  loss {loss:.4}  held-out {held_out:.4} nats per {unit}  \
             {speed:.0} {unit}s/s  {seconds:.1} s"
        )
    });
    let batches = text.batches(flags.batch, flags.sequence, flags.seed)?.prefetch(AHEAD);
    let every = Every::Steps(flags.eval_every.unwrap_or(u64::MAX));
    let trainer = Trainer::new(session, functions.train.name(), batches)
        .steps(flags.steps)
        .settings(flags.settings())
        .counting(&format!("{unit}s"), (flags.batch * flags.sequence) as f64)
        .evaluate(every, |session, position| {
            let most = if position.step >= flags.steps { MANY } else { SOME };
            let windows = (most / flags.sequence).max(1);
            let held_out = text.held_out_batches(flags.batch, flags.sequence, windows)?;
            let count = text.held_out_windows(flags.sequence, windows);
            Ok(Metrics::from([(HELD_OUT, evaluate(functions, session, &held_out, count)?)]))
        })
        .best(HELD_OUT, Better::Lower)
        .progress(progress);
    Ok(flags.run.watched(trainer, about)?.run()?)
}

/// Compares two layouts on the first batch.
pub(crate) fn compare(
    flags: &Flags,
    compared: &Compared<'_>,
    text: &Text,
) -> Result<(), Box<dyn Error>> {
    let batches = text.batches(flags.batch, flags.sequence, flags.seed)?;
    let batch = batches.iter().next().ok_or("there is no batch")??;
    let feeds: Vec<_> = batch.arrays().map(|(name, array)| (name, array.view())).collect();
    flags.run.compare(compared, &feeds)
}

/// Nats per byte of the first `windows` windows; the windows after them fill up the last batch.
fn evaluate(
    functions: &Functions,
    session: &mut Session,
    held_out: &Dataset,
    windows: usize,
) -> Result<f64, BoxError> {
    let (mut sum, mut left) = (0.0, windows);
    for batch in &held_out.addressable(session, functions.evaluate.name())? {
        let feeds = batch?;
        let [losses] = session.call(&functions.evaluate, feeds.feeds(["bytes", "following"])?)?;
        sum += losses.to_f64().iter().take(left).sum::<f64>();
        left = left.saturating_sub(losses.len());
    }
    Ok(sum / windows as f64)
}

//! The training loop.

use super::flags::Flags;
use super::model::{Functions, image_dims};
use examples::data::{Digits, SIDE, Split};
use examples::report::{Progress, print};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, DatasetError, Record, Remainder};
use mesh_optimize::training::{Better, BoxError, Every, Metrics, MetricsFile, Trainer};
use ndarray::{Array1, Array3, ArrayViewD};
use std::error::Error;
use std::sync::Arc;

/// Batches that are made ahead.
const AHEAD: usize = 2;

/// Trains for the epochs or steps asked for, evaluating after each epoch.
pub(crate) fn train(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
    mut evaluator: Option<Session>,
    digits: Digits,
    metrics: Option<MetricsFile>,
) -> Result<(), Box<dyn Error>> {
    let Digits { train, test } = digits;
    let shape = feed_shape(flags);
    let per_epoch = (train.len() / flags.batch) as u64;
    let total = flags.steps.unwrap_or(per_epoch.saturating_mul(flags.epochs as u64));
    let progress = Progress::new(total, 20).evaluations(|evaluated, loss, seconds| {
        let (step, epoch) = (evaluated.position.step, evaluated.position.epoch_of_step());
        let accuracy = evaluated.metrics.get("accuracy").unwrap_or(f64::NAN) * 100.0;
        format!(
            "epoch {epoch}  step {step}  loss {loss:.4}  test accuracy {accuracy:.2} %  \
             {seconds:.1} s"
        )
    });
    let mut trainer = Trainer::new(session, functions.train.name(), batches(flags, train)?)
        .steps(total)
        .metric_names(["loss", "lr"])
        .counting("examples", flags.batch as f64)
        .evaluate(Every::Epochs(1), |session, _| {
            let session = match &mut evaluator {
                None => session,
                Some(evaluator) => {
                    evaluator.copy_variables(session)?;
                    evaluator
                }
            };
            let accuracy = evaluate(flags, functions, session, &test, &shape)?;
            Ok(Metrics::from([("accuracy", accuracy)]))
        })
        .best("accuracy", Better::Higher)
        .watch(progress);
    if let Some(metrics) = metrics {
        trainer = trainer.watch(metrics);
    }
    let best = trainer.run()?.best.unwrap_or(0.0);
    Ok(print(&format!("best test accuracy {:.2} %", best * 100.0))?)
}

/// Batches of examples in random order; what does not fill a last batch sits the epoch out.
fn batches(flags: &Flags, split: Split) -> Result<Dataset, Box<dyn Error>> {
    let (batch, shape, split) = (flags.batch, feed_shape(flags), Arc::new(split));
    let numbers = Array1::from_iter(0..i32::try_from(split.len())?);
    let numbers = Dataset::from_arrays([("number", numbers.into())])?;
    let chosen = numbers.shuffle(split.len(), flags.seed)?.batch(batch, Remainder::Drop)?;
    let examples = chosen.map(move |numbers| {
        let refused = |error: &dyn Error| DatasetError::Refused(error.to_string());
        let mut images = Array3::zeros((batch, SIDE, SIDE));
        let mut labels = Array1::zeros(batch);
        let numbers = numbers.get("number")?.to_f64();
        let numbers: Vec<_> = numbers.iter().map(|number| *number as usize).collect();
        split.gather(&numbers, &mut images, &mut labels).map_err(|e| refused(&e))?;
        let images = images.into_shape_with_order(shape.clone()).map_err(|e| refused(&e))?;
        Record::new([("image", images.into()), ("label", labels.into())])
    });
    Ok(examples.prefetch(AHEAD))
}

/// The fraction of correct answers; every example counts once.
fn evaluate(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
    split: &Split,
    shape: &[usize],
) -> Result<f64, BoxError> {
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

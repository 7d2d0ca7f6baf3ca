//! The training loop.

use super::flags::Flags;
use examples::data::Digits;
use examples::models::mnist::{Functions, image_dims};
use examples::report::{Lines, say};
use examples::running::{About, Compared};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::Dataset;
use mesh_optimize::training::{Better, BoxError, Every, Metrics, Progress, Trainer};
use std::error::Error;

/// How many batches are made ahead.
const AHEAD: usize = 2;

/// Trains for the epochs or steps asked for, evaluating after each epoch.
pub(crate) fn train(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
    mut evaluator: Option<Session>,
    digits: &Digits,
    about: &About<'_>,
) -> Result<(), Box<dyn Error>> {
    let dims = image_sizes(flags);
    let epoch = digits.train.batches(&dims, flags.batch, flags.seed)?;
    let epoch = fed(flags, &epoch).prefetch(AHEAD);
    let tested = fed(flags, &digits.test.weighted_batches(&dims, flags.batch)?);
    let progress = Progress::to(Lines).every(Every::Steps(20));
    let progress = progress.evaluation_line(|evaluated, metrics, seconds| {
        let loss = metrics.get("loss").unwrap_or(f64::NAN);
        let (step, epoch) = (evaluated.position.step, evaluated.position.epoch_of_step());
        let accuracy = evaluated.metrics.get("accuracy").unwrap_or(f64::NAN) * 100.0;
        format!(
            "epoch {epoch}  step {step}  loss {loss:.4}  test accuracy {accuracy:.2} %  \
             {seconds:.1} s"
        )
    });
    let trainer = Trainer::new(session, functions.train.name(), epoch)
        .settings(flags.settings())
        .counting("examples", flags.batch as f64)
        .evaluate(Every::Epochs(1), |session, _| {
            let session = match &mut evaluator {
                None => session,
                Some(evaluator) => {
                    evaluator.copy_variables(session)?;
                    evaluator
                }
            };
            let correct = evaluate(functions, session, &tested)?;
            Ok(Metrics::from([("accuracy", correct / digits.test.len() as f64)]))
        })
        .best("accuracy", Better::Higher)
        .progress(progress);
    let trainer = match flags.steps {
        Some(steps) => trainer.steps(steps),
        None => trainer.epochs(flags.epochs as u64),
    };
    let outcome = flags.run.watched(trainer, about)?.run()?;
    if !flags.run.interrupted(&outcome) {
        say(&format!("best test accuracy {:.2} %", outcome.best.unwrap_or(0.0) * 100.0));
    }
    Ok(())
}

/// Compares two layouts on the first batch.
pub(crate) fn compare(
    flags: &Flags,
    compared: &Compared<'_>,
    digits: &Digits,
) -> Result<(), Box<dyn Error>> {
    let epoch = digits.train.batches(&image_sizes(flags), flags.batch, flags.seed)?;
    let batch = fed(flags, &epoch).iter().next().ok_or("there is no batch")??;
    let feeds: Vec<_> = batch.arrays().map(|(name, array)| (name, array.view())).collect();
    flags.run.compare(compared, &feeds)
}

/// The number of correct answers. Every example counts once.
fn evaluate(
    functions: &Functions,
    session: &mut Session,
    tested: &Dataset,
) -> Result<f64, BoxError> {
    let mut correct = 0.0;
    for batch in &tested.addressable(session, functions.evaluate.name())? {
        let batch = batch?;
        let [count] =
            session.call(&functions.evaluate, batch.feeds(["image", "label", "weight"])?)?;
        correct += count.item().unwrap_or(0.0);
    }
    Ok(correct)
}

/// Batches with images and weights in the dtype of the feeds.
fn fed(flags: &Flags, batches: &Dataset) -> Dataset {
    if flags.dtype.wide() == F32 {
        return batches.clone();
    }
    batches.map(|mut record| {
        for name in ["image", "weight"] {
            if let Ok(array) = record.get(name) {
                let wide = array.to_f64();
                record = record.with(name, wide);
            }
        }
        Ok(record)
    })
}

/// The sizes of an image's dims as it is fed.
fn image_sizes(flags: &Flags) -> Vec<usize> {
    let dims = image_dims(flags.model, dim("batch", flags.batch));
    dims.iter().skip(1).map(|dim| dim.size).collect()
}

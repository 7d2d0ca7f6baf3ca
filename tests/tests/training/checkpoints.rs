//! Checkpoints that the training loop saves.

use super::common::{Model, Seen, scratch};
use mesh_core::session::checkpoint::{Checkpoint, Checkpoints};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::Dataset;
use mesh_optimize::training::{
    BoxError, Every, MetricsFile, Position, Step, Trainer, TrainingError, Watcher,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Opens each checkpoint that it is told of.
#[derive(Default)]
struct Opens(Vec<u64>);

impl Watcher for &mut Opens {
    fn name(&self) -> &str {
        "opens"
    }
    fn saved(&mut self, position: Position, name: &str) -> Result<(), BoxError> {
        let checkpoint = Checkpoint::open(name)?;
        assert_eq!(checkpoint.step(), position.step);
        self.0.push(position.step);
        Ok(())
    }
}

/// Fails in a step.
struct FailIn(u64);

impl Watcher for FailIn {
    fn name(&self) -> &str {
        "fail"
    }
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        if step.position.step == self.0 { Err("failed".into()) } else { Ok(()) }
    }
}

fn train<'t>(session: &'t mut Session, data: Dataset, folder: &Path) -> Trainer<'t> {
    let checkpoints = Checkpoints::new(folder.join("kept")).keep_last(100);
    Trainer::new(session, "train", data)
        .quiet()
        .checkpoints(checkpoints, Every::Steps(2))
        .watch(MetricsFile::create(&folder.join("metrics")).unwrap())
}

#[test]
fn watchers_are_told_of_checkpoints_that_are_whole() {
    let (model, folder) = (Model::new("b:3", "batch:b"), scratch("told"));
    let mut opens = Opens::default();
    train(&mut model.session(0), model.data(1), &folder).steps(7).watch(&mut opens).run().unwrap();
    assert_eq!(opens.0, [2, 4, 6, 7]);
    // If there is nothing to do, nothing is saved again.
    let mut opens = Opens::default();
    let mut session = model.session(0);
    let trainer = train(&mut session, model.data(1), &folder).steps(7).watch(&mut opens);
    assert_eq!(trainer.run().unwrap().position.step, 7);
    assert!(opens.0.is_empty());
}

#[test]
fn nothing_is_saved_after_a_failure() {
    let (model, folder) = (Model::new("", ""), scratch("failed"));
    let mut session = model.session(0);
    let trainer = train(&mut session, model.data(1), &folder).steps(9).watch(FailIn(6));
    assert!(trainer.run().unwrap_err().to_string().contains("failed"));
    let newest = Checkpoints::new(folder.join("kept")).latest().unwrap().checkpoint.unwrap();
    assert_eq!(newest.step(), 4);
    // Output after the checkpoint is discarded.
    let lines = || fs::read_to_string(folder.join("metrics")).unwrap().lines().count();
    assert_eq!(lines(), 6);
    let seen = Seen::default();
    train(&mut model.session(0), model.data(1), &folder)
        .steps(9)
        .watch(seen.clone())
        .run()
        .unwrap();
    assert_eq!((seen.losses().len(), lines()), (5, 9));
}

#[test]
fn a_run_that_goes_on_makes_no_record_again() {
    let (model, folder) = (Model::new("", ""), scratch("skipped"));
    let made = Arc::new(AtomicUsize::new(0));
    let data = || {
        let made = made.clone();
        model.data(1).map(move |record| {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(record)
        })
    };
    train(&mut model.session(0), data(), &folder).steps(5).run().unwrap();
    made.store(0, Ordering::Relaxed);
    // There are three records per epoch: the run is before the last one of the second epoch.
    train(&mut model.session(0), data(), &folder).epochs(2).run().unwrap();
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

#[test]
fn folders_without_a_run_to_go_on_with_are_refused() {
    let (model, folder) = (Model::new("", ""), scratch("no-run"));
    let mut session = model.session(3);
    // The checkpoint was saved by another program.
    Checkpoints::new(folder.join("kept"))
        .save(5, &session.snapshot().unwrap(), &Default::default())
        .unwrap();
    let refused = train(&mut session, model.data(1), &folder).run().unwrap_err();
    assert!(matches!(&refused, TrainingError::Resume { .. }), "{refused}");
    assert!(refused.to_string().contains("was not saved by a training run"), "{refused}");
}

//! The training loop: its work, its output, and that stopping changes nothing.

mod best;
mod checkpoints;
mod common;
mod evaluation;
mod events;
mod microbatches;
mod progress;
mod report;
mod resume;

use common::{Model, Seen, scratch};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, Remainder};
use mesh_optimize::training::{
    Better, BoxError, Ended, Every, Metrics, MetricsFile, Outcome, Position, Step, Trainer,
    TrainingError, TrainingState, Watcher,
};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn watchers_see_every_step_and_evaluation_in_order() {
    let model = Model::new("", "");
    let (mut session, seen) = (model.session(0), Seen::default());
    let outcome = Trainer::new(&mut session, "train", model.data(1))
        .quiet()
        .epochs(2)
        .metric_names(["cost"])
        .evaluate(Every::Epochs(1), |_, position| Ok(Metrics::from([("at", position.step as f64)])))
        .save(Every::Steps(4), |_, state| Ok(format!("saved-{}", state.position.step)))
        .watch(seen.clone())
        .run()
        .unwrap();
    // Three batches of three examples are an epoch; the tenth example is left out.
    assert_eq!(
        seen.lines(),
        [
            "start 0",
            "step 1 cost size bias | weights[4]",
            "step 2 cost size bias | weights[4]",
            "step 3 cost size bias | weights[4]",
            "evaluation 3 at=3",
            "step 4 cost size bias | weights[4]",
            "save",
            "saved 4 saved-4",
            "step 5 cost size bias | weights[4]",
            "step 6 cost size bias | weights[4]",
            "evaluation 6 at=6",
            "save",
            "saved 6 saved-6",
            "finish Finished",
        ]
    );
    assert_eq!(outcome.position, Position { step: 6, epoch: 2, record: 0 });
    assert_eq!(outcome.evaluation, Some(Metrics::from([("at", 6.0)])));
}

#[test]
fn a_step_is_one_call_with_one_record() {
    // The same calls by hand.
    let model = Model::new("b:3", "batch:b");
    let (mut by_hand, mut expected) = (model.session(3), Vec::new());
    by_hand.watch(|_, _| {});
    for epoch in 0..3 {
        for record in model.data(5).pass(epoch) {
            let record = record.unwrap();
            let feeds: Vec<_> = record.arrays().map(|(name, a)| (name, a.view())).collect();
            let fetched = by_hand.call_named("train", &feeds).unwrap();
            expected.push(fetched[0].1.item().unwrap());
        }
    }
    let (mut session, seen) = (model.session(3), Seen::default());
    let trainer = Trainer::new(&mut session, "train", model.data(5)).quiet().epochs(3);
    trainer.watch(seen.clone()).run().unwrap();
    assert_eq!(seen.losses(), expected);
    for name in ["w", "b", "step"] {
        assert_eq!(session.read(name).unwrap(), by_hand.read(name).unwrap());
    }
}

#[test]
fn a_run_ends_where_it_is_told_to() {
    let model = Model::new("", "");
    for (steps, epochs, expected) in [
        (None, None, (3, 1, 0)),
        (None, Some(2), (6, 2, 0)),
        (Some(2), None, (2, 0, 2)),
        (Some(7), None, (7, 2, 1)),
        (Some(7), Some(2), (6, 2, 0)),
        (Some(4), Some(2), (4, 1, 1)),
        (Some(0), None, (0, 0, 0)),
        (None, Some(0), (0, 0, 0)),
    ] {
        let mut session = model.session(0);
        let mut trainer = Trainer::new(&mut session, "train", model.data(1)).quiet();
        if let Some(steps) = steps {
            trainer = trainer.steps(steps);
        }
        if let Some(epochs) = epochs {
            trainer = trainer.epochs(epochs);
        }
        let mut evaluations = 0;
        let trainer = trainer.evaluate(Every::Steps(100), |_, _| {
            evaluations += 1;
            Ok(Metrics::new())
        });
        let outcome = trainer.run().unwrap();
        let (step, epoch, record) = expected;
        assert_eq!(outcome.position, Position { step, epoch, record });
        assert_eq!(outcome.ended, Ended::Finished);
        // After the last step, and only if there was one.
        assert_eq!(evaluations, u64::from(step > 0));
    }
}

/// Evaluations with these values, one after another.
fn scripted(
    values: &'static [f64],
) -> impl FnMut(&mut Session, Position) -> Result<Metrics, BoxError> {
    move |_, position| Ok(Metrics::from([("score", values[position.step as usize - 1])]))
}

#[test]
fn a_run_ends_early_when_nothing_gets_better() {
    const SCORES: [f64; 9] = [1.0, 3.0, 3.0, 2.0, 4.0, f64::NAN, 4.0, 3.0, 9.0];
    let model = Model::new("", "");
    for (better, patience, (step, best)) in [
        (Better::Higher, 3, (8, 4.0)),
        (Better::Higher, 2, (4, 3.0)),
        (Better::Higher, 1, (3, 3.0)),
        (Better::Lower, 4, (5, 1.0)),
        (Better::Lower, 8, (9, 1.0)),
        (Better::Higher, 9, (9, 9.0)),
    ] {
        let run = |session: &mut Session, state: TrainingState, steps| {
            let trainer =
                Trainer::new(session, "train", model.data(1)).quiet().resume(state).steps(steps);
            let trainer = trainer.evaluate(Every::Steps(1), scripted(&SCORES));
            trainer.stop_early("score", better, patience).run().unwrap()
        };
        let outcome = run(&mut model.session(0), TrainingState::default(), 9);
        assert_eq!(
            (outcome.position.step, outcome.best),
            (step, Some(best)),
            "{better:?} {patience}"
        );
        assert_eq!(outcome.ended == Ended::Early, step < 9);
        // The step at which the run is cut does not matter.
        for cut in 0..step {
            let mut session = model.session(0);
            let part = run(&mut session, TrainingState::default(), cut);
            let rest = run(&mut session, part.state, 9);
            assert_eq!(
                (rest.position, rest.best, rest.ended),
                (outcome.position, outcome.best, outcome.ended)
            );
        }
        // A run that ended early stays ended.
        let again = run(&mut model.session(0), outcome.state, 9);
        assert_eq!(again.position.step, step);
    }
}

/// Asks the run to stop in a step.
struct StopIn(u64, Arc<AtomicBool>);

impl Watcher for StopIn {
    fn name(&self) -> &str {
        "stop"
    }
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        self.1.store(step.position.step == self.0, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn an_interrupted_run_ends_its_step_and_saves() {
    let model = Model::new("", "");
    for (last, interrupted) in [(4, true), (6, true), (9, false)] {
        let (mut session, seen, stop) = (model.session(0), Seen::default(), Arc::default());
        let mut saved = Vec::new();
        let outcome = Trainer::new(&mut session, "train", model.data(1))
            .quiet()
            .epochs(3)
            .stop_when(Arc::clone(&stop))
            .evaluate(Every::Epochs(1), |_, _| Ok(Metrics::new()))
            .save(Every::Epochs(1), |_, state| {
                saved.push(state.position.step);
                Ok(String::new())
            })
            .watch(seen.clone())
            .watch(StopIn(last, stop))
            .run()
            .unwrap();
        assert_eq!(outcome.position.step, last);
        assert_eq!(outcome.ended == Ended::Interrupted, interrupted);
        assert_eq!(
            saved,
            [3, 6, 9].into_iter().filter(|s| *s < last).chain([last]).collect::<Vec<_>>()
        );
        // The last step is one that was finished.
        assert_eq!(seen.lines().last().unwrap(), &format!("finish {:?}", outcome.ended));
    }
    // A run that is asked to stop before it starts does nothing.
    let (mut session, stop) = (model.session(0), Arc::new(AtomicBool::new(true)));
    let outcome =
        Trainer::new(&mut session, "train", model.data(1)).quiet().stop_when(stop).run().unwrap();
    assert_eq!((outcome.position.step, outcome.ended), (0, Ended::Interrupted));
}

#[test]
fn metrics_are_json_lines_that_give_the_numbers_back() {
    let folder = scratch("lines");
    let path = folder.join("m.jsonl");
    fs::write(&path, "an older and much longer file\n".repeat(100)).unwrap();
    let model = Model::new("", "");
    let (mut session, seen) = (model.session(0), Seen::default());
    const ODD: [f64; 3] = [f64::NAN, f64::NEG_INFINITY, 1e-310];
    let outcome = Trainer::new(&mut session, "train", model.data(1))
        .quiet()
        .metric_names(["loss"])
        .evaluate(Every::Steps(1), |_, position| {
            Ok(Metrics::from([("a \"b\"", ODD[position.step as usize - 1])]))
        })
        .watch(MetricsFile::create(&path).unwrap())
        .watch(seen.clone())
        .run()
        .unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"step\":1,\"loss\":"), "{text}");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    let losses: Vec<_> = lines.iter().step_by(2).map(|l| l["loss"].as_f64().unwrap()).collect();
    assert_eq!(losses, seen.losses());
    let found: Vec<_> = lines[1..].iter().step_by(2).map(|line| line["a \"b\""].clone()).collect();
    assert_eq!(found, [serde_json::json!("NaN"), "-Infinity".into(), 1e-310.into()]);
    assert!(lines[1..].iter().step_by(2).all(|line| line["epoch"] == 1));
    let length = outcome.state.watchers["metrics"].parse::<usize>().unwrap();
    assert_eq!(length, text.len());
}

fn error(trainer: Trainer<'_>) -> TrainingError {
    trainer.run().unwrap_err()
}

#[test]
fn what_is_wrong_is_said() {
    let model = Model::new("", "");
    let mut session = model.session(0);
    let says = |error: TrainingError, words: &[&str]| {
        let text = error.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in {text}"));
    };
    let data = || model.data(1);
    says(
        error(Trainer::new(&mut session, "trian", data()).quiet()),
        &["step 1", "`trian`", "`train`"],
    );
    let other = Dataset::from_arrays([("x", ndarray::Array2::<f32>::ones((9, 4)).into())]).unwrap();
    let other = other.batch(3, Remainder::Drop).unwrap();
    says(error(Trainer::new(&mut session, "train", other).quiet()), &["step 1", "`y`"]);
    let empty = data().take(0);
    says(error(Trainer::new(&mut session, "train", empty).quiet()), &["epoch 0", "no records"]);
    let broken = data().map(|_| Err("the disk is gone".to_owned().into()));
    says(
        error(Trainer::new(&mut session, "train", broken).quiet()),
        &["step 1", "record 0", "disk"],
    );
    let trainer = Trainer::new(&mut session, "train", data()).quiet().metric_names(["a", "b", "c"]);
    says(error(trainer), &["3 metrics", "a, b, c", "2 scalars"]);
    let trainer =
        Trainer::new(&mut session, "train", data()).quiet().best("accuracy", Better::Higher);
    says(error(trainer), &["accuracy", "evaluate"]);
    for (every, words) in [
        (Every::Steps(0), &["`evaluate`", "1 or more"][..]),
        (Every::Epochs(1), &["step 3", "`a`", "b, c"]),
    ] {
        let trainer = Trainer::new(&mut session, "train", data()).quiet().best("a", Better::Lower);
        let found = |_: &mut Session, _| Ok(Metrics::from([("b", 1.0), ("c", 1.0)]));
        says(error(trainer.evaluate(every, found)), words);
    }
    let trainer = Trainer::new(&mut session, "train", data()).quiet();
    let trainer = trainer.evaluate(Every::Steps(1), |_, _| Err("no such file".into()));
    says(error(trainer), &["evaluation", "step 1", "no such file"]);
    let position = Position { step: 5, epoch: 1, record: 9 };
    let state = TrainingState { position, ..TrainingState::default() };
    let trainer = Trainer::new(&mut session, "train", data()).quiet().epochs(3).resume(state);
    says(error(trainer), &["9 records of epoch 1", "same data"]);
    let metrics = |taken: &str| Metrics::from([(taken, 1.0)]);
    let path = scratch("wrong").join("m.jsonl");
    let trainer = Trainer::new(&mut session, "train", data()).quiet();
    let trainer = trainer.evaluate(Every::Steps(1), |_, _| Ok(metrics("step")));
    says(error(trainer.watch(MetricsFile::create(&path).unwrap())), &["metrics", "called `step`"]);
    let watchers = [("metrics".to_owned(), "1000".to_owned())].into_iter().collect();
    let state = TrainingState { watchers, ..TrainingState::default() };
    let trainer = Trainer::new(&mut session, "train", data()).quiet().resume(state);
    says(error(trainer.watch(MetricsFile::create(&path).unwrap())), &["m.jsonl", "had 1000"]);
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run() {
    let model = Model::new("", "");
    let path = scratch("diverged").join("m.jsonl");
    let (mut session, seen) = (model.session(0), Seen::default());
    session.write("w", ndarray::Array1::from_elem(4, f32::MAX).view()).unwrap();
    let mut saved = 0;
    let failed = Trainer::new(&mut session, "train", model.data(1))
        .quiet()
        .save(Every::Steps(1), |_, _| {
            saved += 1;
            Ok(String::new())
        })
        .watch(MetricsFile::create(&path).unwrap())
        .watch(seen.clone())
        .run();
    let error = failed.unwrap_err();
    assert!(matches!(&error, TrainingError::NotFinite { step: 1, .. }), "{error}");
    assert!(error.to_string().contains("learning rate"), "{error}");
    assert_eq!((saved, seen.lines().last().unwrap().as_str()), (0, "finish Failed"));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1, "what happened is written down: {text}");
}

#[test]
fn outcomes_tell_how_fast() {
    let model = Model::new("", "");
    let mut session = model.session(0);
    let trainer =
        Trainer::new(&mut session, "train", model.data(1)).quiet().counting("examples", 3.0);
    let Outcome { pace, .. } = trainer.epochs(20).run().unwrap();
    let (seconds, rate) = (pace.step_seconds().unwrap(), pace.per_second().unwrap());
    assert!(seconds > 0.0 && (rate * seconds - 3.0).abs() < 1e-9);
}

//! The best checkpoint is kept, survives kills, and is what a run ends with if that is asked for.

use super::common::{Model, scratch};
use mesh_core::session::checkpoint::Checkpoints;
use mesh_ops::prelude::*;
use mesh_optimize::training::{
    Better, BoxError, Ended, Every, Metrics, Outcome, Position, Start, Step, Trainer,
    TrainingError, Watcher,
};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

const STEPS: u64 = 12;

/// The metric after each step. The least value is that of step 7, the greatest finite one that of step 4.
const VALUES: [f64; STEPS as usize] =
    [5.0, 4.0, f64::NAN, 9.0, 4.5, 3.0, 1.0, 2.0, f64::INFINITY, 1.5, 8.0, 1.0];

fn evaluate(_: &mut Session, position: Position) -> Result<Metrics, BoxError> {
    Ok(Metrics::from([("value", VALUES[position.step as usize - 1])]))
}

/// Fails in a step, and notes warnings and refused checkpoints.
#[derive(Clone, Default)]
struct Notes {
    fail: Option<u64>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Watcher for Notes {
    fn name(&self) -> &str {
        "notes"
    }
    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        self.said.lock().unwrap().extend(run.refused.iter().map(|r| r.path.display().to_string()));
        Ok(())
    }
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        if Some(step.position.step) == self.fail { Err("killed".into()) } else { Ok(()) }
    }
    fn warning(&mut self, _: Position, problem: &str) -> Result<(), BoxError> {
        self.said.lock().unwrap().push(problem.to_owned());
        Ok(())
    }
}

fn trainer<'t>(session: &'t mut Session, model: &Model, folder: &Path) -> Trainer<'t> {
    Trainer::new(session, "train", model.data(4))
        .quiet()
        .epochs(4)
        .checkpoints(Checkpoints::new(folder).keep_last(2), Every::Steps(5))
        .evaluate(Every::Steps(1), evaluate)
}

/// The steps of the checkpoints in a folder.
fn kept(folder: &Path) -> Vec<u64> {
    let entries =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut steps: Vec<_> =
        entries.filter_map(|name| name.strip_prefix("step-")?.parse().ok()).collect();
    steps.sort_unstable();
    steps
}

fn variables(session: &Session) -> Vec<Array> {
    session.variables().map(str::to_owned).map(|name| session.read(&name).unwrap()).collect()
}

/// The variables after some steps.
fn after(model: &Model, steps: u64) -> Vec<Array> {
    let mut session = model.session(3);
    Trainer::new(&mut session, "train", model.data(4)).quiet().steps(steps).run().unwrap();
    variables(&session)
}

#[test]
fn the_best_is_kept_whatever_its_age_and_restored() {
    for (mesh, layout) in [("", ""), ("b:3;w:2", "batch:b;params/*:w;slots/*:w")] {
        let model = Model::new(mesh, layout);
        for (better, best) in [(Better::Lower, 7), (Better::Higher, 4)] {
            let folder = scratch(&format!("best-{better:?}-{}", mesh.len()));
            let mut session = model.session(3);
            let run = trainer(&mut session, &model, &folder).best("value", better).restore_best();
            let outcome = run.run().unwrap();
            assert_eq!((outcome.ended, outcome.position.step), (Ended::Finished, STEPS));
            assert_eq!(outcome.state.best_step, Some(best));
            assert_eq!(outcome.best, Some(VALUES[best as usize - 1]));
            assert_eq!(kept(&folder), [best, 10, STEPS]);
            assert_eq!(variables(&session), after(&model, best), "{better:?} {layout}");
            // The last checkpoint is the last step's: the run goes on from there, and ends with the best
            // again.
            let mut session = model.session(3);
            let again = trainer(&mut session, &model, &folder).best("value", better).restore_best();
            assert_eq!(again.run().unwrap().position.step, STEPS);
            assert_eq!(variables(&session), after(&model, best));
            // Without `restore_best` it ends with the last step's variables.
            let mut session = model.session(3);
            trainer(&mut session, &model, &folder).best("value", better).keep_best().run().unwrap();
            assert_eq!(variables(&session), after(&model, STEPS));
        }
    }
}

#[test]
fn a_run_killed_in_any_step_keeps_the_same_best() {
    let model = Model::new("", "");
    let split = Model::new("b:3", "batch:b");
    for killed in 1..=STEPS {
        let folder = scratch(&format!("best-killed-{killed}"));
        let mut session = model.session(3);
        let notes = Notes { fail: Some(killed), ..Notes::default() };
        let run =
            trainer(&mut session, &model, &folder).best("value", Better::Lower).restore_best();
        assert!(run.watch(notes).run().is_err());
        // It goes on where it was, or on another mesh.
        let other = if killed % 2 == 0 { &model } else { &split };
        let (mut session, notes) = (other.session(3), Notes::default());
        let run = trainer(&mut session, other, &folder).best("value", Better::Lower).restore_best();
        let outcome = run.watch(notes.clone()).run().unwrap();
        assert_eq!((outcome.state.best_step, outcome.best), (Some(7), Some(1.0)));
        assert_eq!(kept(&folder), [7, 10, STEPS], "killed in {killed}");
        assert_eq!(session.read("step").unwrap().item(), Some(7.0));
        assert!(notes.said.lock().unwrap().is_empty());
        if killed % 2 == 0 {
            assert_eq!(variables(&session), after(&model, 7), "killed in {killed}");
        }
    }
}

#[test]
fn an_interrupted_run_is_left_where_it_was() {
    let (model, folder) = (Model::new("", ""), scratch("best-interrupted"));
    let mut session = model.session(3);
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    struct StopIn(u64, Arc<std::sync::atomic::AtomicBool>);
    impl Watcher for StopIn {
        fn name(&self) -> &str {
            "stop"
        }
        fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
            let now = step.position.step == self.0;
            self.1.fetch_or(now, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }
    }
    let run = trainer(&mut session, &model, &folder).best("value", Better::Higher).restore_best();
    let outcome = run.watch(StopIn(6, stop.clone())).stop_when(stop).run().unwrap();
    assert_eq!((outcome.ended, outcome.state.best_step), (Ended::Interrupted, Some(4)));
    assert_eq!(variables(&session), after(&model, 6));
    // Early stopping is an end.
    let mut session = model.session(3);
    let run = trainer(&mut session, &model, &folder).stop_early("value", Better::Higher, 3);
    let outcome = run.restore_best().run().unwrap();
    assert_eq!((outcome.ended, outcome.position.step), (Ended::Early, 7));
    assert_eq!(variables(&session), after(&model, 4));
}

#[test]
fn a_best_checkpoint_that_is_gone_is_told_of_and_forgotten() {
    let (model, folder) = (Model::new("", ""), scratch("best-gone"));
    let run = |steps: u64, notes: &Notes| -> Outcome {
        let mut session = model.session(3);
        let run = trainer(&mut session, &model, &folder).best("value", Better::Higher).keep_best();
        run.steps(steps).watch(notes.clone()).run().unwrap()
    };
    let notes = Notes::default();
    assert_eq!(run(10, &notes).state.best_step, Some(4));
    fs::remove_dir_all(folder.join("step-0000000004")).unwrap();
    let outcome = run(STEPS, &notes);
    assert_eq!((outcome.state.best_step, outcome.best), (Some(11), Some(8.0)));
    let said = notes.said.lock().unwrap().join("\n");
    assert!(said.contains("step-0000000004"), "{said}");
}

#[test]
fn nothing_finite_is_no_best() {
    let (model, folder) = (Model::new("", ""), scratch("best-none"));
    let (mut session, notes) = (model.session(3), Notes::default());
    let run = trainer(&mut session, &model, &folder)
        .evaluate(Every::Steps(1), |_, _| Ok(Metrics::from([("value", f64::NAN)])))
        .best("value", Better::Lower)
        .restore_best()
        .watch(notes.clone());
    assert_eq!(run.run().unwrap().state.best_step, None);
    assert_eq!(variables(&session), after(&model, STEPS));
    assert!(notes.said.lock().unwrap().join("").contains("no best checkpoint"));
}

#[test]
fn what_the_best_checkpoint_needs_is_asked_for() {
    let (model, folder) = (Model::new("", ""), scratch("best-refused"));
    let mut session = model.session(3);
    let mut refused = |change: fn(Trainer<'_>) -> Trainer<'_>, saves: bool, words: &str| {
        let run = Trainer::new(&mut session, "train", model.data(4)).quiet();
        let run = run.evaluate(Every::Steps(1), evaluate);
        let checkpoints = Checkpoints::new(&folder);
        let run = if saves { run.checkpoints(checkpoints, Every::Steps(5)) } else { run };
        let error = change(run).run().unwrap_err();
        assert!(matches!(error, TrainingError::Setting { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(|run| run.keep_best(), true, ".best(..)");
    refused(|run| run.best("value", Better::Lower).restore_best(), false, ".checkpoints(..)");
}

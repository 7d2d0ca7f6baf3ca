//! A run that was stopped or killed, and resumed, leaves what a run leaves that was never stopped.

use super::common::{Model, scratch};
use mesh_ops::prelude::*;
use mesh_optimize::training::{
    Better, BoxError, Ended, Every, Metrics, MetricsFile, Outcome, ReportFile, Step, Trainer,
    TrainingState, Watcher,
};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const EPOCHS: u64 = 4;
/// The steps of all epochs.
const STEPS: u64 = 12;

/// The content of a checkpoint: the state as text, and the variables.
type Kept = Option<(String, Session)>;

/// Ends the run in a step, with an error or without.
struct EndIn {
    step: u64,
    /// Stops the run as Ctrl-C would; `None` ends it with an error.
    stop: Option<Arc<AtomicBool>>,
}

impl Watcher for EndIn {
    fn name(&self) -> &str {
        "end"
    }
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        match &self.stop {
            _ if step.position.step != self.step => Ok(()),
            Some(stop) => {
                stop.store(true, Ordering::Relaxed);
                Ok(())
            }
            None => Err("killed".into()),
        }
    }
}

/// A part of a run: it resumes from `kept` and writes to these files.
struct Run<'r> {
    model: &'r Model,
    folder: &'r Path,
    /// Saves every so many steps.
    saves: u64,
    end: EndIn,
}

impl Run<'_> {
    fn go(self, kept: &mut Kept) -> Option<Outcome> {
        let Self { model, folder, saves, end } = self;
        let mut session = model.session(3);
        let state = kept.as_ref().map_or_else(TrainingState::default, |(state, variables)| {
            session.copy_variables(variables).unwrap();
            serde_json::from_str(state).unwrap()
        });
        let report = folder.join("report.html");
        let report = ReportFile::create(&report, "t", &model.module, &model.layout, "train");
        let trainer = Trainer::new(&mut session, "train", model.data(11))
            .quiet()
            .epochs(EPOCHS)
            .resume(state)
            .evaluate(Every::Steps(5), |session, _| {
                let w = session.read("w")?.to_f64();
                Ok(Metrics::from([("largest", w.iter().copied().fold(0.0, f64::max))]))
            })
            .best("largest", Better::Higher)
            .save(Every::Steps(saves), |session, state| {
                let mut copy = model.session(0);
                copy.copy_variables(session)?;
                *kept = Some((serde_json::to_string(state)?, copy));
                Ok(String::new())
            })
            .watch(MetricsFile::create(&folder.join("m.jsonl")).unwrap())
            .watch(report.unwrap());
        let trainer = match &end.stop {
            Some(stop) => trainer.stop_when(Arc::clone(stop)),
            None => trainer,
        };
        trainer.watch(end).run().ok()
    }
}

fn never() -> EndIn {
    EndIn { step: u64::MAX, stop: None }
}

/// The report's curves without times, which differ between runs.
fn curves(outcome: &Outcome) -> String {
    let report: serde_json::Value =
        serde_json::from_str(&outcome.state.watchers["report"]).unwrap();
    format!("{}{}", report["steps"], report["evaluations"])
}

/// Checks that runs which `end` interrupts in any step leave what an uninterrupted run leaves.
fn check(name: &str, mesh: &str, layout: &str, saves: u64, end: impl Fn(u64) -> EndIn) {
    let (model, folder) = (Model::new(mesh, layout), scratch(name));
    let run =
        |saves, end, kept: &mut Kept| Run { model: &model, folder: &folder, saves, end }.go(kept);
    let mut whole = None;
    let outcome = run(saves, never(), &mut whole).unwrap();
    assert_eq!((outcome.ended, outcome.position.step), (Ended::Finished, STEPS));
    let metrics = fs::read(folder.join("m.jsonl")).unwrap();
    assert_eq!(metrics.iter().filter(|byte| **byte == b'\n').count(), STEPS as usize + 3);
    let (_, variables) = whole.unwrap();
    for last in 1..STEPS {
        let mut kept = None;
        let stopped = run(saves, end(last), &mut kept);
        assert!(stopped.is_none_or(|outcome| outcome.ended == Ended::Interrupted));
        // A killed process may have written more, even half a line.
        let file = folder.join("m.jsonl");
        let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(b"{\"step\":77,\"loss\":1}\n{\"ste").unwrap();
        let resumed = run(saves, never(), &mut kept).unwrap();
        assert_eq!((resumed.best, resumed.position), (outcome.best, outcome.position));
        let found = fs::read(folder.join("m.jsonl")).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&found),
            String::from_utf8_lossy(&metrics),
            "ended in step {last}"
        );
        assert_eq!(curves(&resumed), curves(&outcome), "ended in step {last}");
        let (_, found) = kept.unwrap();
        for name in variables.variables() {
            assert_eq!(found.read(name).unwrap(), variables.read(name).unwrap(), "{name}");
        }
    }
}

#[test]
fn a_stopped_run_goes_on_as_if_nothing_had_happened() {
    let stop = |step| EndIn { step, stop: Some(Arc::default()) };
    check("stopped", "", "", 1000, stop);
    check("stopped split", "b:3;w:2", "batch:b;width:w", 1000, stop);
}

#[test]
fn a_killed_run_goes_on_from_what_it_saved() {
    let kill = |step| EndIn { step, stop: None };
    check("killed", "", "", 1, kill);
    check("killed between saves", "w:2", "width:w", 4, kill);
}

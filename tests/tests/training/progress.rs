//! What a person sees of a run where there is no terminal.

use super::common::{Model, scratch};
use mesh_core::session::checkpoint::Checkpoints;
use mesh_optimize::training::{Every, Metrics, Progress, Trainer};
use std::io::{self, Write};
use std::path::Path;

/// What a run of seven steps writes, which evaluates after each epoch of three.
fn told(
    model: &Model,
    kept: Option<&Path>,
    steps: u64,
    change: fn(Progress<'_>) -> Progress<'_>,
) -> String {
    let (mut session, mut lines) = (model.session(0), Vec::new());
    let mut trainer = Trainer::new(&mut session, "train", model.data(1))
        .steps(steps)
        .metric_names(["cost", "size"])
        .counting("examples", 3.0)
        .evaluate(Every::Epochs(1), |_, at| Ok(Metrics::from([("held_out", at.step as f64 / 1e5)])))
        .progress(change(Progress::to(&mut lines)).plain());
    if let Some(kept) = kept {
        trainer = trainer.checkpoints(Checkpoints::new(kept), Every::Steps(100));
    }
    assert_eq!(trainer.run().unwrap().position.step, steps);
    String::from_utf8(lines).unwrap()
}

/// The first words of lines.
fn starts(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split("  ").next().unwrap().to_owned()).collect()
}

#[test]
fn steps_and_evaluations_have_lines() {
    let model = Model::new("", "");
    let text = told(&model, None, 7, |progress| progress);
    // The first step and the last, and an evaluation after each epoch and at the end.
    assert_eq!(
        starts(&text),
        ["step 1/7", "step 3/7", "step 6/7", "step 7/7", "step 7/7"],
        "{text}"
    );
    let all: Vec<_> = text.lines().collect();
    for part in ["  cost ", "  size ", "  bias ", " examples/s"] {
        assert!(all[0].contains(part) && all[3].contains(part), "{text}");
    }
    assert_eq!(all[1], "step 3/7  held_out 3.000e-5");
    let text = told(&model, None, 7, |progress| progress.every(Every::Steps(2)));
    let steps =
        ["step 1/7", "step 2/7", "step 3/7", "step 4/7", "step 6/7", "step 6/7", "step 7/7"];
    assert_eq!(starts(&text)[..7], steps, "{text}");
    let text = told(&model, None, 4, |progress| {
        progress
            .every(Every::Epochs(1))
            .step_line(|step| format!("at {}", step.position.step))
            .evaluation_line(|evaluated, metrics, seconds| {
                assert!(seconds >= 0.0 && metrics.get("cost").is_some());
                format!("measured at {}", evaluated.position.step)
            })
    });
    assert_eq!(text, "at 1\nat 3\nmeasured at 3\nat 4\nmeasured at 4\n");
}

#[test]
fn a_run_that_goes_on_says_from_where() {
    let (model, folder) = (Model::new("b:3", "batch:b"), scratch("progress"));
    told(&model, Some(&folder), 4, |progress| progress);
    let text = told(&model, Some(&folder), 6, |progress| progress);
    assert_eq!(starts(&text)[1..], ["step 5/6", "step 6/6", "step 6/6"], "{text}");
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("goes on from ") && first.ends_with("0000000004, after step 4"),
        "{text}"
    );
}

/// A pipe that nobody reads.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_cannot_be_written_end_nothing() {
    let model = Model::new("", "");
    let mut session = model.session(0);
    let trainer = Trainer::new(&mut session, "train", model.data(1)).progress(Progress::to(Closed));
    assert_eq!(trainer.run().unwrap().position.step, 3);
}

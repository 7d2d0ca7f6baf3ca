//! Messages of a run for people: lines and a progress bar.

use crate::ranks::speaks;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use mesh_optimize::training::{BoxError, Evaluated, Outcome, Start, Step, Watcher};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Writes the program's answer and a line break to standard output. Of several processes only the
/// first writes.
pub fn print(text: &str) -> io::Result<()> {
    if speaks() { writeln!(io::stdout(), "{text}") } else { Ok(()) }
}

/// Writes a line about a run that goes on.
///
/// A line that cannot be written does not end the run, whose results are its checkpoints, metrics
/// and reports. If the reader has closed the output, as `head` does, nothing is reported. If a disk
/// is full, standard error says so once.
pub fn say(line: &str) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let Err(error) = print(line) else { return };
    if error.kind() != io::ErrorKind::BrokenPipe && !TOLD.swap(true, Ordering::Relaxed) {
        remark(&format!("warning: standard output cannot be written to: {error}; the run goes on"));
    }
}

/// Writes a line to standard error. Of several processes only the first writes. If it cannot be
/// written, there is nowhere to report that.
pub fn remark(line: &str) {
    if speaks() {
        complain(line);
    }
}

/// [`remark`] from any process.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints the checkpoint from which a run resumes.
pub fn say_start(run: &Start<'_>) {
    if let Some(from) = run.from {
        say(&format!("goes on from {}, after step {}", from.display(), run.position.step));
    }
}

/// How often the bar is redrawn.
const REFRESH: Duration = Duration::from_millis(100);

/// Makes the line about an evaluation from the evaluation, the loss of the last step and the
/// seconds since the run began.
type Line<'l> = dyn Fn(&Evaluated<'_>, f64, f64) -> String + 'l;

/// Shows a bar on a terminal, a line now and then elsewhere, and a line for each evaluation.
pub struct Progress<'l> {
    bar: ProgressBar,
    terminal: bool,
    /// "/1500", if the number of steps is known.
    of: String,
    every: u64,
    evaluations: Box<Line<'l>>,
    loss: f64,
    started: Instant,
    refreshed: Option<Instant>,
}

impl<'l> Progress<'l> {
    /// `every` is the number of steps between two lines where there is no terminal; `evaluations`
    /// makes the line of an evaluation.
    pub fn new(every: u64, evaluations: impl Fn(&Evaluated<'_>, f64, f64) -> String + 'l) -> Self {
        Self {
            bar: ProgressBar::hidden(),
            terminal: io::stderr().is_terminal(),
            of: String::new(),
            every,
            evaluations: Box::new(evaluations),
            loss: f64::NAN,
            started: Instant::now(),
            refreshed: None,
        }
    }

    /// Prints a line above the bar.
    fn line(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }
}

impl Watcher for Progress<'_> {
    fn name(&self) -> &str {
        "progress"
    }

    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        say_start(run);
        self.started = Instant::now();
        self.of = run.steps.map(|steps| format!("/{steps}")).unwrap_or_default();
        if self.terminal {
            self.bar = run.steps.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len}  {msg}") {
                self.bar.set_style(style);
            }
            self.bar.set_position(run.position.step);
        }
        Ok(())
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let (number, pace) = (step.position.step, step.pace);
        self.loss = step.metrics.iter().next().map_or(f64::NAN, |(_, loss)| loss);
        let loss = self.loss;
        if !self.terminal {
            if number.is_multiple_of(self.every) {
                say(&format!("step {number}{}  loss {loss:.4}", self.of));
            }
        } else if self.refreshed.is_none_or(|refreshed| refreshed.elapsed() >= REFRESH) {
            self.refreshed = Some(Instant::now());
            let rate = pace.per_second().map(|rate| format!("  {rate:.0} {}/s", pace.unit()));
            let left = pace.remaining().map(|left| format!("  {} left", HumanDuration(left)));
            let more: String = rate.into_iter().chain(left).collect();
            self.bar.set_message(format!("loss {loss:.4}{more}"));
            self.bar.set_position(number);
        }
        Ok(())
    }

    fn evaluation(&mut self, evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        let seconds = self.started.elapsed().as_secs_f64();
        self.line(&(self.evaluations)(evaluated, self.loss, seconds));
        Ok(())
    }

    fn finish(&mut self, _: &Outcome) -> Result<(), BoxError> {
        self.bar.finish_and_clear();
        Ok(())
    }
}

//! What a run tells: lines for people, JSON lines, a progress bar.

use crate::ranks::speaks;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use mesh_optimize::training::{BoxError, Evaluated, MetricsFile, Outcome, Start, Step, Watcher};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A line for the user; of several processes, the first writes it.
pub fn print(line: &str) -> io::Result<()> {
    if speaks() { writeln!(io::stdout(), "{line}") } else { Ok(()) }
}

/// JSON lines, or nothing.
#[derive(Debug)]
pub struct Metrics {
    file: Option<BufWriter<File>>,
}

impl Metrics {
    /// Into this file, if there is one.
    pub fn create(path: Option<&Path>) -> Result<Self, String> {
        let create = |path: &Path| {
            File::create(path).map_err(|e| format!("--metrics {}: {e}", path.display()))
        };
        let path = path.filter(|_| speaks());
        Ok(Self { file: path.map(create).transpose()?.map(BufWriter::new) })
    }

    /// Writes a line.
    pub fn line(&mut self, value: &serde_json::Value) -> io::Result<()> {
        match &mut self.file {
            Some(file) => writeln!(file, "{value}"),
            None => Ok(()),
        }
    }

    /// Writes what is left.
    pub fn finish(self) -> io::Result<()> {
        self.file.map_or(Ok(()), |mut file| file.flush())
    }
}

/// Metrics as JSON lines into a file, if one is asked for.
pub fn metrics_file(path: Option<&Path>) -> Result<Option<MetricsFile>, String> {
    let create = |path: &Path| {
        MetricsFile::create(path).map_err(|e| format!("--metrics {}: {e}", path.display()))
    };
    path.filter(|_| speaks()).map(create).transpose()
}

/// How often a bar says something new.
const REFRESH: Duration = Duration::from_millis(100);

/// What a line about an evaluation says; it is given the loss of the last step and the seconds since
/// the run began.
type Line<'l> = dyn Fn(&Evaluated<'_>, f64, f64) -> String + 'l;

/// A bar on a terminal, a line now and then elsewhere. Told by hand, or as a watcher of a run.
pub struct Progress<'l> {
    bar: ProgressBar,
    terminal: bool,
    total: u64,
    every: u64,
    evaluations: Option<Box<Line<'l>>>,
    loss: f64,
    started: Instant,
    refreshed: Option<Instant>,
}

impl<'l> Progress<'l> {
    /// For so many steps, with a line every few of them where there is no terminal.
    pub fn new(total: u64, every: u64) -> Self {
        let terminal = io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(total) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len}  {msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            terminal,
            total,
            every,
            evaluations: None,
            loss: f64::NAN,
            started: Instant::now(),
            refreshed: None,
        }
    }

    /// With a line for each evaluation of a run.
    pub fn evaluations(mut self, line: impl Fn(&Evaluated<'_>, f64, f64) -> String + 'l) -> Self {
        self.evaluations = Some(Box::new(line));
        self
    }

    /// A step is done.
    pub fn step(&mut self, step: u64, loss: f64) -> io::Result<()> {
        self.note(step, loss, String::new)
    }

    /// A step is done, of which a bar says this as well.
    fn note(&mut self, step: u64, loss: f64, more: impl Fn() -> String) -> io::Result<()> {
        self.loss = loss;
        if !self.terminal {
            if step.is_multiple_of(self.every) {
                print(&format!("step {step}/{}  loss {loss:.4}", self.total))?;
            }
        } else if self.refreshed.is_none_or(|refreshed| refreshed.elapsed() >= REFRESH) {
            self.refreshed = Some(Instant::now());
            self.bar.set_message(format!("loss {loss:.4}{}", more()));
            self.bar.set_position(step);
        }
        Ok(())
    }

    /// A line that stays.
    pub fn line(&self, line: &str) -> io::Result<()> {
        self.bar.suspend(|| print(line))
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watcher for Progress<'_> {
    fn name(&self) -> &str {
        "progress"
    }

    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        self.started = Instant::now();
        self.bar.set_position(run.position.step);
        Ok(())
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let loss = step.metrics.iter().next().map_or(f64::NAN, |(_, loss)| loss);
        let pace = step.pace;
        let more = || {
            let rate = pace.per_second().map(|rate| format!("  {rate:.0} {}/s", pace.unit()));
            let left = pace.remaining().map(|left| format!("  {} left", HumanDuration(left)));
            rate.into_iter().chain(left).collect()
        };
        Ok(self.note(step.position.step, loss, more)?)
    }

    fn evaluation(&mut self, evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        let Some(line) = &self.evaluations else { return Ok(()) };
        Ok(self.line(&line(evaluated, self.loss, self.started.elapsed().as_secs_f64()))?)
    }

    fn finish(&mut self, _: &Outcome) -> Result<(), BoxError> {
        Progress::finish(self);
        Ok(())
    }
}

//! What a person sees of a run: a bar on a terminal, lines elsewhere.

use super::{
    BoxError, Evaluated, Every, Metrics, Outcome, Position, Start, Step, Trainer, Watcher,
};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the bar is redrawn.
const REFRESH: Duration = Duration::from_millis(100);

/// The steps between two lines, unless [`Progress::every`] says something else.
const STEPS: u64 = 100;

/// Numbers closer to zero than this are written with an exponent.
const SMALL: f64 = 1e-3;

type StepLine<'p> = dyn Fn(&Step<'_>) -> String + 'p;
type EvaluationLine<'p> = dyn Fn(&Evaluated<'_>, &Metrics, f64) -> String + 'p;

/// Shows how a run goes. Where standard error is a terminal, a bar there shows the metrics of the last
/// step, throughput and the remaining time. Elsewhere a line is written for the first step, for every
/// hundredth and, if the number of steps is known, for the last. Everywhere a line is written for each evaluation, and for the checkpoint
/// that a run resumes from. Warnings go to standard error.
///
/// Of several processes only rank 0 writes. A line that cannot be written does not end the run.
///
/// Every [`Trainer`] has one, which writes its lines to standard error, unless it is
/// [`quiet`](Trainer::quiet) or [given another](Trainer::progress).
pub struct Progress<'p> {
    lines: Box<dyn Write + 'p>,
    every: Every,
    step_line: Option<Box<StepLine<'p>>>,
    evaluation_line: Option<Box<EvaluationLine<'p>>>,
    /// Whether a bar is shown.
    draws: bool,
    /// Whether this process writes.
    speaks: bool,
    bar: ProgressBar,
    /// The step after which the run ends, if it is known.
    steps: Option<u64>,
    /// The metrics of the last step.
    metrics: Metrics,
    started: Instant,
    /// When the bar was drawn last, or the first step was seen.
    refreshed: Option<Instant>,
    /// Whether the user was told that lines cannot be written.
    told: bool,
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("every", &self.every).finish_non_exhaustive()
    }
}

impl Default for Progress<'_> {
    fn default() -> Self {
        Self::to(io::stderr())
    }
}

impl<'p> Progress<'p> {
    /// Writes lines to `lines`. Each is written, with its line break, in one call.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::{Optimizer, Sgd, dataset::{Dataset, Remainder}, training::*};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
    /// # let loss = x.dense(dim("out", 1), "out").square().mean();
    /// # g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # let layout = Layout::default();
    /// # let module = g.lower(&Mesh::single(), &layout)?;
    /// # let mut session = Session::threads(&module, 0)?;
    /// # let x = ndarray::Array2::<f32>::ones((20, 2));
    /// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
    /// let mut lines = Vec::new();
    /// let progress = Progress::to(&mut lines).every(Every::Steps(2)).plain();
    /// Trainer::new(&mut session, "train", data).metric_names(["loss"]).progress(progress).run()?;
    /// let lines = String::from_utf8(lines)?;
    /// assert!(lines.starts_with("step 1/5  loss "), "{lines}");
    /// assert_eq!(lines.lines().count(), 4); // steps 1, 2, 4 and 5
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn to(lines: impl Write + 'p) -> Self {
        Self {
            lines: Box::new(lines),
            every: Every::Steps(STEPS),
            step_line: None,
            evaluation_line: None,
            draws: io::stderr().is_terminal(),
            speaks: true,
            bar: ProgressBar::hidden(),
            steps: None,
            metrics: Metrics::new(),
            started: Instant::now(),
            refreshed: None,
            told: false,
        }
    }

    /// How often the line of a step is written where there is no bar; by default after every 100 steps.
    pub fn every(mut self, every: Every) -> Self {
        self.every = every;
        self
    }

    /// Shows no bar: lines are written on a terminal, too.
    pub fn plain(mut self) -> Self {
        self.draws = false;
        self
    }

    /// Makes the line of a step with `line`. By default it has the step's number, its metrics and the
    /// throughput.
    pub fn step_line(mut self, line: impl Fn(&Step<'_>) -> String + 'p) -> Self {
        self.step_line = Some(Box::new(line));
        self
    }

    /// Makes the line of an evaluation with `line`, from the evaluation, the metrics of the last step,
    /// and the seconds since the run started. By default it has the step's number and the metrics of the
    /// evaluation.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::{Optimizer, Sgd, dataset::{Dataset, Remainder}, training::*};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
    /// # let loss = x.dense(dim("out", 1), "out").square().mean();
    /// # g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # let layout = Layout::default();
    /// # let module = g.lower(&Mesh::single(), &layout)?;
    /// # let mut session = Session::threads(&module, 0)?;
    /// # let x = ndarray::Array2::<f32>::ones((20, 2));
    /// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
    /// let mut lines = Vec::new();
    /// let progress = Progress::to(&mut lines)
    ///     .plain()
    ///     .step_line(|step| format!("at {}", step.position.step))
    ///     .evaluation_line(|evaluated, _, _| format!("measured at {}", evaluated.position.step));
    /// Trainer::new(&mut session, "train", data)
    ///     .evaluate(Every::Epochs(1), |_, _| Ok(Metrics::new()))
    ///     .progress(progress)
    ///     .run()?;
    /// assert_eq!(String::from_utf8(lines)?, "at 1\nat 5\nmeasured at 5\n");
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn evaluation_line(
        mut self,
        line: impl Fn(&Evaluated<'_>, &Metrics, f64) -> String + 'p,
    ) -> Self {
        self.evaluation_line = Some(Box::new(line));
        self
    }

    /// Writes a line, above the bar if there is one.
    fn line(&mut self, line: &str) {
        if !self.speaks {
            return;
        }
        let text = format!("{line}\n");
        let Self { bar, lines, .. } = self;
        let written = bar.suspend(|| lines.write_all(text.as_bytes()).and_then(|()| lines.flush()));
        if let Err(error) = written
            && error.kind() != io::ErrorKind::BrokenPipe
            && !std::mem::replace(&mut self.told, true)
        {
            self.warn(&format!("progress cannot be written: {error}; the run goes on"));
        }
    }

    /// If standard error cannot be written to, there is nowhere to report that.
    fn warn(&self, problem: &str) {
        if self.speaks {
            let _ = self.bar.suspend(|| writeln!(io::stderr(), "warning: {problem}"));
        }
    }

    /// `step 7`, or `step 7/20` if the number of steps is known.
    fn number(&self, step: u64) -> String {
        let of = self.steps.map(|steps| format!("/{steps}")).unwrap_or_default();
        format!("step {step}{of}")
    }

    fn line_of(&self, step: &Step<'_>) -> String {
        match &self.step_line {
            Some(line) => line(step),
            None => format!("{}{}", self.number(step.position.step), message(step)),
        }
    }
}

/// Metrics and throughput, each with two spaces before it.
fn message(step: &Step<'_>) -> String {
    let pace = step.pace;
    let rate = pace.per_second().map(|rate| format!("  {rate:.0} {}/s", pace.unit()));
    written(step.metrics) + &rate.unwrap_or_default()
}

/// Metrics, each with two spaces before it.
fn written(metrics: &Metrics) -> String {
    let metric = |(name, value): (&str, f64)| {
        if value != 0.0 && value.abs() < SMALL {
            format!("  {name} {value:.3e}")
        } else {
            format!("  {name} {value:.4}")
        }
    };
    metrics.iter().map(metric).collect()
}

impl<'t> Trainer<'t> {
    /// Shows how the run goes with `progress` instead of a default [`Progress`].
    pub fn progress(mut self, progress: Progress<'t>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Writes nothing: no bar, no lines, no warnings.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::{Optimizer, Sgd, dataset::{Dataset, Remainder}, training::*};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
    /// # let loss = x.dense(dim("out", 1), "out").square().mean();
    /// # g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # let layout = Layout::default();
    /// # let module = g.lower(&Mesh::single(), &layout)?;
    /// # let mut session = Session::threads(&module, 0)?;
    /// # let x = ndarray::Array2::<f32>::ones((20, 2));
    /// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
    /// Trainer::new(&mut session, "train", data).quiet().run()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn quiet(mut self) -> Self {
        self.progress = None;
        self
    }
}

impl Watcher for Progress<'_> {
    fn name(&self) -> &str {
        "progress"
    }

    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        self.speaks = run.session.rank() == 0;
        self.started = Instant::now();
        self.steps = run.steps;
        run.refused.iter().for_each(|refused| self.warn(&refused.error.to_string()));
        if let Some(from) = run.from {
            self.line(&format!(
                "goes on from {}, after step {}",
                from.display(),
                run.position.step
            ));
        }
        if self.draws && self.speaks {
            self.bar = run.steps.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            let template = if run.steps.is_some() {
                "{bar:40} {pos}/{len}{msg}"
            } else {
                "{spinner} {pos}{msg}"
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.bar.set_style(style);
            }
            self.bar.set_position(run.position.step);
        }
        Ok(())
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let first = self.refreshed.is_none();
        self.metrics.clone_from(step.metrics);
        if !self.draws {
            self.refreshed.get_or_insert_with(Instant::now);
            let last = self.steps == Some(step.position.step);
            if first || last || self.every.due(step.position) {
                self.line(&self.line_of(step));
            }
        } else if self.refreshed.is_none_or(|refreshed| refreshed.elapsed() >= REFRESH) {
            self.refreshed = Some(Instant::now());
            let left = step.pace.remaining().map(|left| format!("  {} left", HumanDuration(left)));
            self.bar.set_message(message(step) + &left.unwrap_or_default());
            self.bar.set_position(step.position.step);
        }
        Ok(())
    }

    fn evaluation(&mut self, evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        let line = match &self.evaluation_line {
            Some(line) => line(evaluated, &self.metrics, self.started.elapsed().as_secs_f64()),
            None => self.number(evaluated.position.step) + &written(evaluated.metrics),
        };
        self.line(&line);
        Ok(())
    }

    fn warning(&mut self, _: Position, problem: &str) -> Result<(), BoxError> {
        self.warn(problem);
        Ok(())
    }

    fn finish(&mut self, _: &Outcome) -> Result<(), BoxError> {
        self.bar.finish_and_clear();
        Ok(())
    }
}

//! Collects the content of a report during a run.

use super::text::{count, digits, grouped, milliseconds};
use super::{Chart, Curve, LayoutPicture, OperationTime, Planned, Report, Traffic};
use crate::training::{BoxError, Ended, Evaluated, Metrics, Outcome, Pace, Start, Step, Watcher};
use mesh_core::lower::{Module, Target};
use mesh_core::names::Layout;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The number of the step, since the start of this process, whose times are recorded. Earlier steps
/// touch memory for the first time.
const TIMED: u64 = 4;

/// Writes a [`Report`] of the run to a file when the run ends, whether or not it succeeded.
#[derive(Debug)]
pub struct ReportFile {
    path: PathBuf,
    /// The part of the report that follows from the module.
    facts: Report,
    parameters: usize,
    collected: Collected,
    /// The step whose times are recorded.
    timed: u64,
    operations: Vec<OperationTime>,
}

/// What a resumed run must know.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Collected {
    /// The metrics of steps, by name.
    steps: Curves,
    /// The metrics of evaluations, by name.
    evaluations: Curves,
    /// The seconds of each step.
    seconds: Curve,
}

/// Curves by name, in order.
type Curves = Vec<(String, Curve)>;

fn add(curves: &mut Curves, step: u64, metrics: &Metrics) {
    for (name, value) in metrics.iter() {
        match curves.iter_mut().find(|(known, _)| known == name) {
            Some((_, curve)) => curve.add(step, value),
            None => {
                let mut curve = Curve::default();
                curve.add(step, value);
                curves.push((name.to_owned(), curve));
            }
        }
    }
}

impl ReportFile {
    /// A report at `path` about the training function `function` of `module`, which was lowered
    /// under `layout`.
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
    /// # let path = std::env::temp_dir().join(format!("report-{}", std::process::id()));
    /// let report = ReportFile::create(&path, "a run", &module, &layout, "train")?;
    /// Trainer::new(&mut session, "train", data).watch(report).run()?;
    /// assert!(std::fs::read_to_string(&path)?.contains("<svg"));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be opened for writing.
    pub fn create(
        path: &Path,
        title: &str,
        module: &Module,
        layout: &Layout,
        function: &str,
    ) -> io::Result<Self> {
        // A path that cannot be written to should be an error before the run.
        OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let explained = module.explain_for(&Target::host()).map_err(io::Error::other)?;
        let rows = explained.functions.iter().find(|rows| rows.name == function);
        let trainable = module.variables().iter().filter(|variable| variable.trainable);
        let (parameters, kept) =
            (explained.parameter_bytes, rows.and_then(|rows| rows.kept_bytes).unwrap_or(0));
        let values = rows.and_then(|rows| rows.arena_bytes).unwrap_or(0);
        let memory = [
            ("parameters", parameters),
            ("slots and other state", explained.variable_bytes.saturating_sub(parameters)),
            ("values kept for the gradient", kept),
            ("other values of a step", values.saturating_sub(kept)),
        ];
        let facts = Report {
            title: title.to_owned(),
            layout: Some(LayoutPicture::of(module, layout)),
            traffic: rows.map(Traffic::of).unwrap_or_default(),
            planned: rows.map(Planned::of).unwrap_or_default(),
            memory: memory.map(|(name, bytes)| (name.to_owned(), bytes as u64)).to_vec(),
            ..Report::default()
        };
        Ok(Self {
            path: path.to_owned(),
            parameters: trainable.map(|v| v.shape.sizes().iter().product::<usize>()).sum(),
            facts,
            collected: Collected::default(),
            timed: 0,
            operations: Vec::new(),
        })
    }
}

impl ReportFile {
    /// The report of the run so far.
    fn report(&self, outcome: &Outcome) -> Report {
        let mut report = self.facts.clone();
        let (axes, layout) = match &self.facts.layout {
            Some(picture) => (&picture.axes[..], picture.layout.as_str()),
            None => (&[][..], ""),
        };
        let processors: usize = axes.iter().map(|axis| axis.size).product();
        let parts = [
            if processors == 1 {
                "1 processor".to_owned()
            } else {
                format!("{processors} processors")
            },
            match layout {
                "" => "no layout".to_owned(),
                layout => format!("layout {layout}"),
            },
            format!("{} parameters", grouped(self.parameters as u64)),
        ];
        report.subtitle = parts.join("  ·  ");
        report.facts = self.first_facts(outcome);
        report.charts = self.charts(&outcome.pace);
        report.operations.clone_from(&self.operations);
        report
    }

    fn first_facts(&self, outcome: &Outcome) -> Vec<(String, String)> {
        let ended = match outcome.ended {
            Ended::Finished => "",
            Ended::Early => ", stopped early",
            Ended::Interrupted => ", interrupted",
            Ended::Failed => ", failed",
        };
        let steps = (format!("steps{ended}"), grouped(outcome.position.step));
        let (mut facts, pace) = (vec![steps], &outcome.pace);
        facts.extend(
            outcome.metrics.iter().take(1).map(|(name, v)| (name.to_owned(), digits(v, 4))),
        );
        let evaluated = outcome.evaluation.iter().flat_map(Metrics::iter).map(|(name, value)| {
            let same = outcome.metrics.get(name).is_some();
            (format!("{name}{}", if same { ", evaluated" } else { "" }), digits(value, 4))
        });
        facts.extend(evaluated);
        facts.extend(outcome.best.map(|best| ("best".to_owned(), digits(best, 4))));
        if let (Some(seconds), Some(rate)) = (pace.step_seconds(), pace.per_second()) {
            facts.push(("median step".to_owned(), milliseconds(seconds * 1e3)));
            facts.push((format!("{} per second", pace.unit()), count(rate)));
        }
        facts
    }

    fn charts(&self, pace: &Pace) -> Vec<Chart> {
        let Collected { steps, evaluations, seconds } = &self.collected;
        let line = |name: &str, curve: &Curve| (name.to_owned(), curve.clone());
        let mut charts = Vec::new();
        for (name, curve) in steps {
            let same = evaluations.iter().filter(|(other, _)| other == name);
            let same = same.map(|(_, curve)| line("evaluation", curve));
            let lines = [line("training", curve)].into_iter().chain(same).collect();
            charts.push(Chart { title: name.clone(), lines });
        }
        for (name, curve) in evaluations {
            if steps.iter().all(|(other, _)| other != name) {
                charts.push(Chart { title: name.clone(), lines: vec![line("evaluation", curve)] });
            }
        }
        let title = format!("{} per second", pace.unit());
        let lines = vec![line("throughput", &seconds.rates(pace.per_step()))];
        charts.push(Chart { title, lines });
        charts
    }
}

impl Watcher for ReportFile {
    fn name(&self) -> &str {
        "report"
    }

    fn start(&mut self, run: &Start<'_>, saved: Option<&str>) -> Result<(), BoxError> {
        let read = |saved| {
            serde_json::from_str(saved)
                .map_err(|error| format!("the saved state is not that of a report: {error}"))
        };
        self.collected = saved.map(read).transpose()?.unwrap_or_default();
        let last = run.steps.unwrap_or(u64::MAX);
        self.timed = last.min(run.position.step.saturating_add(TIMED));
        Ok(())
    }

    fn wants_times(&self, step: u64) -> bool {
        step == self.timed
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        add(&mut self.collected.steps, step.position.step, step.metrics);
        self.collected.seconds.add(step.position.step, step.seconds);
        if step.position.step == self.timed
            && let Some(recorded) = step.session.recorded(0)
        {
            self.operations = OperationTime::of(recorded.program, &recorded.times.steps);
        }
        Ok(())
    }

    fn evaluation(&mut self, evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        add(&mut self.collected.evaluations, evaluated.position.step, evaluated.metrics);
        Ok(())
    }

    fn save(&mut self) -> Result<String, BoxError> {
        Ok(serde_json::to_string(&self.collected)?)
    }

    fn finish(&mut self, outcome: &Outcome) -> Result<(), BoxError> {
        fs::write(&self.path, self.report(outcome).html())?;
        Ok(())
    }
}

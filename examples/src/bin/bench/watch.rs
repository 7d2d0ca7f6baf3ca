//! `watch`: how much watching a run costs a training step, and how long a checkpoint stops
//! training.

use super::lines::{Lines, median};
use super::models::{self, Loss, Transformer, adamw, lm};
use examples::backend::BackendFlags;
use examples::launch::{lower, mesh_and_layout, named};
use mesh_core::lower::Target;
use mesh_core::session::checkpoint::Checkpoints;
use mesh_optimize::Optimizer;
use mesh_optimize::dataset::{Dataset, Record};
use mesh_optimize::training::{
    BoxError, EventFile, Every, MetricsFile, Outcome, Position, ReportFile, Start, Step, Trainer,
    Watcher,
};
use ndarray::Array2;
use std::cell::RefCell;
use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

/// The sizes of `lm` without flags.
const LM: Transformer = Transformer {
    batch: 8,
    length: 128,
    d_model: 128,
    d_ff: 512,
    heads: 4,
    layers: 4,
    vocab: 256,
    ..models::LM
};

/// The steps before the measured ones.
const WARM: u64 = 5;

/// A run that is watched.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Steps of training.
    #[arg(long, default_value_t = 200)]
    steps: u64,

    /// Steps between two checkpoints.
    #[arg(long, default_value_t = 20)]
    every: u64,

    /// Processors as a grid. By default `all:n`, n the largest divisor of the batch that is not above
    /// the number of cores.
    #[arg(long)]
    mesh: Option<String>,

    /// How dims are split over mesh axes.
    #[arg(long)]
    layout: Option<String>,

    /// A folder for what is written, which is removed afterwards.
    #[arg(long, default_value = "bench-watch")]
    folder: PathBuf,

    /// What trains.
    #[command(flatten)]
    backend: BackendFlags,
}

/// The seconds of steps, shared by those who measure them.
type Seconds = Rc<RefCell<Vec<f64>>>;

/// A watcher with a clock: how long it takes for each step.
struct Timed<W> {
    watcher: W,
    seconds: Seconds,
}

impl<W: Watcher> Watcher for Timed<W> {
    fn name(&self) -> &str {
        self.watcher.name()
    }
    fn start(&mut self, run: &Start<'_>, saved: Option<&str>) -> Result<(), BoxError> {
        self.watcher.start(run, saved)
    }
    fn wants_times(&self, step: u64) -> bool {
        self.watcher.wants_times(step)
    }
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let begun = Instant::now();
        self.watcher.step(step)?;
        if step.position.step > WARM {
            self.seconds.borrow_mut().push(begun.elapsed().as_secs_f64());
        }
        Ok(())
    }
    fn save(&mut self) -> Result<String, BoxError> {
        self.watcher.save()
    }
    fn file(&self) -> Result<Option<(PathBuf, File)>, BoxError> {
        self.watcher.file()
    }
    fn finish(&mut self, outcome: &Outcome) -> Result<(), BoxError> {
        self.watcher.finish(outcome)
    }
}

/// Measures the seconds of whole steps, and the seconds for which a checkpoint stops training.
/// These begin when the first watcher is asked to save, and end when the first watcher is told of
/// the previous checkpoint, which is the last thing that the loop does for a checkpoint.
#[derive(Clone)]
struct Clock {
    steps: Seconds,
    blocked: Seconds,
    begun: Rc<RefCell<Option<Instant>>>,
}

impl Watcher for Clock {
    fn name(&self) -> &str {
        "clock"
    }
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        if step.position.step > WARM {
            self.steps.borrow_mut().push(step.seconds);
        }
        Ok(())
    }
    fn save(&mut self) -> Result<String, BoxError> {
        *self.begun.borrow_mut() = Some(Instant::now());
        Ok(String::new())
    }
    fn saved(&mut self, _: Position, _: &str) -> Result<(), BoxError> {
        let begun = self.begun.borrow_mut().take();
        self.blocked.borrow_mut().extend(begun.map(|begun| begun.elapsed().as_secs_f64()));
        Ok(())
    }
}

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let (mesh, layout) = mesh_and_layout(flags.mesh.as_deref(), flags.layout.as_deref(), LM.batch)?;
    let graph = mesh_ops::graph();
    let Loss { inputs, loss } = lm(&graph, &LM);
    graph.function("train", inputs, [loss], adamw().minimize(loss));
    let module = lower(&graph, &mesh, &layout, false)?;
    let mut session = flags.backend.session(&module, 3, Target::host())?;
    fs::create_dir_all(&flags.folder)?;
    let path = |name: &str| flags.folder.join(name);
    let seconds: [Seconds; 5] = Default::default();
    let [metrics, events, report, steps, blocked] = &seconds;
    let report_file = ReportFile::create(&path("report.html"), "bench", &module, &layout, "train")?;
    let clock = Clock { steps: steps.clone(), blocked: blocked.clone(), begun: Rc::default() };
    let checkpoints = Checkpoints::new(path("checkpoints"));
    Trainer::new(&mut session, "train", batches())
        .quiet()
        .steps(flags.steps)
        .checkpoints(checkpoints, Every::Steps(flags.every.max(1)))
        .watch(clock)
        .watch(Timed { watcher: MetricsFile::create(&path("metrics"))?, seconds: metrics.clone() })
        .watch(Timed { watcher: EventFile::create(&path("events"))?, seconds: events.clone() })
        .watch(Timed { watcher: report_file, seconds: report.clone() })
        .run()?;
    fs::remove_dir_all(&flags.folder)?;

    let lines = Lines::new("watch_lm", named(&layout));
    let mean = |seconds: &Seconds| {
        let seconds = seconds.borrow();
        seconds.iter().sum::<f64>() / seconds.len().max(1) as f64
    };
    lines.line("step_ms", mean(steps) * 1e3)?;
    for (name, seconds) in [("metrics", metrics), ("events", events), ("report", report)] {
        lines.line(&format!("{name}_us_per_step"), mean(seconds) * 1e6)?;
    }
    let watching: f64 = [metrics, events, report].into_iter().map(mean).sum();
    lines.line("watching_percent", watching / mean(steps) * 100.0)?;
    let mut snapshot = session.snapshot()?;
    lines.line("checkpoint_mib", snapshot.bytes() as f64 / f64::from(1 << 20))?;
    let bytes = snapshot.bytes();
    let (from, mut to) = (vec![1_u8; bytes], vec![2_u8; bytes]);
    lines.line("copy_ms", seconds_of(|| to.copy_from_slice(&from)) * 1e3)?;
    let mut taken = Ok(());
    let seconds = seconds_of(|| taken = session.snapshot_into(&mut snapshot));
    taken?;
    lines.line("snapshot_ms", seconds * 1e3)?;
    lines.line("blocked_ms", median(blocked.borrow().clone()) * 1e3)?;
    Ok(())
}

/// An endless data set of tokens.
fn batches() -> Dataset {
    Dataset::from_function(u64::MAX, |_, index| {
        let (batch, length, vocab) = (LM.batch, LM.length, LM.vocab);
        let token = |i: usize| ((i as u64 + index).wrapping_mul(2_654_435_761) >> 7) as usize;
        let tokens = |offset: usize| {
            Array2::from_shape_fn((batch, length), |(b, l)| {
                (token(b * length + l + offset) % vocab) as i32
            })
        };
        Record::new([("text", tokens(0).into()), ("next", tokens(1).into())])
    })
}

/// The median seconds of `what`. Before each run, as much other memory is touched as a step
/// touches.
fn seconds_of(mut what: impl FnMut()) -> f64 {
    let mut other = vec![0_u8; 64 << 20];
    let mut once = || {
        other.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        let begun = Instant::now();
        what();
        begun.elapsed().as_secs_f64()
    };
    median((0..9).map(|_| once()).collect())
}

//! The features that training programs share: checkpoints, watchers, finding errors.

mod attention;
mod dump;
mod flags;
mod short;
mod signals;

pub use attention::{Attention, Exchange};
pub use flags::{Detail, RunFlags, word};
pub use short::{Losses, ShortFlags, say_metrics};

use dump::Dump;
use mesh_core::array::ArrayRef;
use mesh_core::graph::Graph;
use mesh_core::lower::{Explain, Module, Options, Target};
use mesh_core::names::{Layout, Mesh};
use mesh_core::passes::Machine;
use mesh_core::session::checkpoint::{Checkpoint, Checkpoints, Restore};
use mesh_core::session::{Comparing, Session, Side, Threads, compare};
use mesh_optimize::training::{
    Ended, EventFile, Every, MetricsFile, Outcome, ReportFile, TraceFile, Trainer,
};
use signals::asked_to_end;
use std::error::Error;
use std::fmt::Display;
use std::path::Path;

use crate::launch::{named, parse};
use crate::ranks::speaks;
use crate::report::{print, remark, say};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// A run's description for those that write about it.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The title of the report.
    pub title: &'a str,
    /// The lowered module.
    pub module: &'a Module,
    /// The layout that it was lowered under.
    pub layout: &'a Layout,
    /// The function that trains.
    pub function: &'a str,
    /// The names of its fetches.
    pub metrics: &'a [&'a str],
    /// Descriptions of the contents of input files. A run with other contents does not resume from
    /// its checkpoints; the names of files do not matter.
    pub contents: &'a [(String, String)],
}

/// Two layouts to compare.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// The model.
    pub graph: &'a Graph,
    /// The function that trains.
    pub function: &'a str,
    /// The mesh of both.
    pub mesh: &'a Mesh,
    /// The run's layout.
    pub layout: &'a Layout,
    /// The options of both.
    pub options: &'a Options,
    /// The seed of initial values.
    pub seed: u64,
}

fn flagged<T, E: Display>(flag: &str, path: &Path, result: Result<T, E>) -> Result<T> {
    result.map_err(|error| format!("--{flag} {}: {error}", path.display()).into())
}

impl RunFlags {
    /// The machine, by default a host's cores.
    pub fn machine(&self) -> Machine {
        self.machine.clone().unwrap_or_else(Machine::host)
    }

    /// The target that modules are compiled for.
    pub fn target(&self) -> Target {
        let target = Target::host().on(self.machine());
        if self.check_numerics { target.check_numerics() } else { target }
    }

    /// What each processor does, as the kernels of the back-end asked for do it where that is known.
    pub fn explain(&self, module: &Module) -> Result<Explain> {
        let target = self.target();
        Ok(match self.backend.is_threads() {
            true => Threads::default().target(target).explain(module)?,
            false => module.explain_for(&target)?,
        })
    }

    /// Restores the variables that the flags ask for into a session.
    pub fn prepare(&self, session: &mut Session) -> Result<()> {
        let Some(path) = &self.restore_from else { return Ok(()) };
        let checkpoint = flagged("restore-from", path, newest(path))?;
        let pattern = self.restore_matching.as_deref().unwrap_or_default();
        let restored = session.restore(&checkpoint, &Restore::matching(pattern));
        let restored = flagged("restore-from", path, restored)?;
        let (loaded, all) = (restored.loaded.len(), session.variables().count());
        if loaded == 0 {
            return Err(format!("--restore-matching {pattern:?} is in no variable's name").into());
        }
        let from = checkpoint.path().display();
        say(&format!("{loaded} of {all} variables are those of {from}"));
        Ok(())
    }

    /// Adds everything that the flags ask for to a run. From now on Ctrl-C ends it after the
    /// current step, and a second Ctrl-C at once.
    pub fn watched<'t>(&self, trainer: Trainer<'t>, about: &About<'_>) -> Result<Trainer<'t>> {
        let metrics = about.metrics;
        let trainer = trainer.metric_names(metrics.iter().copied());
        let mut trainer = trainer.stop_when(asked_to_end()?);
        if speaks() {
            trainer = self.written(trainer, about)?;
        }
        if !self.dump.is_empty() {
            trainer = trainer.watch(Dump { fetched: metrics.len() });
        }
        let contents = about.contents.iter();
        trainer = trainer.settings(contents.map(|(name, value)| (name.as_str(), value.clone())));
        if let Some(folder) = &self.checkpoints {
            let checkpoints = Checkpoints::new(folder)
                .keep_last(self.keep_last)
                .keep_every(self.keep_every.unwrap_or(0));
            trainer = trainer.checkpoints(checkpoints, Every::Steps(self.checkpoint_every));
        }
        if self.keep_best {
            trainer = trainer.restore_best();
        }
        Ok(trainer)
    }

    /// Adds the files that the flags ask for to a run.
    fn written<'t>(&self, mut trainer: Trainer<'t>, about: &About<'_>) -> Result<Trainer<'t>> {
        let About { title, module, layout, function, .. } = *about;
        if let Some(path) = &self.metrics {
            trainer = trainer.watch(flagged("metrics", path, MetricsFile::create(path))?);
        }
        if let Some(path) = &self.events {
            trainer = trainer.watch(flagged("events", path, EventFile::create(path))?);
        }
        if let Some(path) = &self.report {
            let file = ReportFile::create(path, title, module, layout, function);
            trainer = trainer.watch(flagged("report", path, file)?);
        }
        if let Some(path) = &self.trace {
            let file = TraceFile::create(path, self.trace_steps.clone());
            trainer = trainer.watch(flagged("trace", path, file)?);
        }
        Ok(trainer)
    }

    /// Prints how to resume a run that was interrupted. Returns whether it was.
    pub fn interrupted(&self, outcome: &Outcome) -> bool {
        if outcome.ended != Ended::Interrupted {
            return false;
        }
        let step = outcome.position.step;
        say(&match &self.checkpoints {
            Some(folder) => format!(
                "stopped after step {step}; the same command goes on from {}",
                folder.display()
            ),
            None => format!(
                "stopped after step {step}; with --checkpoints DIR a run can be gone on with"
            ),
        });
        true
    }

    /// Compares the run's layout with the one that a flag asks for, if any. Prints that they agree,
    /// or fails with the first operation on which they differ.
    pub fn compare(&self, compared: &Compared<'_>, feeds: &[(&str, ArrayRef<'_>)]) -> Result<()> {
        let Some(text) = &self.compare_layout else { return Ok(()) };
        let Compared { graph, function, mesh, layout, options, seed } = *compared;
        let other: Layout = parse("compare-layout", text)?;
        let side = |layout| Side { options: options.clone(), ..Side::new(mesh, layout) };
        let comparing = Comparing { seed, ..Comparing::default() };
        match compare(graph, function, [side(layout), side(&other)], feeds, &comparing)? {
            Some(difference) => Err(difference.to_string().into()),
            None => Ok(print(&format!(
                "layouts {} and {} agree on every operation of `{function}`",
                named(layout),
                named(&other)
            ))?),
        }
    }
}

/// The checkpoint `path`, or the newest whole one in the folder `path`.
fn newest(path: &Path) -> Result<Checkpoint> {
    if path.join("manifest.json").exists() {
        return Ok(Checkpoint::open(path)?);
    }
    let found = Checkpoints::new(path).latest()?;
    found.refused.iter().for_each(|refused| remark(&format!("warning: {}", refused.error)));
    found.checkpoint.ok_or_else(|| "there is no whole checkpoint".into())
}

//! The flags that training programs share.

use crate::backend::BackendFlags;
use crate::planning::of_file;
use clap::ValueEnum;
use mesh_core::lower::{Explain, Module};
use mesh_core::passes::Machine;
use std::ops::Range;
use std::path::PathBuf;

/// The flags for checkpoints, output files and finding errors.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Running")]
pub struct RunFlags {
    /// A file of the machine, as in `machines/`, that passes and `--layout auto` choose for. By default a
    /// host's cores.
    #[arg(long, value_name = "FILE", value_parser = of_file)]
    pub(super) machine: Option<Machine>,

    /// Save variables and where the run is to this folder, and go on from the newest checkpoint in it:
    /// after Ctrl-C, a crash or a kill the same command goes on, also on another mesh.
    #[arg(long, value_name = "DIR")]
    pub(super) checkpoints: Option<PathBuf>,

    /// Steps between two checkpoints; one is saved at the end, too.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "checkpoints")]
    pub(super) checkpoint_every: u64,

    /// How many of the newest checkpoints are kept.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "checkpoints")]
    pub(super) keep_last: usize,

    /// Keep those at multiples of so many steps as well.
    #[arg(long, value_name = "N", requires = "checkpoints")]
    pub(super) keep_every: Option<u64>,

    /// Keep the checkpoint of the best evaluation as well, and end with its variables.
    #[arg(long, requires = "checkpoints")]
    pub(super) keep_best: bool,

    /// Begin with the variables of a checkpoint of another run: its folder, or a folder of them.
    #[arg(long, value_name = "DIR")]
    pub(super) restore_from: Option<PathBuf>,

    /// Only those variables in whose names this regular expression is found.
    #[arg(long, value_name = "REGEX", requires = "restore_from")]
    pub(super) restore_matching: Option<String>,

    /// Write metrics as JSON lines to this file: one a step, one an evaluation.
    #[arg(long, value_name = "FILE")]
    pub(super) metrics: Option<PathBuf>,

    /// Write metrics to this folder for TensorBoard.
    #[arg(long, value_name = "DIR")]
    pub(super) events: Option<PathBuf>,

    /// Write a page about the run when it ends: curves, times, traffic, the layout drawn.
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,

    /// Write what each processor does in some steps, for Perfetto (ui.perfetto.dev).
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// Which steps: from A up to, not including, B. By default the third to the fifth of this process.
    #[arg(long, value_name = "A..B", requires = "trace", value_parser = steps)]
    pub(super) trace_steps: Option<Range<u64>>,

    /// Stop at the first NaN or infinity and say where it was made. Slower.
    #[arg(long)]
    pub(super) check_numerics: bool,

    /// Show these tensors after each step: names of operations, as --explain has them; `*` stands for
    /// anything. Scalars are metrics from then on.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(super) dump: Vec<String>,

    /// Make one step, of gradient descent with momentum, under this layout and under that of the run,
    /// name the first operation on whose result they differ, and stop.
    #[arg(long, value_name = "LAYOUT")]
    pub(super) compare_layout: Option<String>,

    /// What runs the model.
    #[command(flatten)]
    pub backend: BackendFlags,
}

/// How much is printed of what processors would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Detail {
    /// A page: totals, memory, the dearest operations, what is repeated or uneven.
    Page,
    /// The page, every operation, and the kernels of convolutions.
    Full,
    /// The variables: where they lie and what they take.
    Variables,
}

impl Detail {
    /// The text.
    pub fn text(self, module: &Module, explain: &Explain) -> String {
        match self {
            Self::Page => explain.to_string(),
            Self::Full => format!("{explain}\n{}", explain.listing()),
            Self::Variables => module.summary().to_string(),
        }
    }
}

impl RunFlags {
    /// Refuses values that no run can have.
    pub fn check(&self) -> Result<(), String> {
        let counts = [
            ("checkpoint-every", self.checkpoint_every),
            ("keep-last", self.keep_last as u64),
            ("keep-every", self.keep_every.unwrap_or(1)),
        ];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((flag, _)) => Err(format!("--{flag} 0: legal are 1 or more")),
            None => Ok(()),
        }
    }

    /// The names of operations to probe besides those that the model probes.
    pub fn probes(&self) -> Vec<String> {
        self.dump.clone()
    }

    /// Whether checkpoints are saved.
    pub fn keeps(&self) -> bool {
        self.checkpoints.is_some()
    }

    /// Whether layouts are compared instead of training.
    pub fn compares(&self) -> bool {
        self.compare_layout.is_some()
    }
}

/// The text of a flag's value.
pub fn word(value: impl clap::ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// `A..B`, not empty, from 1.
fn steps(text: &str) -> Result<Range<u64>, String> {
    let numbers = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    let steps = numbers.filter(|steps: &Range<u64>| steps.start >= 1 && !steps.is_empty());
    steps.ok_or_else(|| "legal are two steps, from 1, the second one greater: 10..13".to_owned())
}

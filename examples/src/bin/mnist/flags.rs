//! Command line of `mnist`.

use clap::{Parser, ValueEnum};
use examples::models::mnist::{Model, Sizes};
use examples::optimizer::Method;
use examples::running::{Detail, RunFlags, word};
use mesh_core::names::DType;
use mesh_optimize::CrossDeviceOps;
use std::path::PathBuf;

/// Trains a digit classifier on any mesh of processors.
///
/// Without --data it trains on digits drawn by a seeded generator; nothing is downloaded.
#[derive(Parser, Debug)]
#[command(name = "mnist", version)]
pub(crate) struct Flags {
    /// Processors as a grid: `rows:2;cols:2`. By default `all:n`, n the largest divisor of the batch
    /// that is not above the number of cores. `auto:4` finds the mesh, and the layout, of four.
    #[arg(long)]
    pub(crate) mesh: Option<String>,

    /// How dims are split over mesh axes: `batch:rows;hidden1:cols`. By default `batch:all` with the
    /// default mesh, else nothing is split.
    #[arg(long)]
    pub(crate) layout: Option<String>,

    /// A strategy by its name in tf.distribute, in place of a mesh and a layout: `one_device`,
    /// `mirrored:2`, `multi_worker:2x2`, `tpu:2x2`, `central_storage:2`, `parameter_server:2` or
    /// `parameter_server:2;staleness:1`.
    #[arg(long, conflicts_with_all = ["mesh", "layout"])]
    pub(crate) strategy: Option<String>,

    /// How sums over processors are made: `direct`, `ring`, `hierarchical` or `reduce_to_one`. By
    /// default as the strategy says, else direct.
    #[arg(long)]
    pub(crate) cross_device_ops: Option<CrossDeviceOps>,

    /// Another layout for evaluation, over the same variables. By default that of training.
    #[arg(long)]
    pub(crate) eval_layout: Option<String>,

    /// Treat warnings about the layout as errors.
    #[arg(long)]
    pub(crate) strict: bool,

    /// What is trained.
    #[arg(long, value_enum, default_value_t = Model::Conv)]
    pub(crate) model: Model,

    /// Size of the hidden layers; not of `linear`, which has none.
    #[arg(long, default_value_t = 512)]
    pub(crate) hidden: usize,

    /// Filters of each convolution; of `conv` only.
    #[arg(long, default_value_t = 16)]
    pub(crate) filters: usize,

    /// How it is trained.
    #[arg(long, value_enum, default_value_t = Method::named("adafactor"))]
    pub(crate) optimizer: Method,

    /// A JSON or TOML file that names the optimizer, its rate and clipping: `opt_name`, `lr`,
    /// `lr_decay`, `warmup_steps`, `gradient_clipping`, ... (see mesh_optimize's OptimizerConfig).
    #[arg(long, conflicts_with_all = ["optimizer", "lr", "weight_decay"])]
    pub(crate) config: Option<PathBuf>,

    /// Step size. By default the optimizer's usual one (docs/optimizers.md): 0.001 for adam, Adafactor's own
    /// schedule for adafactor.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) lr: Option<f64>,

    /// Weight decay, of optimizers that have it; by default the optimizer's own, which is none for adam.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) weight_decay: Option<f64>,

    /// What is computed in.
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub(crate) dtype: Precision,

    /// Examples a step, over all processors.
    #[arg(long, default_value_t = 200)]
    pub(crate) batch: usize,

    /// Passes over the training data.
    #[arg(long, default_value_t = 6)]
    pub(crate) epochs: usize,

    /// Stop after this many steps; by default after all epochs.
    #[arg(long)]
    pub(crate) steps: Option<u64>,

    /// Determines initial values, the order of examples and the generated digits.
    #[arg(long, default_value_t = 3)]
    pub(crate) seed: u64,

    /// A directory with MNIST's IDX files, raw or gzip. By default digits are generated.
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,

    /// Print what each processor would do, and stop.
    #[arg(long, value_enum, value_name = "DETAIL", num_args = 0..=1, default_missing_value = "page")]
    pub(crate) explain: Option<Detail>,

    /// Print as well what the compiler of --plugin says of devices that need not be here: of TPUs `v5e:4x4`.
    #[arg(long, value_name = "NAME", requires = "explain")]
    pub(crate) topology: Option<String>,

    /// Write the graph in Graphviz' DOT language to this file, and stop.
    #[arg(long)]
    pub(crate) dot: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) run: RunFlags,
}

/// A bound for the size of a layer, beyond the memory of any machine.
const LARGEST: usize = 1 << 20;

/// A bound for the batch, beyond any data set that can be read.
const LARGEST_BATCH: usize = 1 << 24;

impl Flags {
    /// Refuses values that no run can have.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { batch, lr, weight_decay, .. } = *self;
        if !(1..=LARGEST_BATCH).contains(&batch) {
            return Err(format!("--batch {batch}: legal are 1 to {LARGEST_BATCH}"));
        }
        for (flag, size) in [("hidden", self.hidden), ("filters", self.filters)] {
            if !(1..=LARGEST).contains(&size) {
                return Err(format!("--{flag} {size}: legal are 1 to {LARGEST}"));
            }
        }
        if self.epochs == 0 {
            return Err("--epochs 0: nothing would be trained; legal are 1 or more".to_owned());
        }
        if self.steps == Some(0) {
            return Err("--steps 0: nothing would be trained; legal are 1 or more".to_owned());
        }
        self.run.check()?;
        self.optimizer.check(lr, weight_decay)
    }

    /// What the model is made of.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            model: self.model,
            batch: self.batch,
            hidden: self.hidden,
            filters: self.filters,
            wide: self.dtype.wide(),
            activations: self.dtype.activations(),
        }
    }

    /// The settings that a resumed run must have in common with the run before.
    pub(crate) fn settings(&self) -> [(&'static str, String); 7] {
        // The keys of a configuration file are settings of their own.
        let by_file = self.config.as_ref().map(|_| "that of --config".to_owned());
        let optimizer = by_file.unwrap_or_else(|| word(self.optimizer));
        [
            ("model", word(self.model)),
            ("optimizer", optimizer),
            ("lr", self.lr.map_or("its own".to_owned(), |lr| lr.to_string())),
            (
                "weight-decay",
                self.weight_decay.map_or("its own".to_owned(), |decay| decay.to_string()),
            ),
            ("dtype", word(self.dtype)),
            ("batch", self.batch.to_string()),
            ("data", if self.data.is_some() { "files" } else { "generated" }.to_owned()),
        ]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Precision {
    /// 32-bit floats.
    F32,
    /// 64-bit floats: images, parameters, activations, gradients and the optimizer's state.
    F64,
    /// The upper half of 32-bit floats for activations; parameters and sums are f32.
    Bf16,
}

impl Precision {
    /// The dtype of images, parameters and losses.
    pub(crate) fn wide(self) -> DType {
        match self {
            Self::F64 => DType::F64,
            Self::F32 | Self::Bf16 => DType::F32,
        }
    }

    /// The dtype of activations.
    pub(crate) fn activations(self) -> DType {
        match self {
            Self::Bf16 => DType::BF16,
            Self::F32 | Self::F64 => self.wide(),
        }
    }
}

//! Makes a session and its batches from flags.

use super::initial::{self, Batch};
use super::models::{self, LM, Transformer};
use super::workload::{Workload, named};
use examples::backend::BackendFlags;
use examples::launch::parse;
use examples::running::{Attention, Exchange};
use mesh_core::lower::Target;
use mesh_ops::prelude::*;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// What is trained, and where.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// The model, its batch and its optimizer.
    #[arg(long, value_enum)]
    pub(crate) workload: Workload,

    /// What the layout is called in results. One of single, dp2, dp4, dp2z (state of the optimizer
    /// is split), dp2o (it is one processor's, in turn), mp2, mp4, dp2mp2, sp2, sp4 says mesh and layout, unless --mesh does.
    #[arg(long, default_value = "single")]
    pub(crate) name: String,

    /// Processors as a grid: `all:2`.
    #[arg(long)]
    mesh: Option<String>,

    /// How dims are split over mesh axes: `batch:all`.
    #[arg(long)]
    layout: Option<String>,

    /// The folder that `examples/bench/initial.py` wrote the peers' initial values and batches to.
    /// By default there are others of the same distributions.
    #[arg(long)]
    init: Option<PathBuf>,

    /// How long to measure.
    #[arg(long, default_value_t = 4.0)]
    pub(crate) seconds: f64,

    /// Make so many steps and measure nothing: for tools that watch.
    #[arg(long)]
    pub(crate) steps: Option<usize>,

    #[command(flatten)]
    pub(crate) sizes: Sizes,

    /// What makes the steps.
    #[command(flatten)]
    backend: BackendFlags,
}

/// Sizes of the language model, where they are not the workload's.
#[derive(clap::Args, Debug)]
pub(crate) struct Sizes {
    /// Positions of a sequence.
    #[arg(long, default_value_t = LM.length)]
    sequence: usize,

    /// Sequences of a step.
    #[arg(long, default_value_t = LM.batch)]
    batch: usize,

    /// Different tokens.
    #[arg(long, default_value_t = LM.vocab)]
    vocab: usize,

    /// Heads of attention, which divide the width.
    #[arg(long, default_value_t = LM.heads)]
    heads: usize,

    /// Size of the vectors between layers; of the hidden ones it is four times this.
    #[arg(long, default_value_t = LM.d_model)]
    width: usize,

    /// Number of layers.
    #[arg(long, default_value_t = LM.layers)]
    depth: usize,

    /// How attention is computed.
    #[arg(long, value_enum, default_value_t = Attention::Auto)]
    attention: Attention,

    /// How processors that share the length meet each other's keys and values.
    #[arg(long, value_enum, default_value_t = Exchange::Auto)]
    exchange: Exchange,

    /// Loop over layers with one compiled body instead of writing them out.
    #[arg(long)]
    scan: bool,

    /// Compute layers again for their gradients.
    #[arg(long)]
    recompute: bool,
}

impl Sizes {
    /// The language model of these sizes.
    pub(crate) fn lm(&self) -> Result<Transformer, String> {
        let &Self { sequence: length, batch, vocab, heads, width, depth, scan, recompute, .. } =
            self;
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(format!("--heads {heads}: heads share the width {width} evenly"));
        }
        let (d_model, d_ff) = (width, 4 * width);
        let (layers, attention) = (depth, self.attention.way());
        let exchange = self.exchange.over("heads");
        Ok(Transformer {
            batch,
            length,
            d_model,
            d_ff,
            heads,
            layers,
            vocab,
            attention,
            exchange,
            scan,
            recompute,
        })
    }
}

/// A training step, ready to run.
pub(crate) struct Setup {
    pub(crate) module: Module,
    pub(crate) session: Session,
    train: Function<2, 1>,
    batches: Vec<Batch>,
    loss: [Array; 1],
    pub(crate) graph_s: f64,
    pub(crate) lowering_s: f64,
    pub(crate) session_s: f64,
}

impl Flags {
    pub(crate) fn setup(&self) -> Result<Setup, Box<dyn Error>> {
        let (mesh, layout) = self.mesh_and_layout()?;
        let started = Instant::now();
        let graph = mesh_ops::graph();
        let sizes = self.sizes.lm()?;
        let train = models::build(&graph, self.workload, &sizes);
        let graph_s = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let module = graph.lower(&mesh, &layout)?;
        let lowering_s = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let mut session = self.backend.session(&module, 0, Target::host())?;
        let session_s = started.elapsed().as_secs_f64();
        let feeds = module.function(train.name()).map(|function| &function.feeds[..]);
        let Some([input, target]) = feeds else { return Err("two inputs are fed".into()) };
        let shapes = [&input.shape[..], &target.shape[..]];
        let batches = match &self.init {
            Some(folder) => initial::read(folder, self.workload, &module, &mut session, shapes)?,
            None => initial::draw(self.workload, sizes.vocab, shapes),
        };
        let loss = [Array::from(0f32)];
        Ok(Setup { module, session, train, batches, loss, graph_s, lowering_s, session_s })
    }

    fn mesh_and_layout(&self) -> Result<(Mesh, Layout), Box<dyn Error>> {
        let (mesh, layout) = match (&self.mesh, named(&self.name)) {
            (None, Some(named)) => named,
            (Some(mesh), _) => (mesh.clone(), String::new()),
            (None, None) => {
                return Err(format!("--name {}: it says no mesh; give --mesh", self.name).into());
            }
        };
        let layout = self.layout.clone().unwrap_or(layout);
        Ok((parse("mesh", &mesh)?, parse("layout", &layout)?))
    }
}

impl Setup {
    /// Makes a step on the batch of this number and returns the loss.
    pub(crate) fn step(&mut self, number: usize) -> Result<f64, Box<dyn Error>> {
        let Batch { input, target } = &self.batches[number % self.batches.len()];
        let feeds = [input.view(), target.view()];
        self.session.call_into(&self.train, feeds, &mut self.loss)?;
        Ok(self.loss[0].item().unwrap_or(f64::NAN))
    }
}

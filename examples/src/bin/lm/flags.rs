//! Command line of `lm`.

use clap::{Parser, ValueEnum};
use examples::models::lm::Sizes;
use examples::optimizer::Method;
use examples::running::{Attention, Detail, Exchange, RunFlags, word};
use mesh_core::names::DType;
use std::path::PathBuf;

/// Trains a language model of bytes, or of tokens, on any mesh of processors, and lets it write.
///
/// Dims: batch, length, memory_length (the positions that are looked at), d_model, heads, kv, d_ff,
/// vocab, layers.
#[derive(Parser, Debug)]
#[command(name = "lm", version)]
pub(crate) struct Flags {
    /// The text; its last tenth is held out. By default small tales told by a grammar.
    #[arg(long)]
    pub(crate) text: Option<PathBuf>,

    /// A file of tokens instead, as llm.c writes them (a header of 256 little-endian i32: 20240520, 1,
    /// the number of tokens; then tokens of 16 bits), plain or gzip; its last tenth is held out. What
    /// is said of bytes below is then of tokens.
    #[arg(long, conflicts_with = "text", requires = "vocab")]
    pub(crate) tokens: Option<PathBuf>,

    /// How many different tokens there are: 50257 for GPT-2's.
    #[arg(long, requires = "tokens")]
    pub(crate) vocab: Option<usize>,

    /// Processors as a grid: `data:2;model:2`. By default `all:n`, n the largest divisor of the batch
    /// that is not above the number of cores. `auto:4` finds the mesh, and the layout, of four.
    #[arg(long)]
    pub(crate) mesh: Option<String>,

    /// How dims are split over mesh axes: `batch:data`, `heads:model;d_ff:model;vocab:model`,
    /// `length:data`, ... By default `batch:all` with the default mesh, else nothing is split.
    #[arg(long)]
    pub(crate) layout: Option<String>,

    /// Treat warnings about the layout as errors.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Size of the vectors between layers.
    #[arg(long, default_value_t = 128)]
    pub(crate) width: usize,

    /// Number of layers.
    #[arg(long, default_value_t = 4)]
    pub(crate) depth: usize,

    /// Heads of attention, which divide the width.
    #[arg(long, default_value_t = 4)]
    pub(crate) heads: usize,

    /// Size of the hidden vectors of feed-forward layers. By default four times the width.
    #[arg(long)]
    pub(crate) hidden: Option<usize>,

    /// Bytes that are looked at together.
    #[arg(long, default_value_t = 128)]
    pub(crate) sequence: usize,

    /// How attention is computed.
    #[arg(long, value_enum, default_value_t = Attention::Auto)]
    pub(crate) attention: Attention,

    /// How processors that share the length meet each other's keys and values.
    #[arg(long, value_enum, default_value_t = Exchange::Auto)]
    pub(crate) exchange: Exchange,

    /// What is computed in.
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub(crate) dtype: Precision,

    /// Sequences a step, over all processors.
    #[arg(long, default_value_t = 8)]
    pub(crate) batch: usize,

    /// How it is trained.
    #[arg(long, value_enum, default_value_t = Method::named("adam"))]
    pub(crate) optimizer: Method,

    /// Largest step size: it grows from 0 over the first --warmup steps and falls to a tenth along a
    /// cosine. By default 0.5 for sgd, 0.003 for adam, 0.01 for adafactor, for others their usual one
    /// (docs/optimizers.md).
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) lr: Option<f64>,

    /// Steps over which the step size grows.
    #[arg(long, default_value_t = 100)]
    pub(crate) warmup: u64,

    /// Weight decay, of optimizers that have it. By default 0.1 for adam, for others their own.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) weight_decay: Option<f64>,

    /// Steps of training.
    #[arg(long, default_value_t = 1500)]
    pub(crate) steps: u64,

    /// Determines initial values, the windows that are trained on and the sample.
    #[arg(long, default_value_t = 3)]
    pub(crate) seed: u64,

    /// Loop over layers with one compiled body instead of writing them out.
    #[arg(long)]
    pub(crate) scan: bool,

    /// Keep nothing within a layer for its gradient, but compute it again: less memory, more time.
    #[arg(long)]
    pub(crate) recompute: bool,

    /// Evaluate on a part of the held-out text every so many steps. By default at the end only.
    #[arg(long)]
    pub(crate) eval_every: Option<u64>,

    /// Bytes to write after training; 0 for none.
    #[arg(long, default_value_t = 400)]
    pub(crate) sample: usize,

    /// What the sample goes on from. By default the end of a line; with --tokens numbers of tokens
    /// separated by spaces, by default the file's first.
    #[arg(long)]
    pub(crate) prompt: Option<String>,

    /// The sample is drawn from probabilities to the power of 1 / temperature, made to add up to 1;
    /// at 0 the likeliest byte is taken.
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    pub(crate) temperature: f64,

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

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Precision {
    /// 32-bit floats.
    F32,
    /// 64-bit floats: parameters, activations, gradients and the optimizer's state.
    F64,
}

impl Precision {
    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F64 => DType::F64,
        }
    }
}

/// Values of a byte.
pub(crate) const BYTES: usize = 256;

/// Values of a token of 16 bits.
const MOST_TOKENS: usize = 1 << 16;

/// A bound for sizes and counts, beyond those of any real run.
const LARGEST: usize = 1 << 24;

/// A bound for the number of layers; without --scan the graph has all of them.
const DEEPEST: usize = 1 << 12;

impl Flags {
    /// Refuses values that no run can have.
    pub(crate) fn check(&self) -> Result<(), String> {
        let hidden = self.hidden();
        let sizes = [
            ("width", self.width, LARGEST),
            ("depth", self.depth, DEEPEST),
            ("heads", self.heads, LARGEST),
            ("hidden", hidden, LARGEST),
            ("sequence", self.sequence, LARGEST),
            ("batch", self.batch, LARGEST),
        ];
        for (flag, size, most) in sizes {
            if !(1..=most).contains(&size) {
                return Err(format!("--{flag} {size}: legal are 1 to {most}"));
            }
        }
        if self.sample > LARGEST {
            return Err(format!("--sample {}: legal are 0 to {LARGEST}", self.sample));
        }
        let Self { width, heads, temperature, .. } = *self;
        if !width.is_multiple_of(2 * heads) {
            return Err(format!(
                "--heads {heads}: heads share the width {width}, an even number each; legal are {}",
                legal_heads(width)
            ));
        }
        if self.steps == 0 {
            return Err("--steps 0: nothing would be trained; legal are 1 or more".to_owned());
        }
        if self.eval_every == Some(0) {
            return Err("--eval-every 0: legal are 1 or more".to_owned());
        }
        if !(1..=MOST_TOKENS).contains(&self.vocab()) {
            return Err(format!("--vocab {}: legal are 1 to {MOST_TOKENS}", self.vocab()));
        }
        self.prompt_tokens()?;
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return Err(format!("--temperature {temperature}: legal are 0 or a positive number"));
        }
        self.run.check()?;
        self.optimizer.check(self.lr, self.decay())
    }

    /// The settings that a resumed run must have in common with the run before.
    pub(crate) fn settings(&self) -> [(&'static str, String); 8] {
        let text = match (&self.text, &self.tokens) {
            (Some(_), _) => "a text",
            (None, Some(_)) => "tokens",
            (None, None) => "tales",
        };
        [
            ("optimizer", word(self.optimizer)),
            ("lr", self.peak().to_string()),
            ("warmup", self.warmup.to_string()),
            ("weight-decay", self.decay().map_or("its own".to_owned(), |decay| decay.to_string())),
            ("dtype", word(self.dtype)),
            ("batch", self.batch.to_string()),
            ("sequence", self.sequence.to_string()),
            ("data", text.to_owned()),
        ]
    }

    /// What the model is made of, for a length in so many parts, if it divides so: each processor has a piece of
    /// positions from the beginning and one from the end. Where heads are split in its place, work is equal without.
    pub(crate) fn sizes(&self, parts: usize) -> Sizes {
        let deals = parts > 1 && self.exchange != Exchange::Heads;
        let pieces = deals.then_some(2 * parts);
        let pieces = pieces.filter(|pieces| self.sequence.is_multiple_of(*pieces));
        Sizes {
            pieces,
            batch: self.batch,
            sequence: self.sequence,
            width: self.width,
            heads: self.heads,
            hidden: self.hidden(),
            depth: self.depth,
            vocab: self.vocab(),
            scan: self.scan,
            recompute: self.recompute,
            attention: self.attention.way(),
            exchange: self.exchange.over("heads"),
            dtype: self.dtype.dtype(),
        }
    }

    /// The size of the vocabulary.
    pub(crate) fn vocab(&self) -> usize {
        self.vocab.unwrap_or(BYTES)
    }

    /// The tokens before the sample; `None` stands for the first token of the text.
    pub(crate) fn prompt_tokens(&self) -> Result<Option<Vec<usize>>, String> {
        let tokens: Vec<usize> = match (&self.prompt, &self.tokens) {
            (None, None) => vec![usize::from(b'\n')],
            (None, Some(_)) => return Ok(None),
            (Some(text), None) => text.bytes().map(usize::from).collect(),
            (Some(text), Some(_)) => {
                let token = |word: &str| match word.parse() {
                    Ok(token) if token < self.vocab() => Ok(token),
                    _ => Err(format!(
                        "--prompt: {word:?} is no token; legal are numbers below {}",
                        self.vocab()
                    )),
                };
                text.split_whitespace().map(token).collect::<Result<_, _>>()?
            }
        };
        if self.sample > 0 && tokens.is_empty() {
            return Err("--prompt: a sample needs at least a token to go on from".to_owned());
        }
        Ok(Some(tokens))
    }

    /// Size of hidden vectors.
    pub(crate) fn hidden(&self) -> usize {
        self.hidden.unwrap_or(self.width.saturating_mul(4))
    }

    /// The largest step size.
    pub(crate) fn peak(&self) -> f64 {
        self.lr.unwrap_or(match self.optimizer.name() {
            "sgd" => 0.5,
            "adam" => 0.003,
            _ => self.optimizer.usual_number(),
        })
    }

    /// Weight decay; `None` is the optimizer's own.
    pub(crate) fn decay(&self) -> Option<f64> {
        self.weight_decay.or((self.optimizer.name() == "adam").then_some(0.1))
    }
}

/// Numbers of heads for a width, as text.
fn legal_heads(width: usize) -> String {
    let legal: Vec<_> = (1..=width / 2).filter(|n| width.is_multiple_of(2 * n)).collect();
    match legal.as_slice() {
        [] => "none: make the width even".to_owned(),
        all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

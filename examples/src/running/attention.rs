//! How attention is computed.

use clap::ValueEnum;
use mesh_ops::attention;
use mesh_ops::attention::Blocks;
use mesh_ops::layers::attention::AttentionWay;

/// How attention is computed: the results are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Attention {
    /// In blocks where that is cheaper: for long sequences.
    Auto,
    /// All scores at once, which are kept for the gradient.
    Plain,
    /// Block by block: no tensor has a score for each pair of positions.
    Blocks,
}

impl Attention {
    /// For layers.
    pub fn way(self) -> AttentionWay {
        match self {
            Self::Auto => AttentionWay::Auto,
            Self::Plain => AttentionWay::Plain,
            Self::Blocks => AttentionWay::Blocks(Blocks::default()),
        }
    }
}

/// How processors that share the length meet each other's keys and values: the results are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Exchange {
    /// Gathered for short sequences, in a ring for long ones.
    Auto,
    /// Each processor has all of them.
    Gather,
    /// They go round.
    Ring,
    /// All-to-alls split heads in place of the length within attention.
    Heads,
}

impl Exchange {
    /// For layers whose heads have the dim `heads`.
    pub fn over(self, heads: &str) -> attention::Exchange {
        match self {
            Self::Auto => attention::Exchange::Auto,
            Self::Gather => attention::Exchange::Gather,
            Self::Ring => attention::Exchange::Ring,
            Self::Heads => attention::Exchange::AllToAll(heads.into()),
        }
    }
}

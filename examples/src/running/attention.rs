//! How attention is computed.

use clap::ValueEnum;
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

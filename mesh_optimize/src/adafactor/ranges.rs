//! The ranges of Adafactor's options.
//!
//! tensor2tensor asks that the decay lie between 1 - 1/(t+1) and 1. Its own defaults satisfy that
//! at the first step alone, where it says: from 0 to below 1. That is the range checked here, at
//! any step.

use super::{Adafactor, Decay};
use crate::options::{BELOW_1, BITS, FROM_0, FROM_1, TO_1, in_range};
use mesh_core::graph::Graph;

impl Adafactor {
    /// Whether every option is in its range. Records an error for each that is not.
    #[track_caller]
    pub(super) fn in_range(&self, graph: &Graph) -> bool {
        let mut options = vec![
            ("beta1", self.beta1, TO_1),
            ("epsilon1", self.epsilon1, FROM_0),
            ("epsilon2", self.epsilon2, FROM_0),
        ];
        options.extend(self.clipping_threshold.map(|x| ("clipping_threshold", x, FROM_1)));
        options.extend(self.quantize_bits.map(|bits| ("quantize_bits", f64::from(bits), BITS)));
        options.extend(match &self.decay {
            Decay::Pow { exponent, .. } => Some(("decay exponent", *exponent, TO_1)),
            Decay::Adam { beta2 } => Some(("decay beta2", *beta2, BELOW_1)),
            Decay::Constant(decay) => Some(("decay", *decay, BELOW_1)),
            Decay::OfStep(decay) => decay.constant().map(|decay| ("decay", decay, BELOW_1)),
        });
        in_range(graph, "adafactor", &options)
    }
}

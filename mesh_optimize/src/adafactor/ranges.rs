//! The ranges of Adafactor's options.
//!
//! tensor2tensor asks that the decay lie between 1 - 1/(t+1) and 1. Its own defaults satisfy that
//! at the first step alone, where it says: from 0 to below 1. That is the range checked here, at
//! any step.

use super::{Adafactor, Decay};
use crate::Schedule;
use crate::options::{BELOW_1, BITS, FROM_0, FROM_1, TO_1, in_range};
use mesh_core::graph::Graph;

impl Adafactor {
    /// Whether every option is in its range. Records an error for each that is not.
    #[track_caller]
    pub(super) fn in_range(&self, graph: &Graph) -> bool {
        let (name, decay) = match &self.decay {
            Decay::Pow { exponent, .. } => ("decay exponent", (Some(*exponent), TO_1)),
            Decay::Adam { beta2 } => ("decay beta2", (Some(*beta2), BELOW_1)),
            Decay::Given(decay) => ("decay", (decay.constant(), BELOW_1)),
        };
        let threshold = self.clipping_threshold.as_ref().and_then(Schedule::constant);
        let options = [
            ("beta1", (self.beta1.constant(), TO_1)),
            ("epsilon1", (self.epsilon1.constant(), FROM_0)),
            ("epsilon2", (self.epsilon2.constant(), FROM_0)),
            ("clipping_threshold", (threshold, FROM_1)),
            ("quantize_bits", (self.quantize_bits.map(f64::from), BITS)),
            (name, decay),
        ];
        let known = options.into_iter().filter_map(|(name, (x, range))| Some((name, x?, range)));
        in_range(graph, "adafactor", &known.collect::<Vec<_>>())
    }
}

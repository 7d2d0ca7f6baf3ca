//! The ranges of Adafactor's options.
//!
//! tensor2tensor asks that the decay lie between 1 - 1/(t+1) and 1. Its own defaults satisfy that
//! at the first step alone, where it says: from 0 to below 1. That is the range checked here, at
//! any step.

use super::{Adafactor, Decay};
use crate::pattern::record_once;
use mesh_core::graph::Graph;

impl Adafactor {
    /// Whether every option is in its range. Records an error for each that is not.
    #[track_caller]
    pub(super) fn in_range(&self, graph: &Graph) -> bool {
        let mut legal = true;
        for (option, value, ok, range) in self.checks() {
            if !ok {
                let message = format!("{option} is {value}; legal is {range}");
                record_once(graph, "adafactor", message);
                legal = false;
            }
        }
        legal
    }

    /// For each option: its name, its value, whether the value is legal, and the legal range in
    /// words.
    fn checks(&self) -> Vec<(&'static str, f64, bool, &'static str)> {
        let epsilon = |name, x: f64| (name, x, x >= 0.0 && x.is_finite(), "a number from 0 on");
        let mut checks = vec![
            ("beta1", self.beta1, (0.0..=1.0).contains(&self.beta1), "a number from 0 to 1"),
            epsilon("epsilon1", self.epsilon1),
            epsilon("epsilon2", self.epsilon2),
        ];
        if let Some(x) = self.clipping_threshold {
            checks.push(("clipping_threshold", x, x >= 1.0, "a number from 1 on, or none"));
        }
        if let Some(bits) = self.quantize_bits {
            let range = "a whole number from 2 to 22, or none";
            checks.push(("quantize_bits", f64::from(bits), (2..=22).contains(&bits), range));
        }
        let below = |x: f64| (0.0..1.0).contains(&x);
        checks.extend(match self.decay {
            Decay::Pow { exponent: x, .. } => {
                Some(("decay exponent", x, (0.0..=1.0).contains(&x), "a number from 0 to 1"))
            }
            Decay::Adam { beta2: x } => {
                Some(("decay beta2", x, below(x), "a number from 0 to below 1"))
            }
            Decay::Constant(x) => Some(("decay", x, below(x), "a number from 0 to below 1")),
            Decay::OfStep(_) => None,
        });
        checks
    }
}

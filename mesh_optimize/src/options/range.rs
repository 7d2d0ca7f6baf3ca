//! What numbers an optimizer's options may be: said once, for structs and for configurations.

use mesh_core::graph::Graph;

/// A range of finite numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The legal numbers in words.
    pub(crate) legal: &'static str,
    least: f64,
    /// The largest, or what they are below.
    most: f64,
    below: bool,
}

/// Weights of decay, small numbers that are added.
pub(crate) const FROM_0: Range =
    Range { legal: "a number from 0 on", least: 0.0, most: f64::MAX, below: false };
/// Fractions of the old that are kept, where all of it may be.
pub(crate) const TO_1: Range =
    Range { legal: "a number from 0 to 1", least: 0.0, most: 1.0, below: false };
/// Fractions of the old that are kept, where something new must come.
pub(crate) const BELOW_1: Range =
    Range { legal: "a number from 0 to below 1", least: 0.0, most: 1.0, below: true };
/// Divisors that are fractions.
pub(crate) const ABOVE_0_TO_1: Range =
    Range { legal: "a number above 0, to 1", least: f64::MIN_POSITIVE, most: 1.0, below: false };
/// Scales.
pub(crate) const ABOVE_0: Range =
    Range { legal: "a number above 0", least: f64::MIN_POSITIVE, most: f64::MAX, below: false };
/// Thresholds of updates that are about 1.
pub(crate) const FROM_1: Range =
    Range { legal: "a number from 1 on, or none", least: 1.0, most: f64::MAX, below: false };
/// Factors that do not make smaller.
pub(crate) const LEAST_1: Range =
    Range { legal: "a number from 1 on", least: 1.0, most: f64::MAX, below: false };
/// Lengths of averages of which the variance exists.
pub(crate) const FROM_4: Range =
    Range { legal: "a number from 4 on", least: 4.0, most: f64::MAX, below: false };
/// Widths of quantized numbers.
pub(crate) const BITS: Range =
    Range { legal: "a whole number from 2 to 22, or none", least: 2.0, most: 22.0, below: false };
/// Numbers of calls or steps.
pub(crate) const COUNT: Range = Range {
    legal: "a whole number from 1 to 2147483647",
    least: 1.0,
    most: i32::MAX as f64,
    below: false,
};
/// Numbers of calls that may be none.
pub(crate) const COUNT_FROM_0: Range = Range {
    legal: "a whole number from 0 to below 2147483647",
    least: 0.0,
    most: i32::MAX as f64,
    below: true,
};

impl Range {
    pub(crate) fn holds(&self, x: f64) -> bool {
        x >= self.least && if self.below { x < self.most } else { x <= self.most }
    }
}

/// Whether every option, by name, is in its range. Records an error for each that is not.
#[track_caller]
pub(crate) fn in_range(graph: &Graph, optimizer: &str, options: &[(&str, f64, Range)]) -> bool {
    let wrong = options.iter().filter(|(_, value, range)| !range.holds(*value));
    let mut legal = true;
    for (option, value, range) in wrong {
        graph.record(optimizer, format!("{option} is {value}; legal is {}", range.legal));
        legal = false;
    }
    legal
}

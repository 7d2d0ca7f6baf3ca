//! What a [`Step::Generate`](super::Step::Generate) makes.

use super::Scalar;
use crate::array::Array;
use std::sync::Arc;

/// Where a generated value's elements come from. Positions are global, so slices agree under every
/// layout.
///
/// Random numbers are Philox4x32-10 with the element's position in declared order as counter. The
/// block's key is made of the session's seed, the generator's key, and the step's salts. StableHLO
/// spells them as integer arithmetic on iotas.
#[derive(Clone, PartialEq, Debug)]
pub enum Generator {
    /// Every element the same.
    Fill(Scalar),
    /// The global index along one dim.
    Iota(u8),
    /// A slice of data known when the program was made; global shape.
    Table(Arc<Array>),
    /// Uniform in `[low, high)`; of i32, every whole number there.
    Uniform {
        /// Hash of the unique name of what is generated.
        key: u64,
        /// Least value.
        low: f64,
        /// Bound above.
        high: f64,
    },
    /// Normal, by inverse CDF.
    Normal {
        /// Hash of the unique name of what is generated.
        key: u64,
        /// Mean.
        mean: f64,
        /// Standard deviation.
        stddev: f64,
    },
    /// Normal, cut at two standard deviations, by inverse CDF.
    TruncatedNormal {
        /// Hash of the unique name of what is generated.
        key: u64,
        /// Mean before cutting.
        mean: f64,
        /// Standard deviation before cutting.
        stddev: f64,
    },
}

impl Generator {
    /// The key of random numbers; `None` where nothing is random.
    pub fn key(&self) -> Option<u64> {
        match *self {
            Self::Fill(_) | Self::Iota(_) | Self::Table(_) => None,
            Self::Uniform { key, .. }
            | Self::Normal { key, .. }
            | Self::TruncatedNormal { key, .. } => Some(key),
        }
    }
}

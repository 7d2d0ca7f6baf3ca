//! How a sum over processors is made, by the names of tf.distribute.

use std::fmt;
use std::str::FromStr;

/// How processors sum what each of them holds. The algorithm fixes the order of summation, so that
/// results are the same in every run; between algorithms they agree to rounding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CrossDeviceOps {
    /// Every processor folds the values of all, in their order.
    #[default]
    Direct,
    /// Parts travel around a ring and are added to on the way.
    Ring,
    /// Along one mesh axis after the other, the last first.
    Hierarchical,
    /// One processor folds the values of all, and sends the result back.
    ReduceToOne,
}

impl CrossDeviceOps {
    /// Every one there is.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Ring, Self::Hierarchical, Self::ReduceToOne];

    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Ring => "ring",
            Self::Hierarchical => "hierarchical",
            Self::ReduceToOne => "reduce_to_one",
        }
    }
}

impl fmt::Display for CrossDeviceOps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no way of summing has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no way to sum: legal are direct, ring, hierarchical and reduce_to_one")]
pub struct UnknownCrossDeviceOps(String);

impl FromStr for CrossDeviceOps {
    type Err = UnknownCrossDeviceOps;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|ops| ops.name() == text.trim());
        found.ok_or_else(|| UnknownCrossDeviceOps(text.to_owned()))
    }
}

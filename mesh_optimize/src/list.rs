//! The list of optimizers.

use crate::delayed::Staleness;
use crate::options::Entry;
use crate::{
    Accumulate, AdEmaMix, AdaBelief, Adadelta, Adafactor, Adagrad, AdamW, AdamWeightDecay, Adamax,
    Adan, Adopt, AmsGrad, Ema, Lamb, Lars, Lion, Lookahead, Momentum, Muon, NAdam, NovoGrad,
    Prodigy, RAdam, RmsProp, Rprop, Sam, ScheduleFree, Sgd, Shampoo, SignSgd, Signum,
    SkipNotFinite, Sm3, Soap, Sophia, Yogi,
};

/// A line for each optimizer that has a name in configurations, in the order of docs/optimizers.md: first
/// those that stand alone, then those that are around others.
macro_rules! optimizers {
    ($($optimizer:ty),* $(,)?; $($wrapper:ty),* $(,)?) => {
        static OPTIMIZERS: &[Entry] = &[$(Entry::of::<$optimizer>(),)* $(Entry::around::<$wrapper>(),)*];
    };
}

optimizers! {
    Sgd, Momentum, SignSgd, Signum, Rprop, Adagrad, Adadelta, RmsProp, AdamWeightDecay, AdamW, Adamax, AmsGrad, NAdam, RAdam, AdaBelief, Yogi, Adan, AdEmaMix, Adopt, Lion, Sophia, Lars, Lamb, NovoGrad, Sm3, Adafactor, Prodigy, Muon, Shampoo, Soap;
    Staleness, Ema<()>, Lookahead<()>, ScheduleFree<()>, Sam<()>, SkipNotFinite<()>, Accumulate<()>,
}

/// Every optimizer that has a name in configurations.
///
/// ```
/// let adamw = mesh_optimize::optimizers().iter().find(|entry| entry.name() == "adamw").unwrap();
/// assert!(adamw.about().paper.contains("Loshchilov"));
/// let decay = adamw.options().into_iter().find(|option| option.name == "weight_decay").unwrap();
/// assert_eq!(decay.default, "0.01");
/// assert_eq!(decay.legal, "a number from 0 on, or `{from, to, steps}` of such");
/// ```
pub fn optimizers() -> &'static [Entry] {
    OPTIMIZERS
}

//! What an optimizer says of itself, once: its name in configurations, its formula and source, and its
//! options with their ranges. Configurations, the checks of options, docs/optimizers.md, the flags of
//! programs and the tests that go through all optimizers read it.
//!
//! `entry.rs` is an optimizer in the list of all, `setting.rs` one of its options, `range.rs` what numbers
//! may be, `keys.rs` takes options from a configuration.

mod entry;
mod error;
mod keys;
mod range;
mod setting;

pub use entry::{About, Entry, OptionAbout};
pub use error::ConfigError;

pub(crate) use entry::{Listed, Prototype, Wrapper, check, check_wrapper, rate_field};
pub(crate) use keys::{Keys, list};
pub(crate) use range::{
    ABOVE_0, ABOVE_0_TO_1, BELOW_1, BITS, COUNT, COUNT_FROM_0, FROM_0, FROM_1, FROM_4, LEAST_1,
    Range, TO_1, in_range,
};
pub(crate) use setting::{Field, Setting, decayed_settings, settings};

//! The ops that are the framework's own: no mathematics in here.

mod barrier;
mod constant;
mod custom;
mod input;
mod probe;
mod read;
mod recompute;
mod relayout;
mod rounds;
mod stop_gradient;
mod update;

pub(crate) use barrier::Barrier;
pub(crate) use constant::{Constant, Fill};
pub(crate) use custom::Custom;
pub(crate) use input::Input;
pub(crate) use probe::Probe;
pub(crate) use read::Read;
pub(crate) use recompute::Recompute;
pub(crate) use relayout::Relayout;
pub(crate) use rounds::{Loop, Param};
pub(crate) use stop_gradient::StopGradient;
pub(crate) use update::{Update, UpdateKind};

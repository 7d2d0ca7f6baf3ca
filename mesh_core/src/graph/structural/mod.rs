//! The ops that are the framework's own: no mathematics in here.

mod constant;
mod input;
mod read;
mod relayout;
mod stop_gradient;
mod update;

pub(crate) use constant::{Constant, Fill};
pub(crate) use input::Input;
pub(crate) use read::Read;
pub(crate) use relayout::Relayout;
pub(crate) use stop_gradient::StopGradient;
pub(crate) use update::{Update, UpdateKind};

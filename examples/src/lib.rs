//! What the example programs share.

pub mod data;
mod files;
pub mod launch;
pub mod optimizer;
pub mod ranks;
pub mod report;
mod rng;
pub mod running;
pub mod text;

pub use files::ReadAt;
pub use rng::Rng;

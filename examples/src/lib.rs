//! What the example programs share.

pub mod backend;
pub mod data;
pub mod launch;
pub mod models;
pub mod optimizer;
pub mod planning;
pub mod ranks;
pub mod report;
mod rng;
pub mod running;
pub mod text;

pub use rng::Rng;

//! What the example programs share.

pub mod data;
pub mod launch;

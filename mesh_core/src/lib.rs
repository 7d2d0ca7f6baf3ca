//! Mesh core.
pub mod array;
mod exec;
pub mod names;
pub mod program;

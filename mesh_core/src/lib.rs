//! Mesh core.
pub mod array;
pub mod names;
pub mod program;

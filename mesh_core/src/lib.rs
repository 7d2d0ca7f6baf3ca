//! Models over named dimensions: the words, the graph, its lowering, and the executor.

pub mod array;
pub mod exec;
pub mod names;
pub mod program;

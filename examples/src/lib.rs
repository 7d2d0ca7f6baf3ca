//! examples.

pub mod data;

//! Tests of the whole system; see `tests/tests/`.
//!
//! The README's program is compiled here, as a doc test, and so are those of `docs/`.
#![doc = include_str!("../../README.md")]

#[doc = include_str!("../../docs/layouts.md")]
pub mod layouts {}

#[doc = include_str!("../../docs/program.md")]
pub mod program {}

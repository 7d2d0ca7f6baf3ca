//! Tests of the whole system; see `tests/tests/`.
//!
//! The README's program is compiled here, as a doc test.
#![doc = include_str!("../../README.md")]

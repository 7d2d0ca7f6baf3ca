//! Deliberate mistakes: the check that a right op or program passes must find each of them.

mod attended;
mod lookups;
mod masked;
mod ops;
mod programs;

use mesh_ops::testing::Case;

/// Asserts that a case fails with these words.
#[track_caller]
fn caught(case: &Case, phrase: &str) {
    let message = case.check().expect_err("a fault that must be caught");
    assert!(message.contains(phrase), "{message}");
}

//! Mistakes, made on purpose: each must be caught by the check that a right op or program passes.

mod lookups;
mod masked;
mod ops;
mod programs;

use mesh_ops::testing::Case;

/// That a case fails, with these words.
#[track_caller]
fn caught(case: &Case, phrase: &str) {
    let message = case.check().expect_err("a fault that must be caught");
    assert!(message.contains(phrase), "{message}");
}

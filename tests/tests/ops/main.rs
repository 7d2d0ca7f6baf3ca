//! Ops and layers beyond conformance: accuracy, dtypes, exact numbers, errors.

mod accuracy;
mod broadcasting;
mod convolutions;
mod dtypes;
mod evaluator;
mod gradients;
mod random;
mod scalars;
mod user_op;
mod wrong_dims;

//! What ops and layers give beyond what conformance compares: accuracy, dtypes, exact numbers, refusals.

mod accuracy;
mod convolutions;
mod dtypes;
mod gradients;
mod random;
mod scalars;
mod user_op;
mod wrong_dims;

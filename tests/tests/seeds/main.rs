//! What this project grew from, row by row: a test for each feature of TensorFlow's wrappers.

mod cross_shard;
mod distribute;
mod guides;

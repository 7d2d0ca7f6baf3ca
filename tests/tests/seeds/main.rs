//! One test for each feature of what this project grew from: a question on `CrossShardOptimizer`, that
//! wrapper, tensor2tensor's Adafactor, tf.distribute's strategies.

mod adafactor;
mod cross_shard;
mod distribute;
mod guides;
mod question;

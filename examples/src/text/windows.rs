//! Batches of windows of a text.

use super::Text;
use crate::Rng;
use mesh_optimize::dataset::{Dataset, DatasetError, Remainder};

/// The stream of random numbers for windows, apart from other uses of a seed.
const STREAM: u64 = 0x5749_4e44;

/// The arrays of a batch: tokens, and those that follow them.
const NAMES: [&str; 2] = ["bytes", "following"];

impl Text {
    /// Training batches: `bytes` and `following`, both `[batch, length]`, of windows that begin
    /// anywhere.
    ///
    /// A pass has as many batches as windows side by side would fill. Batch `i` of pass `p` is that
    /// of step `p * cardinality + i + 1`; it depends only on this number and the seed.
    pub fn batches(&self, batch: usize, length: usize, seed: u64) -> Result<Dataset, DatasetError> {
        let windows = self.train.windows(length, NAMES);
        let size = self.train.len();
        let steps = (size / (batch as u64).saturating_mul(length as u64).max(1)).max(1);
        let order = move |pass: u64| {
            let first = pass.wrapping_mul(steps).wrapping_add(1);
            (first..first.saturating_add(steps))
                .flat_map(move |step| random_starts(size, length, batch, seed, step))
        };
        let examples = steps.saturating_mul(batch as u64);
        Dataset::sampled(windows, examples, order).batch(batch, Remainder::Drop)
    }

    /// The number of windows that [`held_out_batches`](Self::held_out_batches) has.
    pub fn held_out_windows(&self, length: usize, most: usize) -> usize {
        even_starts(self.held_out.len(), length, most).len()
    }

    /// Evaluation batches: at most `most` windows of the held-out part that do not overlap, in
    /// order, as in [`batches`](Self::batches). `weight`, `[batch]`, is 0 for the copies of windows
    /// that fill up the last batch.
    pub fn held_out_batches(
        &self,
        batch: usize,
        length: usize,
        most: usize,
    ) -> Result<Dataset, DatasetError> {
        let windows = self.held_out.windows(length, NAMES);
        let starts = even_starts(self.held_out.len(), length, most);
        let count = starts.len() as u64;
        Dataset::sampled(windows, count, move |_| starts.clone()).batch_weighted(batch, "weight")
    }
}

/// The beginnings of a step's windows: anywhere in a text of `size`, drawn from the seed and the
/// step.
pub(super) fn random_starts(
    size: u64,
    length: usize,
    batch: usize,
    seed: u64,
    step: u64,
) -> impl Iterator<Item = u64> {
    let mut rng = Rng::keyed(seed, STREAM, step);
    let places = size.saturating_sub(length as u64);
    (0..batch).map(move |_| rng.below_u64(places))
}

/// The beginnings of at most `most` windows that do not overlap and are spread evenly over a text
/// of `size`.
pub(super) fn even_starts(
    size: u64,
    length: usize,
    most: usize,
) -> impl ExactSizeIterator<Item = u64> + Clone + Send + use<> {
    let windows = size.saturating_sub(1) / (length as u64).max(1);
    let count = usize::try_from(windows).map_or(most, |windows| windows.min(most));
    (0..count)
        .map(move |i| (i as u128 * u128::from(windows) / count as u128) as u64 * length as u64)
}

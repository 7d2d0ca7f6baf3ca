//! Batches of windows of a text.

use super::{Text, Tokens};
use crate::Rng;
use mesh_optimize::dataset::{Dataset, DatasetError, Record, Remainder, Source};
use ndarray::Array2;

/// The stream of random numbers for windows, apart from other uses of a seed.
const STREAM: u64 = 0x5749_4e44;

/// Windows of one length, by their first tokens. With each token goes the one that follows it.
struct Windows {
    tokens: Tokens,
    length: usize,
}

impl Source for Windows {
    fn examples(&self) -> u64 {
        self.tokens.len().saturating_sub(self.length as u64)
    }

    fn read(&self, rows: &[u64]) -> Result<Record, DatasetError> {
        let size = rows.len() * self.length;
        let (mut these, mut following) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for &start in rows {
            let window = self.tokens.read(start, self.length + 1);
            let window = window.map_err(|error| error.to_string())?;
            these.extend_from_slice(&window[..self.length]);
            following.extend_from_slice(&window[1..]);
        }
        let array = |tokens| {
            let array = Array2::from_shape_vec((rows.len(), self.length), tokens);
            array.map_err(|error| error.to_string())
        };
        Record::new([("bytes", array(these)?.into()), ("following", array(following)?.into())])
    }
}

impl Text {
    /// Training batches: `bytes` and `following`, both `[batch, length]`, of windows that begin
    /// anywhere.
    ///
    /// A pass has as many batches as windows side by side would fill. Batch `i` of pass `p` is that
    /// of step `p * cardinality + i + 1`; it depends only on this number and the seed.
    pub fn batches(&self, batch: usize, length: usize, seed: u64) -> Result<Dataset, DatasetError> {
        let windows = Windows { tokens: self.train.clone(), length };
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
        let windows = Windows { tokens: self.held_out.clone(), length };
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

//! Histograms with TensorFlow's default buckets (`tensorflow/core/lib/histogram/histogram.cc`).

use super::wire;

/// The limits of buckets, and the counts of one histogram at a time. Bucket `i` counts the numbers
/// below limit `i` and not below limit `i - 1`.
#[derive(Debug)]
pub(super) struct Buckets {
    limits: Vec<f64>,
    counts: Vec<f64>,
}

impl Buckets {
    /// The limits: 0, numbers from 1e-12 to 1e20, each a tenth larger than the one before, and the
    /// same numbers negated.
    pub(super) fn new() -> Self {
        let grown = std::iter::successors(Some(1e-12), |limit| Some(limit * 1.1));
        let above: Vec<f64> = grown.take_while(|limit| *limit < 1e20).chain([f64::MAX]).collect();
        let below = above.iter().rev().map(|limit| -limit);
        let limits: Vec<f64> = below.chain([0.0]).chain(above.iter().copied()).collect();
        Self { counts: vec![0.0; limits.len()], limits }
    }

    /// Adds the fields of a `HistogramProto` (`summary.proto`): `min` 1, `max` 2, `num` 3, `sum` 4,
    /// `sum_squares` 5, `bucket_limit` 6, `bucket` 7. Returns how many numbers were left out
    /// because they are not finite.
    pub(super) fn histogram(
        &mut self,
        values: impl Iterator<Item = f64>,
        out: &mut Vec<u8>,
    ) -> usize {
        self.counts.fill(0.0);
        let (mut least, mut most) = (f64::MAX, f64::MIN);
        let (mut number, mut sum, mut squares, mut not_finite) = (0.0, 0.0, 0.0, 0);
        for value in values {
            if !value.is_finite() {
                not_finite += 1;
                continue;
            }
            // The largest f64 belongs to the last bucket, although it is not below the last limit.
            let bucket = self.limits.partition_point(|limit| *limit <= value);
            self.counts[bucket.min(self.limits.len() - 1)] += 1.0;
            (least, most) = (value.min(least), value.max(most));
            (number, sum, squares) = (number + 1.0, sum + value, squares + value * value);
        }
        if number == 0.0 {
            (least, most) = (0.0, 0.0);
        }
        for (field, value) in [(1, least), (2, most), (3, number), (4, sum), (5, squares)] {
            wire::double(out, field, value);
        }
        let shown = self.shown();
        wire::doubles(out, 6, shown.iter().map(|&bucket| self.limits[bucket]));
        wire::doubles(out, 7, shown.iter().map(|&bucket| self.counts[bucket]));
        not_finite
    }

    /// The buckets to write. Of neighbouring empty buckets only the last is written.
    fn shown(&self) -> Vec<usize> {
        let empty = |bucket: usize| self.counts.get(bucket).is_none_or(|count| *count == 0.0);
        let last = self.counts.len() - 1;
        (0..=last).filter(|&i| !empty(i) || i == last || !empty(i + 1)).collect()
    }
}

//! Batches of a fixed size: shuffled for training, padded for evaluation.

use ndarray::{Array1, Array3, Axis};

use super::{DataError, Split};
use crate::Rng;

/// Keeps the shuffles apart from the generated examples of the same seed.
const STREAM: u64 = 0x5348_5546;

/// An endless stream of batches of example indices, each epoch in an order of its own.
///
/// The order of an epoch depends on the seed and the epoch only. The examples that do not fill a
/// last batch sit the epoch out.
#[derive(Clone, Debug)]
pub struct Batches {
    order: Vec<usize>,
    /// The epoch that `order` is of.
    epoch: Option<u64>,
    batch: usize,
    step: u64,
    seed: u64,
}

impl Batches {
    /// Batches of `batch` of the examples `0..examples`.
    pub fn new(examples: usize, batch: usize, seed: u64) -> Result<Self, DataError> {
        if batch == 0 || batch > examples {
            return Err(DataError::BatchSize { batch, examples });
        }
        Ok(Self { order: (0..examples).collect(), epoch: None, batch, step: 0, seed })
    }

    /// The number of batches in an epoch.
    pub fn per_epoch(&self) -> usize {
        self.order.len() / self.batch
    }

    /// How many batches precede the next one.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The epoch, counted from 0, that the next batch belongs to.
    pub fn epoch(&self) -> u64 {
        self.step / self.per_epoch() as u64
    }

    /// Goes to the batch that `step` others precede, as a resumed run does.
    pub fn seek(&mut self, step: u64) {
        self.step = step;
    }

    /// The indices of the next batch.
    pub fn next_batch(&mut self) -> &[usize] {
        let epoch = self.epoch();
        if self.epoch != Some(epoch) {
            for (place, index) in self.order.iter_mut().enumerate() {
                *index = place;
            }
            Rng::keyed(self.seed, STREAM, epoch).shuffle(&mut self.order);
            self.epoch = Some(epoch);
        }
        let start = (self.step % self.per_epoch() as u64) as usize * self.batch;
        self.step = self.step.wrapping_add(1);
        &self.order[start..start + self.batch]
    }
}

impl Split {
    /// Copies the examples `indices` into `images`, `[indices.len(), 28, 28]`, and `labels`,
    /// `[indices.len()]`.
    pub fn gather(
        &self,
        indices: &[usize],
        images: &mut Array3<f32>,
        labels: &mut Array1<i32>,
    ) -> Result<(), DataError> {
        self.copy(indices.iter().copied(), indices.len(), images, labels)
    }

    /// Divides the examples, in order, into batches of `batch`: for each the first example and how
    /// many there are (fewer than `batch` only in the last). A `batch` of 0 is taken as 1.
    pub fn padded_batches(&self, batch: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (examples, batch) = (self.len(), batch.max(1));
        (0..examples).step_by(batch).map(move |start| (start, batch.min(examples - start)))
    }

    /// Copies the `valid` examples from `start` on, repeated until the arrays are full.
    ///
    /// `weights` is 1 for each example's first copy and 0 for the repetitions, so weighted sums
    /// over [`padded_batches`](Self::padded_batches) count every example once.
    pub fn gather_padded(
        &self,
        (start, valid): (usize, usize),
        images: &mut Array3<f32>,
        labels: &mut Array1<i32>,
        weights: &mut Array1<f32>,
    ) -> Result<(), DataError> {
        let batch = weights.len();
        if valid > batch {
            expect_shape("weights", &[batch], &[valid])?;
        }
        let places = (0..batch).map(|place| start.saturating_add(place % valid.max(1)));
        self.copy(places, batch, images, labels)?;
        for (place, weight) in weights.iter_mut().enumerate() {
            *weight = if place < valid { 1.0 } else { 0.0 };
        }
        Ok(())
    }

    fn copy(
        &self,
        indices: impl Iterator<Item = usize> + Clone,
        count: usize,
        images: &mut Array3<f32>,
        labels: &mut Array1<i32>,
    ) -> Result<(), DataError> {
        let (_, rows, columns) = self.images.dim();
        expect_shape("images", images.shape(), &[count, rows, columns])?;
        expect_shape("labels", labels.shape(), &[count])?;
        let examples = self.len();
        if let Some(index) = indices.clone().find(|&index| index >= examples) {
            return Err(DataError::Index { index, examples });
        }
        let slots = images.outer_iter_mut().zip(labels.iter_mut());
        for ((mut image, label), index) in slots.zip(indices) {
            image.assign(&self.images.index_axis(Axis(0), index));
            *label = self.labels[index];
        }
        Ok(())
    }
}

fn expect_shape(what: &'static str, found: &[usize], legal: &[usize]) -> Result<(), DataError> {
    if found == legal {
        return Ok(());
    }
    Err(DataError::BufferShape { what, found: found.to_vec(), legal: legal.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Digits;

    #[test]
    fn an_epoch_shows_no_example_twice_and_epochs_differ() {
        let mut batches = Batches::new(23, 5, 1).unwrap();
        assert_eq!(batches.per_epoch(), 4);
        let mut epochs = Vec::new();
        for epoch in 0..3 {
            assert_eq!(batches.epoch(), epoch);
            let shown: Vec<usize> = (0..4).flat_map(|_| batches.next_batch().to_vec()).collect();
            let mut sorted = shown.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 20);
            assert!(sorted.iter().all(|&index| index < 23));
            assert!(!epochs.contains(&shown));
            epochs.push(shown);
        }
    }

    #[test]
    fn a_sought_step_is_the_step_that_was_reached() {
        let mut reached = Batches::new(23, 5, 8).unwrap();
        let mut sought = reached.clone();
        for _ in 0..6 {
            reached.next_batch();
        }
        sought.seek(reached.step());
        assert_eq!(sought.next_batch(), reached.next_batch());
        assert_ne!(Batches::new(23, 5, 9).unwrap().next_batch(), {
            reached.seek(0);
            reached.next_batch()
        });
    }

    #[test]
    fn impossible_batch_sizes_are_refused() {
        assert!(Batches::new(10, 10, 0).is_ok());
        for (examples, batch) in [(10, 0), (10, 11), (0, 0), (0, 1)] {
            let said = Batches::new(examples, batch, 0).unwrap_err().to_string();
            assert!(said.contains("a batch of"), "{said}");
        }
    }

    #[test]
    fn gather_copies_the_examples_named() {
        let split = Digits::generate(1, 12, 0).train;
        let (mut images, mut labels) = (Array3::zeros((3, 28, 28)), Array1::zeros(3));
        split.gather(&[7, 0, 7], &mut images, &mut labels).unwrap();
        for (place, index) in [7, 0, 7].into_iter().enumerate() {
            assert_eq!(images.index_axis(Axis(0), place), split.images.index_axis(Axis(0), index));
            assert_eq!(labels[place], split.labels[index]);
        }
        let said = split.gather(&[7, 12, 7], &mut images, &mut labels).unwrap_err().to_string();
        assert!(said.contains("example 12 of 12"), "{said}");
        let said = split.gather(&[7, 1], &mut images, &mut labels).unwrap_err().to_string();
        assert!(said.contains("images has shape [3, 28, 28]; legal is [2, 28, 28]"), "{said}");
    }

    #[test]
    fn padded_batches_count_every_example_once() {
        let split = Digits::generate(1, 11, 0).train;
        for batch in [1, 4, 11, 30] {
            let (mut images, mut labels) = (Array3::zeros((batch, 28, 28)), Array1::zeros(batch));
            let mut weights = Array1::zeros(batch);
            let (mut ink, mut count) = (0.0, 0.0);
            for part in split.padded_batches(batch) {
                split.gather_padded(part, &mut images, &mut labels, &mut weights).unwrap();
                for (image, weight) in images.outer_iter().zip(&weights) {
                    ink += image.sum() * weight;
                    count += weight;
                }
                assert_eq!(labels[part.1 - 1], split.labels[part.0 + part.1 - 1]);
            }
            assert_eq!(count, 11.0);
            assert!((ink - split.images.sum()).abs() < 0.01 * ink);
        }
        assert_eq!(split.padded_batches(0).count(), 11);

        let (mut images, mut labels) = (Array3::zeros((2, 28, 28)), Array1::zeros(2));
        let mut weights = Array1::ones(2);
        let mut gather = |part| split.gather_padded(part, &mut images, &mut labels, &mut weights);
        let said = gather((0, 3)).unwrap_err().to_string();
        assert!(said.contains("weights has shape [2]; legal is [3]"), "{said}");
        assert!(gather((usize::MAX, 2)).is_err());
        gather((4, 0)).unwrap();
        assert_eq!(weights.sum(), 0.0);
    }
}

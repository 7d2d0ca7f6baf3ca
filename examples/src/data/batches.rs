//! Batches of a fixed size: shuffled for training, padded for evaluation.

use std::sync::Arc;

use mesh_optimize::dataset::{Dataset, DatasetError, Record, Remainder, Source};
use ndarray::{Array1, ArrayD};

use super::{DataError, PIXELS, Split};
use crate::Rng;

/// The stream of random numbers for shuffles, apart from the generated examples of the same seed.
const STREAM: u64 = 0x5348_5546;

/// The examples of a split, `image` and `label`, each image in dims of its own.
struct Examples {
    split: Arc<Split>,
    dims: Vec<usize>,
}

impl Source for Examples {
    fn examples(&self) -> u64 {
        self.split.len() as u64
    }

    fn read(&self, rows: &[u64]) -> Result<Record, DatasetError> {
        let (pixels, labels) = self.split.read(rows).map_err(|error| error.to_string())?;
        let dims = [&[rows.len()], &self.dims[..]].concat();
        let images = ArrayD::from_shape_vec(dims, pixels).map_err(|error| error.to_string())?;
        Record::new([("image", images.into()), ("label", Array1::from(labels).into())])
    }
}

impl Split {
    fn examples(self: &Arc<Self>, dims: &[usize]) -> Result<Examples, DataError> {
        let size = dims.iter().try_fold(1_usize, |size, &dim| size.checked_mul(dim));
        if size != Some(PIXELS) {
            return Err(DataError::ImageDims { dims: dims.to_vec() });
        }
        Ok(Examples { split: self.clone(), dims: dims.to_vec() })
    }

    /// Training batches: `image`, `[batch, dims...]`, and `label`, `[batch]`.
    ///
    /// A pass is an epoch. Its order depends only on the seed and on the number of the pass.
    /// Examples that do not fill a last batch are left out in this epoch.
    pub fn batches(
        self: &Arc<Self>,
        dims: &[usize],
        batch: usize,
        seed: u64,
    ) -> Result<Dataset, DataError> {
        let examples = self.len();
        if batch == 0 || batch > examples {
            return Err(DataError::BatchSize { batch, examples });
        }
        let order = move |epoch| {
            // No file declares more examples than that.
            let mut order: Vec<_> = (0..u32::try_from(examples).unwrap_or(u32::MAX)).collect();
            Rng::keyed(seed, STREAM, epoch).shuffle(&mut order);
            order.into_iter().map(u64::from)
        };
        let shuffled = Dataset::sampled(self.examples(dims)?, examples as u64, order);
        Ok(shuffled.batch(batch, Remainder::Drop)?)
    }

    /// Evaluation batches: every example in order, as in [`batches`](Self::batches), and `weight`,
    /// `[batch]`, which is 0 for the copies of examples that fill up the last batch.
    pub fn weighted_batches(
        self: &Arc<Self>,
        dims: &[usize],
        batch: usize,
    ) -> Result<Dataset, DataError> {
        Ok(Dataset::from_source(self.examples(dims)?).batch_weighted(batch, "weight")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Digits;
    use crate::data::generate::Drawn;
    use ndarray::{Array2, Axis};

    /// A split in which label and first pixel of an example are its number.
    fn numbered(examples: usize) -> Arc<Split> {
        let mut pixels = vec![0.0; examples * PIXELS];
        for (index, image) in pixels.chunks_mut(PIXELS).enumerate() {
            image[0] = index as f32;
        }
        Arc::new(Split::new(Drawn { pixels, labels: (0..examples as i32).collect() }))
    }

    fn labels(record: Result<Record, DatasetError>) -> Vec<i32> {
        record.unwrap().get("label").unwrap().as_i32().unwrap().iter().copied().collect()
    }

    #[test]
    fn an_epoch_shows_no_example_twice_and_epochs_differ() {
        let batches = numbered(23).batches(&[784], 5, 1).unwrap();
        assert_eq!(batches.cardinality(), Some(4));
        let mut epochs = Vec::new();
        for epoch in 0..3 {
            let shown: Vec<_> = batches.pass(epoch).flat_map(labels).collect();
            let mut sorted = shown.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 20);
            assert!(!epochs.contains(&shown));
            epochs.push(shown);
        }
        let late: Vec<_> = batches.skip(3).pass(2).flat_map(labels).collect();
        assert_eq!(late, epochs[2][15..]);
        let other: Vec<_> =
            numbered(23).batches(&[784], 5, 2).unwrap().pass(0).flat_map(labels).collect();
        assert_ne!(other, epochs[0]);
    }

    #[test]
    fn orders_are_the_same_for_ever() {
        let batches = numbered(10).batches(&[784], 10, 3).unwrap();
        assert_eq!(labels(batches.pass(0).next().unwrap()), ORDERS[0]);
        assert_eq!(labels(batches.pass(7).next().unwrap()), ORDERS[1]);
    }

    /// The orders of ten examples with seed 3 in epochs 0 and 7: the algorithm of Fisher and Yates
    /// with SplitMix64, computed by another program.
    const ORDERS: [[i32; 10]; 2] = [[3, 4, 5, 2, 1, 6, 7, 9, 0, 8], [3, 9, 7, 2, 8, 1, 6, 0, 5, 4]];

    #[test]
    fn impossible_batch_sizes_and_dims_are_refused() {
        assert!(numbered(10).batches(&[28, 28], 10, 0).is_ok());
        for (examples, batch) in [(10, 0), (10, 11), (0, 0), (0, 1)] {
            let said = numbered(examples).batches(&[784], batch, 0).unwrap_err().to_string();
            assert!(said.contains("a batch of"), "{said}");
        }
        for dims in [&[][..], &[783], &[28, 28, 2], &[0], &[usize::MAX, 2]] {
            let said = numbered(3).weighted_batches(dims, 2).unwrap_err().to_string();
            assert!(said.contains("must be 784"), "{said}");
        }
        assert!(numbered(3).weighted_batches(&[784], 0).is_err());
    }

    #[test]
    fn images_go_with_their_labels_in_any_dims() {
        for dims in [&[784][..], &[28, 28], &[4, 7, 4, 7]] {
            for record in numbered(20).batches(dims, 6, 4).unwrap().pass(1) {
                let record = record.unwrap();
                let image = record.get("image").unwrap().as_f32().unwrap();
                assert_eq!(image.shape()[1..], *dims);
                let first =
                    image.to_shape((6, 784)).unwrap().index_axis(Axis(1), 0).mapv(|p| p as i32);
                assert_eq!(first.into_raw_vec_and_offset().0, labels(Ok(record)));
            }
        }
    }

    #[test]
    fn weighted_batches_count_every_example_once() {
        let split = Digits::generate(1, 11, 0).train;
        for batch in [1, 4, 11, 30] {
            let (mut ink, mut count) = (0.0, 0.0);
            for record in &split.weighted_batches(&[784], batch).unwrap() {
                let record = record.unwrap();
                let images: Array2<f32> = record
                    .get("image")
                    .unwrap()
                    .as_f32()
                    .unwrap()
                    .clone()
                    .into_dimensionality()
                    .unwrap();
                let weights = record.get("weight").unwrap().as_f32().unwrap();
                for (image, weight) in images.outer_iter().zip(weights) {
                    ink += image.sum() * weight;
                    count += weight;
                }
            }
            assert_eq!(count, 11.0);
            let all: Vec<_> = (0..11).collect();
            let drawn: f32 = split.read(&all).unwrap().0.iter().sum();
            assert!((ink - drawn).abs() < 0.01 * ink);
        }
    }
}

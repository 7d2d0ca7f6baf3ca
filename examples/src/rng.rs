//! Random numbers outside of graphs: SplitMix64, the same on every platform and in every release.

use mesh_core::array::Array;

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of random numbers, named by a key.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `(seed, stream, index)`; distinct keys give unrelated streams.
    pub fn keyed(seed: u64, stream: u64, index: u64) -> Self {
        Self([stream, index].into_iter().fold(mix(seed), |key, part| mix(key ^ mix(part))))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A whole number in `0..bound`, or 0 where `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.below_u64(bound as u64) as usize
    }

    /// [`below`](Self::below) for bounds that do not fit into `usize`.
    pub fn below_u64(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A multiple of 2⁻²⁴ in `0.0..1.0`.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u32 << 24) as f32
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// A number in `-reach..reach`.
    pub fn around_zero(&mut self, reach: f32) -> f32 {
        self.between(-reach, reach)
    }

    /// A byte, drawn by the softmax of its logits times `sharpness`.
    pub fn byte(&mut self, logits: &Array, sharpness: f64) -> u8 {
        let logits = logits.to_f64();
        let most = logits.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = logits.iter().map(|x| ((x - most) * sharpness).exp()).collect();
        let mut left = f64::from(self.unit()) * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        chosen.and_then(|byte| u8::try_from(byte).ok()).unwrap_or(b' ')
    }

    /// Puts `items` in a random order (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last + 1);
            items.swap(last, chosen);
        }
    }
}

/// SplitMix64's finaliser, offset so that 0 is no fixed point.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(STEP);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_key_matters() {
        let first = |seed, stream, index| Rng::keyed(seed, stream, index).next();
        let draws =
            [first(1, 2, 3), first(2, 2, 3), first(1, 3, 3), first(1, 2, 4), first(1, 3, 2)];
        for (place, draw) in draws.iter().enumerate() {
            assert!(!draws[..place].contains(draw), "key {place} repeats an earlier stream");
        }
        assert_eq!(draws[0], first(1, 2, 3));
    }

    #[test]
    fn bounded_draws_stay_in_bounds_and_reach_them() {
        let mut rng = Rng::keyed(7, 0, 0);
        let mut seen = [0_usize; 10];
        for _ in 0..10_000 {
            seen[rng.below(10)] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}

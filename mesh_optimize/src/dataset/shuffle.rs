//! Random order from a seed.

use super::{Record, Records, Result};

/// Numbers from a seed: SplitMix64 (Steele, Lea & Flood 2014, "Fast Splittable Pseudorandom Number
/// Generators").
struct Numbers(u64);

impl Numbers {
    /// Each pass has a sequence of its own.
    fn new(seed: u64, pass: u64) -> Self {
        let start = Self(seed).next();
        Self(start ^ Self(pass).next().rotate_left(17))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, evenly up to 2^-64 times the bound.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// Records drawn from a buffer that is filled up in order.
pub(super) struct Shuffled {
    records: Records,
    buffer: Vec<Record>,
    size: usize,
    numbers: Numbers,
}

impl Shuffled {
    pub(super) fn new(records: Records, size: usize, seed: u64, pass: u64) -> Self {
        Self { records, buffer: Vec::new(), size, numbers: Numbers::new(seed, pass) }
    }
}

impl Iterator for Shuffled {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.buffer.len() < self.size {
            match self.records.next() {
                Some(Ok(record)) => self.buffer.push(record),
                Some(error) => return Some(error),
                None => break,
            }
        }
        if self.buffer.is_empty() {
            return None;
        }
        let drawn = self.numbers.below(self.buffer.len());
        Some(Ok(self.buffer.swap_remove(drawn)))
    }
}

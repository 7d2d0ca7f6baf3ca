//! Random orders from a seed.

use super::unmade::{Unmade, Unmades, upto};

/// Random numbers from a seed: SplitMix64 (Steele, Lea & Flood 2014, "Fast Splittable Pseudorandom
/// Number Generators").
pub(super) struct Numbers(u64);

impl Numbers {
    /// The sequence of one pass.
    pub(super) fn new(seed: u64, pass: u64) -> Self {
        let start = Self(seed).next();
        Self(start ^ Self(pass).next().rotate_left(17))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`. Each is equally likely, to 2^-64 times the bound.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// Draws records from a buffer that is filled up in order.
pub(super) struct Shuffled {
    records: Unmades,
    buffer: Vec<Unmade>,
    size: usize,
    numbers: Numbers,
}

impl Shuffled {
    pub(super) fn new(records: Unmades, size: usize, seed: u64, pass: u64) -> Self {
        Self { records, buffer: Vec::new(), size, numbers: Numbers::new(seed, pass) }
    }
}

impl Iterator for Shuffled {
    type Item = Unmade;

    fn next(&mut self) -> Option<Unmade> {
        let missing = self.size - self.buffer.len();
        self.buffer.append(&mut upto(&mut self.records, missing));
        if self.buffer.is_empty() {
            return None;
        }
        let drawn = self.numbers.below(self.buffer.len());
        Some(self.buffer.swap_remove(drawn))
    }
}

//! Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011).

use super::isa::Task;

/// Ten rounds of the bijection that `key` chooses, applied to `counter`.
#[inline(always)]
pub(super) fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            // Golden ratio and sqrt(3) - 1.
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        let a = u64::from(counter[0]) * 0xd251_1f53;
        let b = u64::from(counter[2]) * 0xcd9e_8d57;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
    }
    counter
}

/// The key of a generator: `mix(seed + mix(key))` with the finalizer of SplitMix64.
pub(super) fn key(seed: u64, key: u64) -> u64 {
    mix(seed.wrapping_add(mix(key)))
}

/// The key of a generator with one more salt: `mix(key + mix(salt))`; salts are extended by zeros.
pub(super) fn salted(key: u64, salt: i32) -> u64 {
    mix(key.wrapping_add(mix(u64::from(salt as u32))))
}

/// The two words of a key, the low one first.
pub(super) fn words(key: u64) -> [u32; 2] {
    [key as u32, (key >> 32) as u32]
}

fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// 64 random bits for the element at a global position; the position is the counter's low half, and
/// the first two words of the block are used, the first as the upper half.
#[inline(always)]
pub(super) fn draw(key: [u32; 2], position: u64) -> u64 {
    let block = philox4x32([position as u32, (position >> 32) as u32, 0, 0], key);
    u64::from(block[0]) << 32 | u64::from(block[1])
}

/// Draws for many positions at once.
pub(super) struct Draws;

/// How many draws [`Draws`] makes.
pub(super) const DRAWS: usize = 64;

impl Task for Draws {
    /// Key, first position, distance of positions.
    type Args = ([u32; 2], u64, u64);
    type Result = [u64; DRAWS];

    #[inline(always)]
    unsafe fn run((key, first, step): Self::Args) -> [u64; DRAWS] {
        let mut draws = [0; DRAWS];
        for (i, to) in draws.iter_mut().enumerate() {
            *to = draw(key, first.wrapping_add(step.wrapping_mul(i as u64)));
        }
        draws
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of Random123 (`kat_vectors`, philox4x32 with 10 rounds).
    #[test]
    fn known_answers() {
        let ones = u32::MAX;
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        assert_eq!(
            philox4x32([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32([ones; 4], [ones; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32(pi, [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn seed_and_key_are_not_interchangeable() {
        assert_ne!(key(1, 2), key(2, 1));
        assert_ne!(key(0, 0), 0);
    }

    #[test]
    fn salts_count_one_by_one_and_in_order() {
        let key = key(1, 2);
        let salted = |salts: &[i32]| salts.iter().copied().fold(key, salted);
        let all = [&[][..], &[0], &[1], &[-1], &[0, 0], &[0, 1], &[1, 0]].map(salted);
        let mut distinct = all.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len());
    }
}

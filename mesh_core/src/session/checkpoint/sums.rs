//! Checksums that are computed in parts.
//!
//! CRC-32C complements its register before the first byte and after the last. In between it is
//! linear: the register of a tensor is the exclusive or of the registers of its parts, where each
//! part has zeros in place of the others' bytes. A run of zeros of any length multiplies the
//! register by a matrix.

use serde::{Deserialize, Serialize};

/// The register of a CRC-32C that started with zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sum(u32);

impl Sum {
    /// The register after these bytes.
    pub(super) fn append(self, bytes: &[u8]) -> Self {
        Self(!crc32c::crc32c_append(!self.0, bytes))
    }

    /// The register after so many zeros.
    pub(super) fn skip(self, zeros: usize) -> Self {
        Self(crc32c::crc32c_combine(self.0, 0, zeros))
    }

    /// The register of two parts of equal length together.
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    /// The CRC-32C of so many bytes.
    pub(super) fn checksum(self, bytes: usize) -> u32 {
        !self.with(Self(!0).skip(bytes)).0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_the_checksum_of_the_catalogue() {
        // The check value of CRC-32C, from catalogues of checksums.
        assert_eq!(Sum::default().append(b"123456789").checksum(9), 0xe306_9283);
        assert_eq!(Sum::default().checksum(0), 0);
        assert_eq!(Sum::default().skip(1 << 40), Sum::default());
    }

    proptest! {
        /// Every byte belongs to one of three parts. Runs of zeros are read or skipped.
        #[test]
        fn parts_make_the_checksum(
            bytes in prop::collection::vec((any::<u8>(), 0..3_u8), 0..300),
            skips in any::<bool>(),
        ) {
            let whole: Vec<_> = bytes.iter().map(|(byte, _)| *byte).collect();
            let part = |owner: u8| bytes.chunk_by(|a, b| a.1 == b.1).fold(Sum::default(), |sum, run| {
                let of: Vec<_> = run.iter().map(|(byte, _)| *byte).collect();
                match run[0].1 == owner {
                    true => sum.append(&of),
                    false if skips => sum.skip(run.len()),
                    false => sum.append(&vec![0; run.len()]),
                }
            });
            let sum = part(0).with(part(1)).with(part(2));
            prop_assert_eq!(sum.checksum(whole.len()), crc32c::crc32c(&whole));
        }
    }
}

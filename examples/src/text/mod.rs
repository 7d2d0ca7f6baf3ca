//! Text as bytes: a file or a generator, windows for training and for evaluation.

mod tales;

use crate::Rng;
use ndarray::{Array2, Axis};
use std::io;
use std::path::{Path, PathBuf};

/// One byte in this many is held out.
const HELD_OUT: usize = 10;

/// Keeps the windows apart from other uses of a seed.
const STREAM: u64 = 0x5749_4e44;

/// A text in two parts.
#[derive(Clone, Debug)]
pub struct Text {
    /// To learn from.
    pub train: Vec<u8>,
    /// To measure by: the last tenth.
    pub held_out: Vec<u8>,
}

/// Why there is no text to train on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The operating system gave up on the file.
    #[error("cannot read {}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// Too little text for the windows asked for.
    #[error(
        "{what} holds {bytes} bytes; a batch of {batch} windows of {length} bytes for training, and \
         one window in the last tenth, need {least}"
    )]
    Short {
        /// The file.
        what: String,
        /// Its size.
        bytes: usize,
        /// Windows a step.
        batch: usize,
        /// Bytes a window.
        length: usize,
        /// The least size that is enough.
        least: usize,
    },
}

impl Text {
    /// A file's bytes.
    pub fn load(file: &Path) -> Result<Self, TextError> {
        let read = std::fs::read(file);
        Ok(Self::divided(read.map_err(|source| TextError::Read { file: file.to_owned(), source })?))
    }

    /// Small tales told by a grammar, the same at every call.
    pub fn tales() -> Self {
        Self::divided(tales::tell())
    }

    fn divided(mut bytes: Vec<u8>) -> Self {
        let held_out = bytes.split_off(bytes.len() - bytes.len() / HELD_OUT);
        Self { train: bytes, held_out }
    }

    /// Refuses a text that is too short for `batch` windows of `length`; `what` names it.
    pub fn check(&self, what: &str, batch: usize, length: usize) -> Result<(), TextError> {
        let window = length.saturating_add(1);
        let trained = batch.saturating_mul(length).saturating_add(1);
        // The held-out part is the total divided by HELD_OUT, rounded down.
        let total = trained.saturating_add((trained - 1) / (HELD_OUT - 1));
        let least = total.max(window.saturating_mul(HELD_OUT));
        let bytes = self.train.len() + self.held_out.len();
        if bytes < least {
            return Err(TextError::Short { what: what.to_owned(), bytes, batch, length, least });
        }
        Ok(())
    }
}

/// Copies windows of `text`, one a row, and for each byte the one that follows it. A window that
/// would leave the text, and rows beyond `starts`, are left as they are.
pub fn copy_windows(
    text: &[u8],
    starts: impl IntoIterator<Item = usize>,
    bytes: &mut Array2<i32>,
    following: &mut Array2<i32>,
) {
    let rows = bytes.axis_iter_mut(Axis(0)).zip(following.axis_iter_mut(Axis(0)));
    for (start, (mut row, mut next)) in starts.into_iter().zip(rows) {
        for (place, pair) in text.get(start..).unwrap_or_default().windows(2).enumerate() {
            let (Some(byte), Some(after)) = (row.get_mut(place), next.get_mut(place)) else {
                break;
            };
            (*byte, *after) = (i32::from(pair[0]), i32::from(pair[1]));
        }
    }
}

/// Where the windows of a step begin: anywhere in a text of `bytes`, by the seed and the step only.
pub fn random_starts(
    bytes: usize,
    length: usize,
    batch: usize,
    seed: u64,
    step: u64,
) -> impl Iterator<Item = usize> {
    let mut rng = Rng::keyed(seed, STREAM, step);
    let places = bytes.saturating_sub(length);
    (0..batch).map(move |_| rng.below(places))
}

/// Where at most `most` windows begin that do not overlap, spread evenly over a text of `bytes`.
pub fn even_starts(
    bytes: usize,
    length: usize,
    most: usize,
) -> impl ExactSizeIterator<Item = usize> {
    let windows = bytes.saturating_sub(1) / length.max(1);
    let count = windows.min(most);
    (0..count).map(move |i| (i as u128 * windows as u128 / count as u128) as usize * length)
}

#[cfg(test)]
mod tests;

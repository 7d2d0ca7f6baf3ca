//! The errors of texts, for the person who has to repair them.

use super::token_file::{HEADER, MAGIC, VERSION};
use std::io;

/// Why a text cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The operating system could not read the file.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// What went wrong.
        source: io::Error,
    },
    /// A compressed file cannot be decompressed.
    #[error("cannot read {file}: as gzip it is damaged or cut short: {source}")]
    Compressed {
        /// The file.
        file: String,
        /// What the decompressor says.
        source: io::Error,
    },
    /// The text is too short for the windows that were asked for.
    #[error(
        "{file} holds {size} {unit}s; a batch of {batch} windows of {length} {unit}s for training, \
         and one window in the last tenth, need {least}"
    )]
    Short {
        /// The file.
        file: String,
        /// What a token is.
        unit: &'static str,
        /// How many it holds.
        size: u64,
        /// Windows a step.
        batch: usize,
        /// Tokens a window.
        length: usize,
        /// The least size that is enough.
        least: u64,
    },
    /// The file does not begin as a token file.
    #[error(
        "{file} is no token file of this kind: its magic number and version are {magic} and \
         {version}, legal are {MAGIC} and {VERSION} (256 little-endian i32, then tokens of 16 \
         bits); the file may also be gzip-compressed"
    )]
    Header {
        /// The file.
        file: String,
        /// Its first word.
        magic: i32,
        /// Its second word.
        version: i32,
    },
    /// The file ends within its header.
    #[error("{file} is truncated: a token file has a header of {HEADER} bytes, it holds {found}")]
    NoHeader {
        /// The file.
        file: String,
        /// The size that is there, uncompressed.
        found: u64,
    },
    /// The declared number of tokens is impossible.
    #[error("{file} declares {declared} tokens: legal are 0 to {most}{hint}")]
    Count {
        /// The file.
        file: String,
        /// The count in its header.
        declared: i32,
        /// The most that are read.
        most: u64,
        /// What can be done.
        hint: &'static str,
    },
    /// The file is shorter or longer than its header says.
    #[error(
        "{file} declares {tokens} tokens, which makes {expected} bytes with the header, but holds \
         {found}: it {}",
        if .found < .expected { "is truncated" } else { "goes on after them" }
    )]
    Size {
        /// The file.
        file: String,
        /// The count in its header.
        tokens: u64,
        /// The bytes that it should have, uncompressed.
        expected: u64,
        /// The bytes that it has; of a compressed file that is too long, those that were read.
        found: u64,
    },
    /// A token is not in the vocabulary.
    #[error("token {position} of {file} is {token}: a vocabulary of {vocab} has 0 to {}", .vocab.saturating_sub(1))]
    Token {
        /// The file.
        file: String,
        /// Its position, counted from 0.
        position: u64,
        /// The token.
        token: usize,
        /// How many different tokens there are.
        vocab: usize,
    },
    /// A range is not in the text.
    #[error("{file} has {size} {unit}s here: none from {start} to {end}")]
    Outside {
        /// The file.
        file: String,
        /// What a token is.
        unit: &'static str,
        /// How many there are.
        size: u64,
        /// The beginning of the range.
        start: u64,
        /// The end of the range.
        end: u64,
    },
}

//! Sequences of tokens that can be read at any position.

use super::{TextError, token_file};
use crate::files::{self, ReadAt};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A sequence of tokens. A token is read when it is asked for.
#[derive(Clone)]
pub struct Tokens {
    of: Arc<Whole>,
    part: Range<u64>,
}

/// All tokens of a file.
struct Whole {
    /// The name that errors use.
    name: String,
    bytes: Box<dyn ReadAt>,
    kind: Kind,
}

/// The encoding of tokens.
enum Kind {
    /// Each byte is a token.
    Bytes,
    /// Little-endian words of 16 bits that begin at an offset; the vocabulary has `vocab` tokens.
    Words { offset: u64, vocab: usize },
}

impl Tokens {
    fn new(name: String, bytes: Box<dyn ReadAt>, kind: Kind, count: u64) -> Self {
        Self { of: Arc::new(Whole { name, bytes, kind }), part: 0..count }
    }

    /// Each byte is a token.
    pub(super) fn bytes(name: String, bytes: Box<dyn ReadAt>) -> Result<Self, TextError> {
        match bytes.size() {
            Ok(size) => Ok(Self::new(name, bytes, Kind::Bytes, size)),
            Err(source) => Err(TextError::Read { file: name, source }),
        }
    }

    /// Each byte is a token.
    pub(super) fn in_memory(name: String, bytes: Vec<u8>) -> Self {
        let count = bytes.len() as u64;
        Self::new(name, Box::new(bytes), Kind::Bytes, count)
    }

    /// The tokens of a token file.
    pub(super) fn words(
        name: String,
        bytes: Box<dyn ReadAt>,
        vocab: usize,
    ) -> Result<Self, TextError> {
        let token_file::Opened { bytes, offset, count } = token_file::open(&name, bytes)?;
        let kind = Kind::Words { offset, vocab };
        Ok(Self::new(name, bytes, kind, count))
    }

    /// The number of tokens.
    pub fn len(&self) -> u64 {
        self.part.end - self.part.start
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.part.is_empty()
    }

    /// The name of the file that errors use.
    pub fn name(&self) -> &str {
        &self.of.name
    }

    /// What a token is: `byte` or `token`.
    pub fn unit(&self) -> &'static str {
        match self.of.kind {
            Kind::Bytes => "byte",
            Kind::Words { .. } => "token",
        }
    }

    /// The tokens before a position, and those from it on.
    pub fn split_at(self, position: u64) -> (Self, Self) {
        let middle = self.part.start.saturating_add(position).min(self.part.end);
        let part = |part| Self { of: self.of.clone(), part };
        (part(self.part.start..middle), part(middle..self.part.end))
    }

    /// The length and checksum of the tokens from these on up to the end of `last`.
    pub(super) fn contents(&self, last: &Self) -> Result<String, TextError> {
        let (offset, width) = match self.of.kind {
            Kind::Bytes => (0, 1),
            Kind::Words { offset, .. } => (offset, token_file::WIDTH),
        };
        let [start, end] = [self.part.start, last.part.end].map(|at| offset + width * at);
        let contents = files::contents(&*self.of.bytes, start..end);
        contents.map_err(|source| TextError::Read { file: self.of.name.clone(), source })
    }

    /// The `count` tokens from a position on.
    pub fn read(&self, start: u64, count: usize) -> Result<Vec<i32>, TextError> {
        let end = start.saturating_add(count as u64);
        let file = || self.of.name.clone();
        if end > self.len() {
            let (unit, size) = (self.unit(), self.len());
            return Err(TextError::Outside { file: file(), unit, size, start, end });
        }
        let first = self.part.start + start;
        let stretch = |offset, width: usize| {
            let mut bytes = vec![0; count * width];
            let read = self.of.bytes.read_exact_at(offset, &mut bytes);
            read.map(|()| bytes).map_err(|source| TextError::Read { file: file(), source })
        };
        match self.of.kind {
            Kind::Bytes => Ok(stretch(first, 1)?.into_iter().map(i32::from).collect()),
            Kind::Words { offset, vocab } => {
                let bytes = stretch(offset + token_file::WIDTH * first, 2)?;
                let words = bytes.as_chunks().0.iter().map(|word| u16::from_le_bytes(*word));
                let checked = |(position, word): (u64, u16)| match usize::from(word) {
                    token if token < vocab => Ok(i32::from(word)),
                    token => Err(TextError::Token { file: file(), position, token, vocab }),
                };
                (first..).zip(words).map(checked).collect()
            }
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}s of {}", self.len(), self.unit(), self.name())
    }
}

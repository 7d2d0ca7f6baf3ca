//! Sequences of tokens that can be read at any position.

use super::bytes::{Input, ReadAt, contents};
use super::{ReadError, Result, token_file};
use crate::dataset::{self, Record, Source};
use ndarray::Array2;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a file, whatever it is: each is a token from 0 to 255.
///
/// # Errors
///
/// If the file cannot be read.
pub fn text(file: impl Into<Input>) -> Result<Tokens> {
    let (file, bytes) = file.into().open()?;
    match bytes.size() {
        Ok(size) => Ok(Tokens::new(file, bytes, Kind::Bytes, size)),
        Err(source) => Err(ReadError::Io { file, source }),
    }
}

/// A sequence of tokens. A token is read when it is asked for.
///
/// ```
/// use mesh_optimize::dataset::read::Tokens;
///
/// let tokens = Tokens::of_bytes("a text", b"training data, then a test".to_vec());
/// assert_eq!((tokens.len(), tokens.is_empty()), (26, false));
/// assert_eq!((tokens.name(), tokens.unit()), ("a text", "byte"));
/// let (train, test) = tokens.split_at(13);
/// assert_eq!((train.len(), test.read(0, 2)?), (13, vec![44, 32]));
/// assert!(test.contents()?.starts_with("13 bytes, crc32c "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
pub(super) enum Kind {
    /// Each byte is a token.
    Bytes,
    /// Little-endian words of 16 bits that begin at an offset; the vocabulary has `vocab` tokens.
    Words { offset: u64, vocab: usize },
}

impl Tokens {
    pub(super) fn new(name: String, bytes: Box<dyn ReadAt>, kind: Kind, count: u64) -> Self {
        Self { of: Arc::new(Whole { name, bytes, kind }), part: 0..count }
    }

    /// The bytes of a text in memory, which errors call `name`.
    pub fn of_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        let count = bytes.len() as u64;
        Self::new(name.into(), Box::new(bytes), Kind::Bytes, count)
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

    /// The length and the checksum of the tokens' bytes, which distinguish them from others, whatever
    /// file they are in. Reads all of them.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn contents(&self) -> Result<String> {
        let (offset, width) = match self.of.kind {
            Kind::Bytes => (0, 1),
            Kind::Words { offset, .. } => (offset, token_file::WIDTH),
        };
        let [start, end] = [self.part.start, self.part.end].map(|at| offset + width * at);
        let contents = contents(&*self.of.bytes, start..end);
        contents.map_err(|source| ReadError::Io { file: self.of.name.clone(), source })
    }

    /// Windows of `length` tokens, one for each position at which one can begin. `names` are those of two
    /// arrays, `[length]`: the tokens of a window, and for each the token that follows it.
    ///
    /// ```
    /// use mesh_optimize::dataset::{Dataset, read::Tokens};
    ///
    /// let windows = Tokens::of_bytes("a text", b"abcdef".to_vec()).windows(3, ["byte", "following"]);
    /// let data = Dataset::from_source(windows); // `Dataset::sampled` for another order
    /// assert_eq!(data.cardinality(), Some(3));
    /// let last = data.pass(0).nth(2).ok_or("no window")??;
    /// assert_eq!(last.get("following")?, &ndarray::arr1(&[100, 101, 102]).into());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn windows(&self, length: usize, names: [&str; 2]) -> Windows {
        Windows { tokens: self.clone(), length, names: names.map(str::to_owned) }
    }

    /// The `count` tokens from a position on.
    ///
    /// # Errors
    ///
    /// If there are no such tokens, one is not in the vocabulary, or the file cannot be read.
    pub fn read(&self, start: u64, count: usize) -> Result<Vec<i32>> {
        let end = start.saturating_add(count as u64);
        if end > self.len() {
            let (unit, size) = (self.unit(), self.len());
            let problem = format!("has {size} {unit}s here: none from {start} to {end}");
            return Err(ReadError::asked(self.name(), problem));
        }
        let first = self.part.start + start;
        let stretch = |offset, width: usize| {
            let mut bytes = vec![0; count * width];
            let read = self.of.bytes.read_exact_at(offset, &mut bytes);
            read.map(|()| bytes)
                .map_err(|source| ReadError::Io { file: self.of.name.clone(), source })
        };
        match self.of.kind {
            Kind::Bytes => Ok(stretch(first, 1)?.into_iter().map(i32::from).collect()),
            Kind::Words { offset, vocab } => {
                let bytes = stretch(offset + token_file::WIDTH * first, 2)?;
                let words = bytes.as_chunks().0.iter().map(|word| u16::from_le_bytes(*word));
                let checked = |(position, word): (u64, u16)| match usize::from(word) {
                    token if token < vocab => Ok(i32::from(word)),
                    token => {
                        let most = vocab.saturating_sub(1);
                        let problem =
                            format!("it is {token}: a vocabulary of {vocab} has 0 to {most}");
                        Err(ReadError::content(self.name(), format!("token {position}"), problem))
                    }
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

/// Windows of a sequence of tokens, by their first tokens; see [`Tokens::windows`].
#[derive(Clone, Debug)]
pub struct Windows {
    tokens: Tokens,
    length: usize,
    names: [String; 2],
}

impl Source for Windows {
    fn examples(&self) -> u64 {
        self.tokens.len().saturating_sub(self.length as u64)
    }

    fn read(&self, rows: &[u64]) -> dataset::Result<Record> {
        let size = rows.len() * self.length;
        let (mut these, mut following) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for &start in rows {
            let window = self.tokens.read(start, self.length + 1)?;
            these.extend_from_slice(&window[..self.length]);
            following.extend_from_slice(&window[1..]);
        }
        let array = |tokens| {
            let array = Array2::from_shape_vec((rows.len(), self.length), tokens);
            array.map_err(|error| error.to_string())
        };
        let [name, of_following] = &self.names;
        Record::new([(&**name, array(these)?.into()), (of_following, array(following)?.into())])
    }
}

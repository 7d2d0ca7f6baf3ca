//! Token files as llm.c writes them.
//!
//! A file has a header of 256 little-endian `i32` (a magic number, a version, the number of tokens,
//! zeros), then the tokens, little-endian `u16`. Everything is checked before it is used: the
//! declared number against the size of the file when it is opened, each token against the
//! vocabulary when it is read.

use super::TextError;
use crate::files::{self, FromStart, ReadAt};
use std::io::{self, Write};

/// The first word of a header.
pub(super) const MAGIC: i32 = 20_240_520;
/// The second word.
pub(super) const VERSION: i32 = 1;
/// Bytes of a header.
pub(super) const HEADER: usize = 256 * 4;
/// Bytes of a token.
pub(super) const WIDTH: u64 = 2;
/// The most tokens of a compressed file: they are held in memory, since a compressed file cannot be
/// read in the middle.
const MOST_COMPRESSED: u64 = 1 << 28;

/// The tokens of a file.
pub(super) struct Opened {
    pub(super) bytes: Box<dyn ReadAt>,
    /// Where the tokens begin.
    pub(super) offset: u64,
    /// How many there are.
    pub(super) count: u64,
}

/// Checks header and size of a token file, plain or gzip. The tokens of a plain one are not read.
pub(super) fn open(file: &str, bytes: Box<dyn ReadAt>) -> Result<Opened, TextError> {
    let failed = |source| TextError::Read { file: file.to_owned(), source };
    let (mut stream, compressed) =
        files::decompressed(FromStart { bytes: &*bytes, taken: 0 }).map_err(failed)?;
    let refused = |source| match compressed {
        true => TextError::Compressed { file: file.to_owned(), source },
        false => failed(source),
    };
    let header = files::up_to(&mut stream, HEADER).map_err(refused)?;
    let count = declared(file, &header, compressed)?;
    let whole = HEADER as u64 + WIDTH * count;
    let sized = |found| match found == whole {
        true => Ok(()),
        false => {
            let file = file.to_owned();
            Err(TextError::Size { file, tokens: count, expected: whole, found })
        }
    };
    if !compressed {
        drop(stream);
        sized(bytes.size().map_err(failed)?)?;
        return Ok(Opened { bytes, offset: HEADER as u64, count });
    }
    // One more byte shows whether the file ends there.
    let tokens = files::up_to(&mut stream, (WIDTH * count + 1) as usize).map_err(refused)?;
    sized((HEADER + tokens.len()) as u64)?;
    Ok(Opened { bytes: Box::new(tokens), offset: 0, count })
}

/// The number of tokens that a header declares.
fn declared(file: &str, header: &[u8], compressed: bool) -> Result<u64, TextError> {
    let file = || file.to_owned();
    if header.len() < HEADER {
        return Err(TextError::NoHeader { file: file(), found: header.len() as u64 });
    }
    let word = |i: usize| {
        let bytes = header[4 * i..].first_chunk::<4>();
        bytes.map_or(0, |bytes| i32::from_le_bytes(*bytes))
    };
    let (magic, version, count) = (word(0), word(1), word(2));
    if (magic, version) != (MAGIC, VERSION) {
        return Err(TextError::Header { file: file(), magic, version });
    }
    let (most, hint) = match compressed {
        true => (MOST_COMPRESSED, " in a compressed file; decompress it"),
        false => (i32::MAX as u64, ""),
    };
    match u64::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(TextError::Count { file: file(), declared: count, most, hint }),
    }
}

/// Writes a token file. More tokens than a header can declare are an error.
pub fn write_tokens(mut out: impl Write, tokens: &[u16]) -> io::Result<()> {
    let count = i32::try_from(tokens.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too many tokens for a file"))?;
    let mut header = [0_i32; HEADER / 4];
    header[..3].copy_from_slice(&[MAGIC, VERSION, count]);
    let bytes = header.iter().flat_map(|word| word.to_le_bytes());
    let bytes = bytes.chain(tokens.iter().flat_map(|token| token.to_le_bytes()));
    out.write_all(&bytes.collect::<Vec<_>>())
}

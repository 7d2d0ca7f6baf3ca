//! Token files as llm.c writes them.
//!
//! A file has a header of 256 little-endian `i32` (a magic number, a version, the number of tokens,
//! zeros), then the tokens, little-endian `u16`. Everything is checked before it is used: the
//! declared number against the size of the file when it is opened, each token against the
//! vocabulary when it is read.

use super::bytes::{FromStart, Input, ReadAt, decompressed, up_to};
use super::tokens::Kind;
use super::{MOST_COMPRESSED, ReadError, Result, Tokens};
use std::io::{self, Write};

/// The first word of a header.
const MAGIC: i32 = 20_240_520;
/// The second word.
const VERSION: i32 = 1;
/// Bytes of a header.
const HEADER: usize = 256 * 4;
/// Bytes of a token.
pub(super) const WIDTH: u64 = 2;

/// The tokens of a token file (llm.c's format, version 1, plain or gzip) with a vocabulary of `vocab`
/// tokens. A token that is not in the vocabulary is an error when it is read.
///
/// ```
/// use mesh_optimize::dataset::read::{self, Input};
///
/// let mut file = Vec::new();
/// read::write_tokens(&mut file, &[464, 2068, 7586])?;
/// let tokens = read::tokens(Input::of_bytes("a file", file), 50_257)?;
/// assert_eq!(tokens.read(1, 2)?, [2068, 7586]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the file cannot be read, is no token file, or is shorter or longer than its header declares.
pub fn tokens(file: impl Into<Input>, vocab: usize) -> Result<Tokens> {
    let (file, bytes) = file.into().open()?;
    let failed = |source| ReadError::Io { file: file.clone(), source };
    let (mut stream, compressed) =
        decompressed(FromStart { bytes: &*bytes, taken: 0 }).map_err(failed)?;
    let refused = |source| match compressed {
        true => ReadError::Compressed { file: file.clone(), source },
        false => failed(source),
    };
    let header = up_to(&mut stream, HEADER).map_err(refused)?;
    let count = declared(&file, &header, compressed)?;
    let whole = HEADER as u64 + WIDTH * count;
    let sized = |found| match found == whole {
        true => Ok(()),
        false => Err(ReadError::size(&file, whole, found)),
    };
    let (bytes, offset): (Box<dyn ReadAt>, _) = if compressed {
        // One more byte shows whether the file ends there.
        let tokens = up_to(&mut stream, (WIDTH * count + 1) as usize).map_err(refused)?;
        sized((HEADER + tokens.len()) as u64)?;
        drop(stream);
        (Box::new(tokens), 0)
    } else {
        drop(stream);
        sized(bytes.size().map_err(failed)?)?;
        (bytes, HEADER as u64)
    };
    Ok(Tokens::new(file, bytes, Kind::Words { offset, vocab }, count))
}

/// The number of tokens that a header declares.
fn declared(file: &str, header: &[u8], compressed: bool) -> Result<u64> {
    if header.len() < HEADER {
        return Err(ReadError::size(file, HEADER as u64, header.len() as u64));
    }
    let word = |i: usize| {
        let bytes = header[4 * i..].first_chunk::<4>();
        bytes.map_or(0, |bytes| i32::from_le_bytes(*bytes))
    };
    let (magic, version, count) = (word(0), word(1), word(2));
    if (magic, version) != (MAGIC, VERSION) {
        let problem = format!(
            "it is no token file of this kind: its magic number and version are {magic} and \
             {version}, legal are {MAGIC} and {VERSION} (256 little-endian i32, then tokens of 16 \
             bits); the file may also be gzip-compressed"
        );
        return Err(ReadError::content(file, "byte 0", problem));
    }
    let (most, hint) = match compressed {
        true => (MOST_COMPRESSED / WIDTH, " in a compressed file; decompress it"),
        false => (i32::MAX as u64, ""),
    };
    match u64::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => {
            let problem = format!("it declares {count} tokens: legal are 0 to {most}{hint}");
            Err(ReadError::content(file, "byte 8", problem))
        }
    }
}

/// Writes a token file, which [`tokens`] reads.
///
/// # Errors
///
/// If the file cannot be written, or the tokens are more than a header can declare.
pub fn write_tokens(mut out: impl Write, tokens: &[u16]) -> io::Result<()> {
    let count = i32::try_from(tokens.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too many tokens for a file"))?;
    let mut header = [0_i32; HEADER / 4];
    header[..3].copy_from_slice(&[MAGIC, VERSION, count]);
    let bytes = header.iter().flat_map(|word| word.to_le_bytes());
    let bytes = bytes.chain(tokens.iter().flat_map(|token| token.to_le_bytes()));
    out.write_all(&bytes.collect::<Vec<_>>())
}

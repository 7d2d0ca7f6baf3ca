//! IDX files, the format of the MNIST distribution: a magic number (two zero bytes, the element type,
//! the number of dims), one big-endian `u32` per dim, then the elements, big-endian (LeCun, Cortes &
//! Burges, "The MNIST database", section "File formats").

use super::array_file::{ArrayFile, Stored};
use super::bytes::{FromStart, Input, decompressed, up_to};
use super::element::Element;
use super::{MOST_COMPRESSED, ReadError, Result};
use std::sync::Arc;

/// An array in an IDX file of any element type and size, plain or gzip.
///
/// A plain file is not read until examples are asked for. A compressed file cannot be entered in the
/// middle, so its elements, up to 2³⁰ bytes, are held in memory. See
/// [`Dataset::from_files`](crate::dataset::Dataset::from_files) for an example.
///
/// # Errors
///
/// If the file cannot be read, is no IDX file, or is shorter or longer than its header declares.
pub fn idx(file: impl Into<Input>) -> Result<ArrayFile> {
    let (file, bytes) = file.into().open()?;
    let failed = |source| ReadError::Io { file: file.clone(), source };
    let (mut stream, compressed) =
        decompressed(FromStart { bytes: &*bytes, taken: 0 }).map_err(failed)?;
    let refused = |source| match compressed {
        true => ReadError::Compressed { file: file.clone(), source },
        false => failed(source),
    };
    let magic = up_to(&mut stream, 4).map_err(refused)?;
    let (element, rank) = kind(&file, &magic)?;
    let sizes = up_to(&mut stream, 4 * rank).map_err(refused)?;
    let offset = 4 * (1 + rank as u64);
    if sizes.len() < 4 * rank {
        return Err(ReadError::size(&file, offset, 4 + sizes.len() as u64));
    }
    let sizes = sizes.as_chunks::<4>().0.iter();
    let shape: Vec<_> = sizes.map(|size| u32::from_be_bytes(*size) as usize).collect();
    let size = Stored::size(element, &shape).filter(|size| size.checked_add(offset).is_some());
    let Some(size) = size else {
        let problem = format!("an array of {shape:?} has more bytes than a file can have");
        return Err(ReadError::content(&file, "byte 4", problem));
    };
    let (bytes, offset): (Arc<dyn super::ReadAt>, _) = if compressed {
        if size > MOST_COMPRESSED {
            let problem = format!(
                "an array of {shape:?} has {size} bytes; legal are up to {MOST_COMPRESSED} in a \
                 compressed file; decompress it"
            );
            return Err(ReadError::content(&file, "byte 4", problem));
        }
        // One more byte shows whether the file ends there.
        let elements = up_to(&mut stream, size as usize + 1).map_err(refused)?;
        if elements.len() as u64 != size {
            return Err(ReadError::size(&file, offset + size, offset + elements.len() as u64));
        }
        drop(stream);
        (Arc::new(elements), 0)
    } else {
        drop(stream);
        let found = bytes.size().map_err(failed)?;
        if found != offset + size {
            return Err(ReadError::size(&file, offset + size, found));
        }
        (bytes.into(), offset)
    };
    Ok(ArrayFile::new(Stored { file, name: None, bytes, offset, element, big: true, shape }))
}

/// The element type and the number of dims.
fn kind(file: &str, magic: &[u8]) -> Result<(Element, usize)> {
    let Ok([zero, nought, element, rank]) = <[u8; 4]>::try_from(magic) else {
        return Err(ReadError::size(file, 4, magic.len() as u64));
    };
    let known = match element {
        0x08 => Some(Element::U8),
        0x09 => Some(Element::I8),
        0x0b => Some(Element::I16),
        0x0c => Some(Element::I32),
        0x0d => Some(Element::F32),
        0x0e => Some(Element::F64),
        _ => None,
    };
    known.filter(|_| (zero, nought) == (0, 0)).map(|element| (element, usize::from(rank))).ok_or_else(
        || {
            let found = u32::from_be_bytes([zero, nought, element, rank]);
            let problem = format!(
                "it is no IDX file: its magic number is {found:#010x}, legal are two zero bytes, 08, \
                 09, 0b, 0c, 0d or 0e, and the number of dims; the file may also be gzip-compressed"
            );
            ReadError::content(file, "byte 0", problem)
        },
    )
}

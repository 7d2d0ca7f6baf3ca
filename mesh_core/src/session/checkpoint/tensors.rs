//! Slices into a file of tensors, and out of it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use super::disk::Disk;
use super::header::Place;
use super::snapshot::Tensor;
use super::{CheckpointError, Result};

/// Bytes of a tensor that are in hand at a time.
pub(super) const CHUNK: usize = 1 << 20;

/// The parts of a tensor that are gone through one after the other.
fn chunks(bytes: usize, chunk: usize) -> impl Iterator<Item = Range<usize>> {
    (0..bytes).step_by(chunk).map(move |at| at..bytes.min(at + chunk))
}

/// Writes the slices of a tensor to where they lie in it, which `data` bytes into the file begins
/// with its place. Gives the tensor's checksum.
pub(super) fn write(
    (disk, path): (&Disk, &Path),
    mut file: &File,
    data: usize,
    (place, tensor): (&Place, &Tensor),
    buffer: &mut [u8],
) -> Result<u32> {
    let at = (data + place.begin) as u64;
    let sought = file.seek(SeekFrom::Start(at));
    sought.map_err(|source| CheckpointError::Io { action: "write", path: path.into(), source })?;
    let mut sum = 0;
    gather(tensor, place.bytes, buffer, |bytes| {
        sum = crc32c::crc32c_append(sum, bytes);
        disk.write(file, path, bytes)
    })?;
    Ok(sum)
}

/// Puts a tensor together out of its slices, a buffer at a time.
fn gather(
    tensor: &Tensor,
    bytes: usize,
    buffer: &mut [u8],
    mut done: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut runs = tensor.runs();
    for chunk in chunks(bytes, buffer.len()) {
        let part = &mut buffer[..chunk.len()];
        let mut covered = 0;
        for (runs, slice) in runs.iter_mut().zip(&tensor.slices) {
            while let Some(piece) = runs.before(chunk.end) {
                let to = piece.at - chunk.start;
                part[to..to + piece.bytes]
                    .copy_from_slice(&slice.bytes[piece.from..][..piece.bytes]);
                covered += piece.bytes;
            }
        }
        if covered != chunk.len() {
            let (name, problem) = (tensor.spec.name.clone(), "a part of it is not here".to_owned());
            return Err(CheckpointError::Variable { name, problem });
        }
        done(part)?;
    }
    Ok(())
}

/// Goes through a tensor of a file, a buffer at a time, with what the buffer has of it. Gives its
/// checksum.
pub(super) fn read(
    mut file: &File,
    data: usize,
    place: &Place,
    buffer: &mut [u8],
    mut found: impl FnMut(Range<usize>, &[u8]),
) -> io::Result<u32> {
    file.seek(SeekFrom::Start((data + place.begin) as u64))?;
    let mut sum = 0;
    for chunk in chunks(place.bytes, buffer.len()) {
        let part = &mut buffer[..chunk.len()];
        file.read_exact(part)?;
        sum = crc32c::crc32c_append(sum, part);
        found(chunk, part);
    }
    Ok(sum)
}

/// Takes slices out of a tensor that is gone through by [`read`].
pub(super) fn scatter(tensor: &mut Tensor) -> impl FnMut(Range<usize>, &[u8]) {
    let mut runs = tensor.runs();
    move |chunk, part| {
        for (runs, slice) in runs.iter_mut().zip(&mut tensor.slices) {
            while let Some(piece) = runs.before(chunk.end) {
                let from = piece.at - chunk.start;
                let to = &mut slice.bytes[piece.from..][..piece.bytes];
                to.copy_from_slice(&part[from..from + piece.bytes]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::snapshot::tests::sliced;
    use super::*;
    use crate::names::DType;

    proptest! {
        /// Slices of every kind of placement, and buffers that end anywhere.
        #[test]
        fn slices_are_put_together_and_taken_apart(
            sizes in prop::collection::vec(1..4_usize, 0..4),
            split in prop::collection::vec(0..4_usize, 4),
            owned in any::<bool>(),
            dtype in prop::sample::select(vec![DType::F64, DType::F32, DType::BF16, DType::Bool]),
            chunk in 1..70_usize,
        ) {
            let (mut tensor, whole) = sliced(&sizes, &split, owned, dtype);
            let (mut buffer, mut found) = (vec![0xaa; chunk], Vec::new());
            gather(&tensor, whole.len(), &mut buffer, |part| {
                found.extend_from_slice(part);
                Ok(())
            }).unwrap();
            prop_assert_eq!(&found, &whole);
            let before = tensor.clone();
            tensor.slices.iter_mut().for_each(|slice| slice.bytes.fill(0));
            {
                let mut scatter = scatter(&mut tensor);
                chunks(whole.len(), chunk).for_each(|part| scatter(part.clone(), &whole[part]));
            }
            for (slice, before) in tensor.slices.iter().zip(&before.slices) {
                prop_assert_eq!(&slice.bytes, &before.bytes);
            }
        }
    }

    #[test]
    fn a_part_that_is_not_there_is_not_made_up() {
        let (mut tensor, whole) = sliced(&[2, 3], &[1, 0], false, DType::F32);
        tensor.slices.pop();
        let error = gather(&tensor, whole.len(), &mut [0; 16], |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "variable `v` cannot be saved: a part of it is not here");
    }
}

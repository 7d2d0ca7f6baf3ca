//! Writes slices into a file of tensors and reads them from it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Result;
use super::disk::Disk;
use super::header::Place;
use super::runs::Runs;
use super::snapshot::Tensor;
use super::sums::Sum;

/// The size in bytes of the buffer through which a tensor is read or written.
pub(super) const CHUNK: usize = 1 << 20;

/// The file that tensors are written to.
pub(super) struct Output<'a> {
    pub(super) disk: &'a Disk,
    pub(super) file: &'a File,
    pub(super) path: &'a Path,
    /// The position of the first tensor in the file.
    pub(super) data: usize,
}

/// What one rank has written of a tensor: its bytes and their checksum.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Part {
    bytes: usize,
    sum: Sum,
}

impl Part {
    /// Adds what another rank has written of the same tensor.
    pub(super) fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sum = self.sum.with(other.sum);
    }

    /// The checksum, if all `bytes` bytes of the tensor are written.
    pub(super) fn whole(&self, bytes: usize) -> Option<u32> {
        (self.bytes == bytes).then(|| self.sum.checksum(bytes))
    }
}

/// Writes the slices that this process has of a tensor to their places.
pub(super) fn write(
    Output { disk, file, path, data }: &Output<'_>,
    place: &Place,
    tensor: &Tensor,
    buffer: &mut [u8],
) -> Result<Part> {
    let (mut part, mut summed) = (Part::default(), 0);
    gather(tensor, place.bytes, buffer, |begin, bytes, here| {
        for run in here {
            let at = data + place.begin + begin + run.start;
            disk.write_at(file, path, at, &bytes[run.clone()])?;
            part.bytes += run.len();
        }
        part.sum = part.sum.skip(begin - summed).append(bytes);
        summed = begin + bytes.len();
        Ok(())
    })?;
    part.sum = part.sum.skip(place.bytes - summed);
    Ok(part)
}

/// Assembles a tensor in one buffer after another. Calls `done` with the position of the buffer in
/// the tensor, its bytes (zero where this process has no slice), and the ranges that slices fill.
/// Skips buffers that no slice reaches.
fn gather(
    tensor: &Tensor,
    bytes: usize,
    buffer: &mut [u8],
    mut done: impl FnMut(usize, &[u8], &[Range<usize>]) -> Result<()>,
) -> Result<()> {
    let (mut runs, mut here) = (tensor.runs(), Vec::<Range<usize>>::new());
    let whole = tensor.bytes() == bytes;
    while let Some(begin) = runs.iter().filter_map(Runs::next).min() {
        let length = buffer.len().min(bytes - begin);
        let part = &mut buffer[..length];
        if !whole {
            part.fill(0);
        }
        here.clear();
        for (runs, slice) in runs.iter_mut().zip(&tensor.slices) {
            while let Some(piece) = runs.before(begin + length) {
                let at = piece.at - begin..piece.at - begin + piece.bytes;
                part[at.clone()].copy_from_slice(&slice.bytes[piece.from..][..piece.bytes]);
                match here.last_mut().filter(|last| last.end == at.start) {
                    Some(last) => last.end = at.end,
                    None => here.push(at),
                }
            }
        }
        if here.iter().map(Range::len).sum::<usize>() == length {
            here.clear();
            here.push(0..length);
        } else {
            here.sort_by_key(|run| run.start);
            here.dedup_by(|next, last| {
                let touch = last.end == next.start;
                last.end = if touch { next.end } else { last.end };
                touch
            });
        }
        done(begin, part, &here)?;
    }
    Ok(())
}

/// The ranges of a tensor that fill one buffer each.
fn chunks(bytes: usize, chunk: usize) -> impl Iterator<Item = Range<usize>> {
    (0..bytes).step_by(chunk).map(move |at| at..bytes.min(at + chunk))
}

/// Reads a tensor from a file in chunks, calls `found` for each, and returns the checksum.
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

/// The function for [`read`] that copies a tensor's slices out of the chunks.
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
        /// Slices of placements of every kind, and buffers that end anywhere.
        #[test]
        fn slices_are_put_together_and_taken_apart(
            sizes in prop::collection::vec(1..4_usize, 0..4),
            split in prop::collection::vec(0..4_usize, 4),
            owned in any::<bool>(),
            dtype in prop::sample::select(vec![DType::F64, DType::F32, DType::BF16, DType::Bool]),
            chunk in 1..70_usize,
            ranks in 1..4_usize,
        ) {
            let (mut tensor, whole) = sliced(&sizes, &split, owned, dtype);
            let mut buffer = vec![0xaa; chunk];
            // The slices are distributed over several ranks.
            let (mut parts, mut found) = (Part::default(), vec![None; whole.len()]);
            for rank in 0..ranks {
                let mut own = tensor.clone();
                let mut numbers = 0..;
                own.slices.retain(|_| numbers.next().is_some_and(|n| n % ranks == rank));
                let (mut part, mut end) = (Part::default(), 0);
                gather(&own, whole.len(), &mut buffer, |begin, bytes, here| {
                    part.sum = part.sum.skip(begin - end).append(bytes);
                    end = begin + bytes.len();
                    for run in here {
                        part.bytes += run.len();
                        for at in run.clone() {
                            assert!(found[begin + at].replace(bytes[at]).is_none());
                        }
                    }
                    Ok(())
                }).unwrap();
                part.sum = part.sum.skip(whole.len() - end);
                parts.add(&part);
            }
            prop_assert_eq!(found.into_iter().collect::<Option<Vec<_>>>(), Some(whole.clone()));
            prop_assert_eq!(parts.whole(whole.len()), Some(crc32c::crc32c(&whole)));
            prop_assert_eq!(parts.whole(whole.len() + 1), None);
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
}

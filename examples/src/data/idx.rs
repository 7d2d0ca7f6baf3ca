//! IDX files, the format of the MNIST distribution, as they are or gzip-compressed.
//!
//! A file is a magic number (two zero bytes, the element type, the rank), one big-endian `u32` per
//! dimension, then the elements. Nothing in it is believed before it is checked: no more is read
//! than a legal header declares, plus one byte to see that the file ends there.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use ndarray::{Array1, Array3};

use super::{CLASSES, DataError, SIDE, Split};

/// The most examples that a file may declare.
const MOST: usize = 1_000_000;
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Unsigned bytes, rank 3 and rank 1.
const IMAGES: u32 = 0x0000_0803;
const LABELS: u32 = 0x0000_0801;

/// The files of one pair, without `.gz`.
pub(super) struct Names {
    pub(super) images: &'static str,
    pub(super) labels: &'static str,
}

pub(super) const TRAIN: Names =
    Names { images: "train-images-idx3-ubyte", labels: "train-labels-idx1-ubyte" };
pub(super) const TEST: Names =
    Names { images: "t10k-images-idx3-ubyte", labels: "t10k-labels-idx1-ubyte" };

/// The path of `name` in `dir`, as it is or with `.gz`; the former wins.
///
/// A path that cannot be looked at counts as found: opening it then tells why.
pub(super) fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    [name.to_owned(), format!("{name}.gz")]
        .into_iter()
        .map(|name| dir.join(name))
        .find(|file| file.try_exists().unwrap_or(true))
}

/// Reads a pair of at least `least` examples.
pub(super) fn read_pair(images: &Path, labels: &Path, least: usize) -> Result<Split, DataError> {
    // The labels first: they are small, and their count bounds what is read of the images.
    let labelled = read_labels(labels, least)?;
    let (mut reader, count) = open(images, "images", IMAGES, least)?;
    if count != labelled.len() {
        return Err(DataError::Unpaired {
            images_file: images.to_owned(),
            images: count,
            labels_file: labels.to_owned(),
            labels: labelled.len(),
        });
    }
    let (rows, columns) = (reader.word()?, reader.word()?);
    if [rows, columns] != [SIDE as u32; 2] {
        return Err(DataError::ImageSize { file: images.to_owned(), rows, columns });
    }
    let bytes = reader.rest(count * SIDE * SIDE)?;
    let mut pixels = Array3::zeros((count, SIDE, SIDE));
    for (pixel, byte) in pixels.iter_mut().zip(bytes) {
        *pixel = f32::from(byte) / 255.0;
    }
    Ok(Split { images: pixels, labels: labelled })
}

fn read_labels(file: &Path, least: usize) -> Result<Array1<i32>, DataError> {
    let (reader, count) = open(file, "labels", LABELS, least)?;
    let bytes = reader.rest(count)?;
    let wrong = bytes.iter().position(|&label| usize::from(label) >= CLASSES);
    if let Some(index) = wrong {
        return Err(DataError::Label { file: file.to_owned(), index, label: bytes[index] });
    }
    Ok(bytes.into_iter().map(i32::from).collect())
}

/// Opens a file, checks its magic number and the count of examples, and returns that count.
fn open<'f>(
    file: &'f Path,
    wanted: &'static str,
    legal: u32,
    least: usize,
) -> Result<(Reader<'f>, usize), DataError> {
    let failed = |source| DataError::Read { file: file.to_owned(), source };
    let mut raw = File::open(file).map_err(failed)?;
    let mut start = Vec::new();
    raw.by_ref().take(GZIP.len() as u64).read_to_end(&mut start).map_err(failed)?;
    let compressed = start == GZIP;
    let whole = io::Cursor::new(start).chain(io::BufReader::new(raw));
    let bytes: Box<dyn Read> =
        if compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };

    let rank = (legal & 0xff) as usize;
    let mut reader = Reader { file, bytes, header: 4 + 4 * rank, taken: 0 };
    let found = reader.word()?;
    if found != legal {
        return Err(DataError::Magic { file: file.to_owned(), wanted, found, legal });
    }
    let declared = reader.word()? as usize;
    if !(least..=MOST).contains(&declared) {
        return Err(DataError::Count { file: file.to_owned(), declared, least, most: MOST });
    }
    Ok((reader, declared))
}

/// A file being read: what it holds uncompressed, and how far it has been taken.
struct Reader<'f> {
    file: &'f Path,
    bytes: Box<dyn Read>,
    header: usize,
    taken: usize,
}

impl Reader<'_> {
    /// The next word of the header.
    fn word(&mut self) -> Result<u32, DataError> {
        let bytes = self.up_to(4)?;
        let word = <[u8; 4]>::try_from(bytes).map_err(|_| self.truncated(self.header))?;
        Ok(u32::from_be_bytes(word))
    }

    /// The data after the header: exactly `size` bytes, and then the end of the file.
    fn rest(mut self, size: usize) -> Result<Vec<u8>, DataError> {
        let declared = self.header + size;
        let bytes = self.up_to(size)?;
        if bytes.len() < size {
            return Err(self.truncated(declared));
        }
        if !self.up_to(1)?.is_empty() {
            return Err(DataError::Trailing { file: self.file.to_owned(), declared });
        }
        Ok(bytes)
    }

    /// The next `size` bytes, fewer at the end of the file; the buffer grows with what is there.
    fn up_to(&mut self, size: usize) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        (&mut self.bytes)
            .take(size as u64)
            .read_to_end(&mut bytes)
            .map_err(|source| DataError::Read { file: self.file.to_owned(), source })?;
        self.taken += bytes.len();
        Ok(bytes)
    }

    fn truncated(&self, declared: usize) -> DataError {
        DataError::Truncated { file: self.file.to_owned(), declared, found: self.taken }
    }
}

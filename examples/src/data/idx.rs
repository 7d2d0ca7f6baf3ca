//! IDX files, the format of the MNIST distribution, as they are or gzip-compressed.
//!
//! A file is a magic number (two zero bytes, the element type, the rank), one big-endian `u32` per
//! dimension, then the elements. Nothing in it is believed before it is checked: no more is read
//! than a legal header declares, plus one byte to see that the file ends there.

use std::io::Read;
use std::path::{Path, PathBuf};

use ndarray::{Array1, Array3};

use super::{CLASSES, DataError, SIDE, Split};
use crate::files;

/// The most examples that a file may declare.
const MOST: usize = 1_000_000;
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

/// A stream, and what errors call it.
pub(super) struct Named<'a> {
    pub(super) file: &'a Path,
    pub(super) bytes: Box<dyn Read + 'a>,
}

impl<'a> Named<'a> {
    pub(super) fn open(file: &'a Path) -> Result<Self, DataError> {
        match files::open(file) {
            Ok(bytes) => Ok(Self { file, bytes: Box::new(bytes) }),
            Err(source) => Err(DataError::Read { file: file.to_owned(), source }),
        }
    }
}

/// Reads a pair of at least `least` examples.
pub(super) fn read_pair(
    images: Named<'_>,
    labels: Named<'_>,
    least: usize,
) -> Result<Split, DataError> {
    // The labels first: they are small, and their count bounds what is read of the images.
    let (images_file, labels_file) = (images.file, labels.file);
    let labelled = read_labels(labels, least)?;
    let (mut reader, count) = header(images, "images", IMAGES, least)?;
    if count != labelled.len() {
        return Err(DataError::Unpaired {
            images_file: images_file.to_owned(),
            images: count,
            labels_file: labels_file.to_owned(),
            labels: labelled.len(),
        });
    }
    let (rows, columns) = (reader.word()?, reader.word()?);
    if [rows, columns] != [SIDE as u32; 2] {
        return Err(DataError::ImageSize { file: images_file.to_owned(), rows, columns });
    }
    let bytes = reader.rest(count * SIDE * SIDE)?;
    let mut pixels = Array3::zeros((count, SIDE, SIDE));
    for (pixel, byte) in pixels.iter_mut().zip(bytes) {
        *pixel = f32::from(byte) / 255.0;
    }
    Ok(Split { images: pixels, labels: labelled })
}

fn read_labels(labels: Named<'_>, least: usize) -> Result<Array1<i32>, DataError> {
    let file = labels.file;
    let (reader, count) = header(labels, "labels", LABELS, least)?;
    let bytes = reader.rest(count)?;
    let wrong = bytes.iter().position(|&label| usize::from(label) >= CLASSES);
    if let Some(index) = wrong {
        return Err(DataError::Label { file: file.to_owned(), index, label: bytes[index] });
    }
    Ok(bytes.into_iter().map(i32::from).collect())
}

/// Checks the magic number and the count of examples of a stream, and returns that count.
fn header<'a>(
    Named { file, bytes }: Named<'a>,
    wanted: &'static str,
    legal: u32,
    least: usize,
) -> Result<(Reader<'a>, usize), DataError> {
    let (bytes, compressed) = files::decompressed(bytes)
        .map_err(|source| DataError::Read { file: file.to_owned(), source })?;
    let rank = (legal & 0xff) as usize;
    let mut reader = Reader { file, bytes, compressed, header: 4 + 4 * rank, taken: 0 };
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
struct Reader<'a> {
    file: &'a Path,
    bytes: Box<dyn Read + 'a>,
    compressed: bool,
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

    /// The next `size` bytes, fewer at the end of the file.
    fn up_to(&mut self, size: usize) -> Result<Vec<u8>, DataError> {
        let file = || self.file.to_owned();
        let bytes = files::up_to(&mut self.bytes, size).map_err(|source| {
            if self.compressed {
                DataError::Compressed { file: file(), source }
            } else {
                DataError::Read { file: file(), source }
            }
        })?;
        self.taken += bytes.len();
        Ok(bytes)
    }

    fn truncated(&self, declared: usize) -> DataError {
        DataError::Truncated { file: self.file.to_owned(), declared, found: self.taken }
    }
}

//! IDX files, the format of the MNIST distribution, as they are or gzip-compressed.
//!
//! A file has a magic number (two zero bytes, the element type, the rank), one big-endian `u32` per
//! dimension, then the elements. Everything is checked before it is used: declared sizes against
//! the size of the file when it is opened, labels against the classes both then and when they are
//! read. Elements of a plain file are read when they are asked for. A compressed file cannot be
//! entered in the middle, so its elements are held in memory. No more is decompressed than a legal
//! header declares, plus one byte to see whether the file ends there.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{CLASSES, DataError, Examples, PIXELS, SIDE};
use crate::files::{self, FromStart, ReadAt};

/// The most examples of a compressed file.
const MOST_COMPRESSED: usize = 1_000_000;
/// How many labels are checked at a time when a file is opened.
const LOOKED_AT: usize = 1 << 16;

/// The expected content of a file: unsigned bytes with these dims.
struct Kind {
    name: &'static str,
    magic: u32,
    /// The dims after the dim of examples.
    dims: &'static [u32],
}

const IMAGES: Kind = Kind { name: "images", magic: 0x0803, dims: &[SIDE as u32; 2] };
const LABELS: Kind = Kind { name: "labels", magic: 0x0801, dims: &[] };

/// The files of one pair, without `.gz`.
pub(super) struct Names {
    pub(super) images: &'static str,
    pub(super) labels: &'static str,
}

pub(super) const TRAIN: Names =
    Names { images: "train-images-idx3-ubyte", labels: "train-labels-idx1-ubyte" };
pub(super) const TEST: Names =
    Names { images: "t10k-images-idx3-ubyte", labels: "t10k-labels-idx1-ubyte" };

/// The path of `name` in `dir`, plain or with `.gz`; the plain file is preferred.
///
/// A path whose state cannot be read is returned as well: opening it then reports the error.
pub(super) fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    [name.to_owned(), format!("{name}.gz")]
        .into_iter()
        .map(|name| dir.join(name))
        .find(|file| file.try_exists().unwrap_or(true))
}

/// Bytes, with the name that errors use for them.
pub(super) struct Named {
    pub(super) file: PathBuf,
    pub(super) bytes: Box<dyn ReadAt>,
}

impl Named {
    pub(super) fn open(file: &Path) -> Result<Self, DataError> {
        let file = file.to_owned();
        match mesh_core::files::open(&file) {
            Ok(bytes) => Ok(Self { file, bytes: files::positioned(bytes) }),
            Err(source) => Err(DataError::Read { file, source }),
        }
    }
}

/// A file of images and a file of their labels.
pub(super) struct Pair {
    images: Elements,
    labels: Elements,
}

impl Pair {
    /// Opens and checks a pair of at least `least` examples. Of plain files only the labels are
    /// read.
    pub(super) fn open(images: Named, labels: Named, least: usize) -> Result<Self, DataError> {
        // The labels come first: they are small, and their number bounds what is read of the
        // images.
        let labels = Elements::open(labels, &LABELS, least, None)?;
        let mut chunk = vec![0; labels.count.min(LOOKED_AT)];
        for start in (0..labels.count).step_by(LOOKED_AT) {
            let chunk = &mut chunk[..LOOKED_AT.min(labels.count - start)];
            labels.read(start, chunk)?;
            labels.expect_classes(start, chunk)?;
        }
        let images = Elements::open(images, &IMAGES, least, Some(&labels))?;
        Ok(Self { images, labels })
    }
}

impl Examples for Pair {
    fn len(&self) -> usize {
        self.labels.count
    }

    fn read(
        &self,
        run: Range<usize>,
        pixels: &mut Vec<f32>,
        labels: &mut Vec<i32>,
    ) -> Result<(), DataError> {
        let mut bytes = vec![0; run.len() * PIXELS];
        self.images.read(run.start, &mut bytes)?;
        pixels.extend(bytes.iter().map(|&pixel| f32::from(pixel) / 255.0));
        let digits = &mut bytes[..run.len()];
        self.labels.read(run.start, digits)?;
        self.labels.expect_classes(run.start, digits)?;
        labels.extend(digits.iter().map(|&label| i32::from(label)));
        Ok(())
    }

    fn contents(&self) -> Result<String, DataError> {
        let [images, labels] = [&self.images, &self.labels].map(Elements::contents);
        Ok(format!("{} and {}", images?, labels?))
    }
}

/// The elements of a file.
struct Elements {
    file: PathBuf,
    bytes: Box<dyn ReadAt>,
    /// The position of the first element.
    offset: u64,
    /// The bytes of an example.
    width: u64,
    /// How many examples there are.
    count: usize,
}

impl Elements {
    /// Checks the header and the size of a file that must have as many examples as `paired`.
    fn open(
        Named { file, bytes }: Named,
        kind: &Kind,
        least: usize,
        paired: Option<&Self>,
    ) -> Result<Self, DataError> {
        let failed = |source| DataError::Read { file: file.clone(), source };
        let (mut stream, compressed) =
            files::decompressed(FromStart { bytes: &*bytes, taken: 0 }).map_err(failed)?;
        let refused = |source| match compressed {
            true => DataError::Compressed { file: file.clone(), source },
            false => failed(source),
        };
        let begin = 4 * (2 + kind.dims.len());
        let header = files::up_to(&mut stream, begin).map_err(refused)?;
        let count = declared(&file, &header, kind, least, compressed)?;
        if let Some(labels) = paired.filter(|labels| labels.count != count) {
            let (images_file, labels_file) = (file.clone(), labels.file.clone());
            let (images, labels) = (count, labels.count);
            return Err(DataError::Unpaired { images_file, images, labels_file, labels });
        }
        expect_dims(&file, &header, kind)?;
        let (offset, width) =
            (begin as u64, kind.dims.iter().map(|&size| u64::from(size)).product());
        let whole = offset + width * count as u64;
        let expect_size = |found: u64| match found {
            found if found < whole => {
                Err(DataError::Truncated { file: file.clone(), declared: whole, found })
            }
            found if found > whole => {
                Err(DataError::Trailing { file: file.clone(), declared: whole })
            }
            _ => Ok(()),
        };
        if compressed {
            // One more byte shows whether the file ends there.
            let size = (whole - offset) as usize + 1;
            let elements = files::up_to(&mut stream, size).map_err(refused)?;
            expect_size(offset + elements.len() as u64)?;
            drop(stream);
            return Ok(Self { file, bytes: Box::new(elements), offset: 0, width, count });
        }
        drop(stream);
        expect_size(bytes.size().map_err(failed)?)?;
        Ok(Self { file, bytes, offset, width, count })
    }

    /// Fills `bytes` with the examples from `start` on.
    fn read(&self, start: usize, bytes: &mut [u8]) -> Result<(), DataError> {
        let at = |example: usize| self.offset + self.width * example as u64;
        self.bytes.read_exact_at(at(start), bytes).map_err(|source| {
            let file = self.file.clone();
            match (source.kind(), self.bytes.size()) {
                (io::ErrorKind::UnexpectedEof, Ok(found)) => {
                    DataError::Truncated { file, declared: at(self.count), found }
                }
                _ => DataError::Read { file, source },
            }
        })
    }

    /// Length and checksum, which distinguish these elements from others.
    fn contents(&self) -> Result<String, DataError> {
        let whole = self.offset..self.offset + self.width * self.count as u64;
        let contents = files::contents(&*self.bytes, whole);
        contents.map_err(|source| DataError::Read { file: self.file.clone(), source })
    }

    /// Refuses labels that name no class; `start` is the position of the first.
    fn expect_classes(&self, start: usize, labels: &[u8]) -> Result<(), DataError> {
        match labels.iter().position(|&label| usize::from(label) >= CLASSES) {
            None => Ok(()),
            Some(at) => {
                let (index, label) = (start + at, labels[at]);
                Err(DataError::Label { file: self.file.clone(), index, label })
            }
        }
    }
}

/// A word of a header.
fn word(file: &Path, header: &[u8], kind: &Kind, index: usize) -> Result<u32, DataError> {
    let found = header.get(4 * index..).and_then(|rest| rest.first_chunk());
    found.map(|word| u32::from_be_bytes(*word)).ok_or_else(|| DataError::Truncated {
        file: file.to_owned(),
        declared: 4 * (2 + kind.dims.len() as u64),
        found: header.len() as u64,
    })
}

/// Checks the magic number and the count of examples, and returns that count.
fn declared(
    file: &Path,
    header: &[u8],
    kind: &Kind,
    least: usize,
    compressed: bool,
) -> Result<usize, DataError> {
    let (file, found) = (file.to_owned(), word(file, header, kind, 0)?);
    if found != kind.magic {
        return Err(DataError::Magic { file, wanted: kind.name, found, legal: kind.magic });
    }
    let declared = word(&file, header, kind, 1)? as usize;
    let (most, hint) = match compressed {
        true => (MOST_COMPRESSED, " in a compressed file; decompress it"),
        false => (u32::MAX as usize, ""),
    };
    match (least..=most).contains(&declared) {
        true => Ok(declared),
        false => Err(DataError::Count { file, declared, least, most, hint }),
    }
}

/// Checks the size of an example.
fn expect_dims(file: &Path, header: &[u8], kind: &Kind) -> Result<(), DataError> {
    let dims = (0..kind.dims.len()).map(|dim| word(file, header, kind, 2 + dim));
    let dims = dims.collect::<Result<Vec<_>, _>>()?;
    match dims[..] {
        [rows, columns] if dims != kind.dims => {
            Err(DataError::ImageSize { file: file.to_owned(), rows, columns })
        }
        _ => Ok(()),
    }
}

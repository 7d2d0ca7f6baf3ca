//! Files that can be read at any position, with gzip removed.

use super::{ReadError, Result};
use flate2::read::MultiGzDecoder;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Bytes that several threads can read at any position at once.
pub trait ReadAt: Send + Sync {
    /// How many bytes there are.
    ///
    /// # Errors
    ///
    /// If that cannot be found out.
    fn size(&self) -> io::Result<u64>;

    /// Fills `bytes` with those from `offset` on.
    ///
    /// # Errors
    ///
    /// If there are fewer, or they cannot be read.
    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

#[cfg(unix)]
impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, bytes, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let found = start.and_then(|start| self.get(start..start.checked_add(bytes.len())?));
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file with one position can be read by one thread at a time.
impl<T: Read + Seek + Send> ReadAt for Mutex<T> {
    fn size(&self) -> io::Result<u64> {
        self.lock().unwrap_or_else(PoisonError::into_inner).seek(SeekFrom::End(0))
    }

    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut stream = self.lock().unwrap_or_else(PoisonError::into_inner);
        stream.seek(SeekFrom::Start(offset))?;
        stream.read_exact(bytes)
    }
}

/// What a reader reads: the file at a path, or bytes with a name for errors.
pub struct Input(Source);

enum Source {
    Path(PathBuf),
    Bytes(String, Box<dyn ReadAt>),
}

impl Input {
    /// Bytes that errors call `name`.
    ///
    /// ```
    /// use mesh_optimize::dataset::read::{self, Input};
    ///
    /// let text = read::text(Input::of_bytes("a greeting", b"hello".to_vec()))?;
    /// assert_eq!(text.read(1, 2)?, [101, 108]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_bytes(name: impl Into<String>, bytes: impl ReadAt + 'static) -> Self {
        Self(Source::Bytes(name.into(), Box::new(bytes)))
    }

    /// The name that errors use, and the bytes.
    pub(super) fn open(self) -> Result<(String, Box<dyn ReadAt>)> {
        match self.0 {
            Source::Bytes(name, bytes) => Ok((name, bytes)),
            Source::Path(path) => {
                let file = path.display().to_string();
                match mesh_core::files::open(&path) {
                    Ok(opened) => Ok((file, positioned(opened))),
                    Err(source) => Err(ReadError::Io { file, source }),
                }
            }
        }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Input {
    fn from(path: &P) -> Self {
        Self(Source::Path(path.as_ref().to_owned()))
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Path(path) => write!(f, "Input({})", path.display()),
            Source::Bytes(name, _) => write!(f, "Input({name})"),
        }
    }
}

/// Makes a file readable at any position.
fn positioned(file: File) -> Box<dyn ReadAt> {
    #[cfg(unix)]
    return Box::new(file);
    #[cfg(not(unix))]
    return Box::new(Mutex::new(file));
}

/// Reads bytes from the first on.
pub(super) struct FromStart<'a> {
    pub(super) bytes: &'a dyn ReadAt,
    pub(super) taken: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.size()?.saturating_sub(self.taken);
        let size = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        self.bytes.read_exact_at(self.taken, &mut into[..size])?;
        self.taken += size as u64;
        Ok(size)
    }
}

/// The length and the checksum of some bytes, which distinguish them from others.
pub(super) fn contents(bytes: &dyn ReadAt, part: Range<u64>) -> io::Result<String> {
    const CHUNK: u64 = 1 << 20;
    let (mut sum, mut chunk) = (0, Vec::new());
    for start in part.clone().step_by(CHUNK as usize) {
        chunk.resize((part.end - start).min(CHUNK) as usize, 0);
        bytes.read_exact_at(start, &mut chunk)?;
        sum = crc32c::crc32c_append(sum, &chunk);
    }
    Ok(format!("{} bytes, crc32c {sum:08x}", part.end - part.start))
}

/// A reader of a stream's content, decompressed if it is gzip, and whether it is gzip.
pub(super) fn decompressed<'a>(
    mut stream: impl Read + 'a,
) -> io::Result<(Box<dyn Read + 'a>, bool)> {
    let start = up_to(&mut stream, GZIP.len())?;
    let compressed = start == GZIP;
    let whole = Cursor::new(start).chain(BufReader::new(stream));
    if compressed {
        return Ok((Box::new(MultiGzDecoder::new(whole)), true));
    }
    Ok((Box::new(whole), false))
}

/// The next `size` bytes, or fewer at the end. The buffer grows only with the bytes that are there.
pub(super) fn up_to(stream: &mut dyn Read, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(size as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_the_same_anywhere() {
        let bytes: Vec<u8> = (0..200).collect();
        let path = std::env::temp_dir().join(format!("mesh-read-at-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let kinds: [Box<dyn ReadAt>; 3] = [
            Box::new(bytes.clone()),
            Box::new(Mutex::new(Cursor::new(bytes.clone()))),
            positioned(File::open(&path).unwrap()),
        ];
        std::fs::remove_file(&path).unwrap();
        for kind in kinds {
            assert_eq!(kind.size().unwrap(), 200);
            let mut some = [0; 3];
            for offset in [197, 0, 50] {
                kind.read_exact_at(offset, &mut some).unwrap();
                assert_eq!(some.map(u64::from), [offset, offset + 1, offset + 2]);
            }
            for offset in [198, 200, u64::MAX / 2, i64::MAX as u64 - 1] {
                assert!(kind.read_exact_at(offset, &mut some).is_err(), "{offset}");
            }
            let mut whole = Vec::new();
            FromStart { bytes: &*kind, taken: 0 }.read_to_end(&mut whole).unwrap();
            assert_eq!(whole, bytes);
            let sum = crc32c::crc32c(&bytes[3..190]);
            let expected = format!("187 bytes, crc32c {sum:08x}");
            assert_eq!(contents(&*kind, 3..190).unwrap(), expected);
            assert!(contents(&*kind, 3..201).is_err());
        }
    }
}

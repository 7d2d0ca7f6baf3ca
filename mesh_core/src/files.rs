//! Reads files that a user names: regular files only, up to a given length.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file. Pipes and devices are refused, as reading them may never end.
///
/// # Errors
///
/// If the file cannot be opened or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?;
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is no regular file: a pipe or a device is not read"));
    }
    File::open(path)
}

/// All bytes of a regular file of at most `most` bytes.
///
/// # Errors
///
/// If the file cannot be read, is not a regular file, or is longer than `most` bytes.
pub fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take((most as u64).saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("it is too long: at most {most} bytes are read")));
    }
    Ok(bytes)
}

/// The text of a regular file of at most `most` bytes.
///
/// # Errors
///
/// As [`read`], and if the file is not UTF-8.
pub fn read_text(path: &Path, most: usize) -> io::Result<String> {
    let text = String::from_utf8(read(path, most)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn what_has_no_end_is_not_opened() {
        for path in ["/dev/zero", "/dev/null"] {
            assert!(open(Path::new(path)).unwrap_err().to_string().contains("no regular file"));
        }
        assert!(open(&std::env::temp_dir()).unwrap_err().to_string().contains("directory"));
    }

    #[test]
    fn no_more_is_read_than_is_legal() {
        let path = std::env::temp_dir().join(format!("mesh-files-{}", std::process::id()));
        fs::write(&path, "größe").unwrap();
        assert_eq!(read_text(&path, 7).unwrap(), "größe");
        assert!(read(&path, 6).unwrap_err().to_string().contains("at most 6 bytes"));
        fs::write(&path, b"\xff").unwrap();
        let said = read_text(&path, usize::MAX).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert!(said.contains("utf-8"), "{said}");
    }
}

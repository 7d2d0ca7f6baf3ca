//! The operations on the disk, one method each.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
#[cfg(test)]
use std::sync::{Arc, atomic::AtomicUsize};

use super::{CheckpointError, Result};

/// The disk. Tests can make it stop after some number of operations, as if the process had been
/// killed there.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    #[cfg(test)]
    pub(super) left: Option<Arc<AtomicUsize>>,
    /// The name of a file for which the disk has no room.
    #[cfg(test)]
    pub(super) full: Option<&'static str>,
    /// The name of an entry that can be neither removed nor renamed.
    #[cfg(test)]
    pub(super) stuck: Option<&'static str>,
}

impl Disk {
    /// Carries out one operation.
    fn step<T>(
        &self,
        action: &'static str,
        path: &Path,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> Result<T> {
        let done = match self.stopped(action, path) {
            Some(kind) => Err(kind.into()),
            None => operation(),
        };
        done.map_err(|source| CheckpointError::Io { action, path: path.to_owned(), source })
    }

    #[cfg(not(test))]
    fn stopped(&self, _: &str, _: &Path) -> Option<io::ErrorKind> {
        None
    }

    #[cfg(test)]
    fn stopped(&self, action: &str, path: &Path) -> Option<io::ErrorKind> {
        use std::sync::atomic::Ordering::Relaxed;
        let fewer = |left: usize| left.checked_sub(1);
        let left = self.left.as_ref();
        if left.is_some_and(|left| left.fetch_update(Relaxed, Relaxed, fewer).is_err()) {
            return Some(io::ErrorKind::Interrupted);
        }
        let named = |name: Option<&str>| name.is_some_and(|name| path.ends_with(name));
        if named(self.stuck) && ["remove", "rename"].contains(&action) {
            return Some(io::ErrorKind::PermissionDenied);
        }
        named(self.full).then_some(io::ErrorKind::StorageFull)
    }

    pub(super) fn create_folder(&self, path: &Path) -> Result<()> {
        self.step("create", path, || fs::create_dir_all(path))
    }

    pub(super) fn create(&self, path: &Path) -> Result<File> {
        self.step("create", path, || File::create(path))
    }

    /// Writes `bytes` from byte `at` of the file on.
    pub(super) fn write_at(
        &self,
        mut file: &File,
        path: &Path,
        at: usize,
        bytes: &[u8],
    ) -> Result<()> {
        self.step("write", path, || {
            file.seek(SeekFrom::Start(at as u64))?;
            file.write_all(bytes)
        })
    }

    pub(super) fn set_length(&self, file: &File, path: &Path, bytes: u64) -> Result<()> {
        self.step("write", path, || file.set_len(bytes))
    }

    /// Whether `path` leads to an open file, on systems that can tell; elsewhere whether there is a
    /// file.
    pub(super) fn is_at(&self, file: &File, path: &Path) -> bool {
        #[cfg(unix)]
        fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
            use std::os::unix::fs::MetadataExt;
            (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        #[cfg(not(unix))]
        fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
            one.len() == other.len()
        }
        let (open, there) = (file.metadata(), fs::metadata(path));
        open.and_then(|open| Ok(same(&open, &there?))).unwrap_or(false)
    }

    /// Waits until the content of a file is on the disk.
    pub(super) fn sync(&self, file: &File, path: &Path) -> Result<()> {
        self.step("sync", path, || file.sync_all())
    }

    /// Waits until the names in a folder are on the disk, on systems that can do that.
    pub(super) fn sync_folder(&self, path: &Path) -> Result<()> {
        self.step("sync", path, || match cfg!(unix) {
            true => File::open(path)?.sync_all(),
            false => Ok(()),
        })
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.step("rename", from, || fs::rename(from, to))
    }

    /// Removes a file, or a folder with its content. A missing one is no error.
    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        let found = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
        self.step("remove", path, || match fs::symlink_metadata(path) {
            Ok(what) if what.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) if found(&error) => Err(error),
            Err(_) => Ok(()),
        })
    }
}

//! What each rank did last, in a file that outlives it.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use crate::files::read_text;

/// The longest file of an earlier run that is read, in bytes: a failure may take several lines.
const LONGEST: usize = 1 << 16;

/// Bytes of a record.
const RECORD: usize = 160;

/// A file with one record, written over and over. It is there if the rank did not end well.
pub(super) struct LastStep {
    path: PathBuf,
    file: File,
}

impl LastStep {
    /// What ranks of an earlier run left behind, by rank.
    pub(super) fn left(folder: &Path) -> Vec<(usize, String)> {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut left: Vec<_> = files
            .filter_map(|file| {
                let name = file.file_name().into_string().ok()?;
                let rank = name.strip_prefix("rank-")?.strip_suffix(".last")?.parse().ok()?;
                let text = read_text(&file.path(), LONGEST).ok()?;
                Some((rank, text.trim().to_owned()))
            })
            .collect();
        left.sort();
        left
    }

    /// Removes it.
    pub(super) fn clear(folder: &Path, ranks: impl Iterator<Item = usize>) {
        // If it cannot be removed, it is reported once more.
        ranks.for_each(|rank| drop(fs::remove_file(Self::path(folder, rank))));
    }

    fn path(folder: &Path, rank: usize) -> PathBuf {
        folder.join(format!("rank-{rank}.last"))
    }

    /// The file of this rank.
    pub(super) fn new(folder: &Path, rank: usize) -> Result<Self, String> {
        let path = Self::path(folder, rank);
        let file = fs::create_dir_all(folder).and_then(|()| File::create(&path));
        let file = file.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Self { path, file })
    }

    /// Notes a call that begins or has ended.
    pub(super) fn note(&mut self, call: u64, function: &str, ended: bool) {
        let mut record = [b' '; RECORD];
        record[RECORD - 1] = b'\n';
        let state = if ended { "after" } else { "in" };
        // What is too long is cut. A full disk must not end a run that has nothing else to write.
        let _ = write!(&mut record[..RECORD - 1], "{state} call {call}, of `{function}`");
        let _ = self.file.rewind().and_then(|()| self.file.write_all(&record));
    }

    /// Notes why the rank ends.
    pub(super) fn note_failure(&mut self, message: &str) {
        let _ = self.file.rewind().and_then(|()| writeln!(self.file, "{message}"));
    }

    /// Forgets everything: the rank ends well.
    pub(super) fn end(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told() {
        let folder = std::env::temp_dir().join(format!("mesh-last-{}", std::process::id()));
        let mut files = [0, 11].map(|rank| LastStep::new(&folder, rank).unwrap());
        files[0].note(7, "train", false);
        files[1].note(6, "train", false);
        files[1].note(6, &"long".repeat(100), true);
        let left = LastStep::left(&folder);
        assert_eq!(left[0], (0, "in call 7, of `train`".to_owned()));
        assert!(left[1].1.starts_with("after call 6, of `longlong") && left[1].1.len() < RECORD);
        files[0].end();
        assert_eq!(LastStep::left(&folder).len(), 1);
        LastStep::clear(&folder, [11].into_iter());
        assert!(LastStep::left(&folder).is_empty());
        fs::remove_dir(folder).unwrap();
    }
}

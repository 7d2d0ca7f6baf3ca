//! The manifest: what a checkpoint says besides its tensors.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{CheckpointError, Result, State};
use crate::lower::VariableSpec;
use crate::names::{DType, stable_hash};

/// The version of manifests that are written, and the only one that can be read.
pub(super) const VERSION: u64 = 1;

/// The format's name in manifests.
const FORMAT: &str = "mesh checkpoint";

/// The longest manifest that is read, in bytes.
pub(super) const LONGEST: usize = 100_000_000;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: String,
    version: u64,
    pub(super) step: u64,
    pub(super) seed: u64,
    /// The hash that [`signature`] computes.
    pub(super) signature: String,
    pub(super) file: File,
    pub(super) tensors: BTreeMap<String, Entry>,
    pub(super) state: State,
}

/// The file of tensors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct File {
    pub(super) bytes: u64,
    /// The checksum of the header and its length.
    pub(super) header_crc32c: String,
}

/// What the manifest says of a tensor besides the file's header.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) dims: Vec<String>,
    pub(super) trainable: bool,
    pub(super) crc32c: String,
}

/// The fields that manifests of all versions have.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

/// A checksum as manifests write it.
pub(super) fn hex(checksum: u32) -> String {
    format!("{checksum:08x}")
}

/// The last lines of a manifest: the checksum of everything before them.
fn tail(body: &str) -> String {
    format!("  \"crc32c\": \"{}\"\n}}\n", hex(crc32c::crc32c(body.as_bytes())))
}

impl Manifest {
    pub(super) fn new(
        (step, seed): (u64, u64),
        file: File,
        (signature, tensors): (String, BTreeMap<String, Entry>),
        state: &State,
    ) -> Self {
        let (format, version, state) = (FORMAT.to_owned(), VERSION, state.clone());
        Self { format, version, step, seed, signature, file, tensors, state }
    }

    /// The manifest as the text of a file.
    pub(super) fn text(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        let body = text.strip_suffix("\n}").ok_or("a manifest is an object")?.to_owned() + ",\n";
        let text = tail(&body);
        match body.len() + text.len() {
            0..=LONGEST => Ok(body + &text),
            bytes => Err(format!("a manifest of {bytes} bytes is too long: keep less state")),
        }
    }

    /// Reads a manifest that [`text`](Self::text) wrote and refuses any other. The checksum is
    /// verified before the content is parsed.
    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let damaged = |problem: String| CheckpointError::damaged(path, problem);
        let text = str::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
        let split = text.len().checked_sub(tail("").len()).and_then(|at| text.split_at_checked(at));
        if split.is_none_or(|(body, end)| tail(body) != end) {
            return Err(damaged("its checksum is not that of its content".to_owned()));
        }
        let json = |error: serde_json::Error| damaged(format!("it is no manifest: {error}"));
        let head: Head = serde_json::from_str(text).map_err(json)?;
        if head.format != FORMAT {
            return Err(damaged(format!("it is of a {:?}, not of a {FORMAT:?}", head.format)));
        }
        if head.version != VERSION {
            return Err(CheckpointError::Version { path: path.into(), found: head.version });
        }
        serde_json::from_str(text).map_err(json)
    }
}

/// A stable hash of a table of variables: their names, dtypes, global shapes and trainable flags,
/// in any order.
pub(super) fn signature(
    table: impl Iterator<Item = (impl AsRef<str>, DType, impl AsRef<[usize]>, bool)>,
) -> String {
    let line = |(name, dtype, shape, trainable)| {
        let (name, shape): (&str, &[usize]) = (AsRef::as_ref(&name), AsRef::as_ref(&shape));
        format!("{name:?} {dtype}{shape:?} {trainable}\n")
    };
    let mut lines: Vec<String> = table.map(line).collect();
    lines.sort_unstable();
    format!("{:016x}", stable_hash(&lines.concat()))
}

/// The signature of a table of variables.
pub(super) fn signature_of<'v>(variables: impl Iterator<Item = &'v VariableSpec>) -> String {
    signature(variables.map(|v| (&v.name, v.dtype, v.shape.sizes(), v.trainable)))
}

/// The manifest's entry for a variable.
pub(super) fn entry(spec: &VariableSpec, sum: u32) -> Entry {
    let dims = spec.shape.names().map(|name| name.to_string()).collect();
    Entry { dims, trainable: spec.trainable, crc32c: hex(sum) }
}

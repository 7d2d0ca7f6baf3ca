//! A checkpoint on the disk that was found whole.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::header::{self, LENGTH, Place};
use super::manifest::{self, Manifest, hex};
use super::snapshot::Tensor;
use super::tensors::{self, CHUNK};
use super::{CheckpointError, Result, State};
use crate::names::DType;

/// The name of the file of tensors.
pub(super) const TENSORS: &str = "variables.safetensors";

/// The name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// A whole checkpoint: every byte was read and its checksums are right. The file stays open, so it
/// can be restored even if its folder is removed.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    file: File,
    /// The position of the first tensor in the file.
    data: usize,
    places: Vec<Place>,
}

/// A tensor of a checkpoint.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct StoredTensor<'c> {
    /// The variable's name.
    pub name: &'c str,
    /// The dtype of the elements.
    pub dtype: DType,
    /// The global sizes of the dims.
    pub shape: &'c [usize],
    /// The names of its dims.
    pub dims: &'c [String],
    /// Whether the variable was trainable.
    pub trainable: bool,
}

impl Checkpoint {
    /// Opens a checkpoint's folder and reads all of it.
    ///
    /// # Errors
    ///
    /// If the files cannot be read, are not whole, or were written by a later release.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let checkpoint = Self::look(path.as_ref())?;
        let mut buffer = vec![0; CHUNK];
        for index in 0..checkpoint.places.len() {
            checkpoint.check(index, &mut buffer)?;
        }
        Ok(checkpoint)
    }

    /// [`open`](Self::open) without reading the tensors.
    pub(super) fn look(path: &Path) -> Result<Self> {
        let (manifest_path, tensors_path) = (path.join(MANIFEST), path.join(TENSORS));
        let (file, bytes) = regular(&manifest_path)?;
        let text = start_of(&file, &manifest_path, bytes, manifest::LONGEST)?;
        let manifest = Manifest::parse(&text, &manifest_path)?;
        let (file, bytes) = regular(&tensors_path)?;
        let damaged = |problem: String| CheckpointError::damaged(&tensors_path, problem);
        if bytes != manifest.file.bytes {
            let expected = manifest.file.bytes;
            return Err(damaged(format!("it has {bytes} bytes, but was written with {expected}")));
        }
        let head = head(&file, &tensors_path, bytes)?;
        if hex(crc32c::crc32c(&head)) != manifest.file.header_crc32c {
            return Err(damaged("its header is not the one that was written".to_owned()));
        }
        let places = header::parse(&head[LENGTH..]).map_err(damaged)?;
        let data = head.len();
        let end = data.checked_add(header::data_bytes(&places));
        if end.and_then(|end| u64::try_from(end).ok()) != Some(bytes) {
            return Err(damaged("its tensors do not fill it".to_owned()));
        }
        let checkpoint = Self { path: path.to_owned(), manifest, file, data, places };
        checkpoint.agrees().map_err(|problem| CheckpointError::damaged(&manifest_path, problem))?;
        Ok(checkpoint)
    }

    /// Checks that manifest and header name the same variables.
    fn agrees(&self) -> Result<(), String> {
        let Manifest { tensors, signature, .. } = &self.manifest;
        for place in &self.places {
            let entry = tensors.get(&place.name);
            let entry = entry.ok_or_else(|| format!("it does not know `{}`", place.name))?;
            if entry.dims.len() != place.shape.len() {
                return Err(format!("`{}` has {} dims", place.name, place.shape.len()));
            }
        }
        if tensors.len() != self.places.len() {
            return Err(format!("it knows {} tensors of {}", self.places.len(), tensors.len()));
        }
        let table = self.tensors().map(|t| (t.name, t.dtype, t.shape, t.trainable));
        if manifest::signature(table) != *signature {
            return Err("its signature is of other variables".to_owned());
        }
        Ok(())
    }

    /// Reads a tensor in chunks and compares its checksum with the manifest's.
    fn pass(
        &self,
        index: usize,
        buffer: &mut [u8],
        mut found: impl FnMut(Range<usize>, &[u8]),
    ) -> Result<()> {
        let (place, path) = (&self.places[index], self.path.join(TENSORS));
        let mut truths = true;
        let sum = tensors::read(&self.file, self.data, place, buffer, |chunk, part| {
            truths &= place.dtype != DType::Bool || part.iter().all(|&byte| byte <= 1);
            found(chunk, part);
        });
        let sum = sum.map_err(|source| io_error(&path, source))?;
        let expected = self.manifest.tensors.get(&place.name).map(|entry| &entry.crc32c);
        if expected != Some(&hex(sum)) {
            let problem = format!("the bytes of `{}` are not those that were written", place.name);
            return Err(CheckpointError::damaged(path, problem));
        }
        if !truths {
            let problem = format!("`{}` has truth values beside 0 and 1", place.name);
            return Err(CheckpointError::damaged(path, problem));
        }
        Ok(())
    }

    /// Checks that the tensor `index` is as it was written.
    pub(super) fn check(&self, index: usize, buffer: &mut [u8]) -> Result<()> {
        self.pass(index, buffer, |_, _| {})
    }

    /// Fills slices of a variable from the tensor `index`, which has the variable's shape and
    /// dtype.
    pub(super) fn fill(&self, index: usize, tensor: &mut Tensor, buffer: &mut [u8]) -> Result<()> {
        self.pass(index, buffer, tensors::scatter(tensor))
    }

    /// The checkpoint's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The step at which it was saved.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// The seed of the session that was saved.
    pub fn seed(&self) -> u64 {
        self.manifest.seed
    }

    /// What the caller saved besides the variables.
    pub fn state(&self) -> &State {
        &self.manifest.state
    }

    /// The session's [`signature`](crate::session::Session::signature): a hash of the names,
    /// dtypes, shapes and trainable flags of the variables.
    pub fn signature(&self) -> &str {
        &self.manifest.signature
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> impl Iterator<Item = StoredTensor<'_>> {
        self.places.iter().filter_map(|Place { name, dtype, shape, .. }| {
            let entry = self.manifest.tensors.get(name)?;
            let (dims, trainable) = (&entry.dims[..], entry.trainable);
            Some(StoredTensor { name, dtype: *dtype, shape, dims, trainable })
        })
    }
}

fn io_error(path: &Path, source: io::Error) -> CheckpointError {
    CheckpointError::Io { action: "read", path: path.to_owned(), source }
}

/// Opens a regular file. Others are refused, as reading them might never end.
fn regular(path: &Path) -> Result<(File, u64)> {
    if !std::fs::metadata(path).map_err(|source| io_error(path, source))?.is_file() {
        return Err(CheckpointError::damaged(path, "it is not a file"));
    }
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    let bytes = file.metadata().map_err(|source| io_error(path, source))?.len();
    Ok((file, bytes))
}

/// The next `bytes` bytes of a file, if they are at most `most`.
fn start_of(file: &File, path: &Path, bytes: u64, most: usize) -> Result<Vec<u8>> {
    if bytes > most as u64 {
        let problem = format!("{bytes} bytes are too many: at most {most} are read");
        return Err(CheckpointError::damaged(path, problem));
    }
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text).map_err(|source| io_error(path, source))?;
    if text.len() as u64 != bytes {
        return Err(io_error(path, io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(text)
}

/// The header of a file of tensors with the length before it.
fn head(file: &File, path: &Path, bytes: u64) -> Result<Vec<u8>> {
    let damaged = |problem: String| CheckpointError::damaged(path, problem);
    let rest = bytes.checked_sub(LENGTH as u64);
    let rest = rest.ok_or_else(|| damaged(format!("{bytes} bytes are no header")))?;
    let mut head = start_of(file, path, LENGTH as u64, LENGTH)?;
    let length = head.iter().rev().fold(0, |length, &byte| length << 8 | u64::from(byte));
    if length > rest {
        return Err(damaged(format!("it has {rest} bytes for a header of {length}")));
    }
    head.extend(start_of(file, path, length, header::LONGEST)?);
    Ok(head)
}

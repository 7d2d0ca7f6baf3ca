//! A checkpoint that was found whole.

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

/// The file of tensors of a checkpoint.
pub(super) const TENSORS: &str = "variables.safetensors";

/// The manifest of a checkpoint.
pub(super) const MANIFEST: &str = "manifest.json";

/// A checkpoint that is whole: every byte of it was read and counted into a checksum. The file
/// stays open, so it remains what it is, even if the folder is removed.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    file: File,
    /// Where tensors begin in the file.
    data: usize,
    places: Vec<Place>,
}

/// A tensor of a checkpoint.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct StoredTensor<'c> {
    /// The name of the variable that it was.
    pub name: &'c str,
    /// The type of its elements.
    pub dtype: DType,
    /// Global sizes.
    pub shape: &'c [usize],
    /// The names of its dims.
    pub dims: &'c [String],
    /// Whether optimizers updated the variable.
    pub trainable: bool,
}

impl Checkpoint {
    /// Opens a checkpoint's folder and reads all of it; one that is not whole is refused.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let checkpoint = Self::look(path.as_ref())?;
        let mut buffer = vec![0; CHUNK];
        for index in 0..checkpoint.places.len() {
            checkpoint.pass(index, &mut buffer, |_, _| {})?;
        }
        Ok(checkpoint)
    }

    /// As [`open`](Self::open), without reading the tensors.
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

    /// Whether manifest and tensors are of the same variables.
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

    /// Goes through a tensor and compares its checksum with the manifest's.
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

    /// Sets slices of a variable to what a tensor of its shape and dtype has there.
    pub(super) fn fill(&self, index: usize, tensor: &mut Tensor, buffer: &mut [u8]) -> Result<()> {
        self.pass(index, buffer, tensors::scatter(tensor))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The step that it was saved at.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// The seed of the session that it was saved from.
    pub fn seed(&self) -> u64 {
        self.manifest.seed
    }

    /// What the caller kept beside the variables.
    pub fn state(&self) -> &State {
        &self.manifest.state
    }

    /// A hash of the names, dtypes, shapes and trainable flags of the variables: that of
    /// [`Session::signature`](crate::session::Session::signature).
    pub fn signature(&self) -> &str {
        &self.manifest.signature
    }

    /// What is in it, in the order of the file.
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

/// Opens a file; anything else, which could make reading wait for ever, is refused.
fn regular(path: &Path) -> Result<(File, u64)> {
    if !std::fs::metadata(path).map_err(|source| io_error(path, source))?.is_file() {
        return Err(CheckpointError::damaged(path, "it is not a file"));
    }
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    let bytes = file.metadata().map_err(|source| io_error(path, source))?.len();
    Ok((file, bytes))
}

/// The next bytes of a file that has so many left, unless they are more than a bound.
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

/// The header of a file of tensors and the length before it.
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

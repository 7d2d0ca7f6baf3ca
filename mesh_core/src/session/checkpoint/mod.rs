//! Checkpoints: a session's variables in files that are either whole or not there.
//!
//! A [`Snapshot`] is an owned copy of the slices that a session holds. [`Checkpoints`] writes it to
//! a folder of its own; a [`Writer`] does so while training goes on. A [`Checkpoint`] is such a
//! folder that was read and found whole. [`Session::restore`](super::Session::restore) sets a
//! session's variables to it as [`Restore`] says. Mesh and layout of both may differ.
//!
//! ```text
//! DIR/step-0000001200/variables.safetensors   global tensors, row-major, little-endian
//!                     manifest.json           what they are of, and a checksum of every byte
//! ```
//!
//! The file has whole tensors, as one processor would hold them. Slices are written to and read
//! from their places through a buffer of bounded size, so no split tensor is ever whole in memory.
//!
//! Where several processes run one module, each writes its slices into the same file, and rank 0
//! names the checkpoint. The files do not depend on the number of processes.
//!
//! One process at a time saves to a folder of checkpoints: it locks a file there.
//!
//! A checkpoint is written under a hidden name, synced to the disk, and renamed. So a folder with a
//! checkpoint's name is whole unless the disk has failed. Checksums over every byte of both files
//! find that out.

mod attempt;
mod disk;
mod error;
mod folder;
mod header;
mod lock;
mod manifest;
mod restore;
mod runs;
mod snapshot;
mod stored;
mod sums;
mod tensors;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use self::error::{CheckpointError, Differing, Missing, Unfit, Unused};
pub use self::folder::{Checkpoints, Latest, Refused};
pub use self::restore::{Loaded, Restore, Restored};
pub use self::snapshot::Snapshot;
pub use self::stored::{Checkpoint, StoredTensor};
pub use self::writer::Writer;

/// What a caller saves besides the variables: the position in the data, names, settings.
pub type State = BTreeMap<String, String>;

/// The result of an operation on checkpoints.
type Result<T, E = CheckpointError> = std::result::Result<T, E>;

/// Numbers have the same bytes in files and in memory.
const _: () = assert!(cfg!(target_endian = "little"), "checkpoints are little-endian");

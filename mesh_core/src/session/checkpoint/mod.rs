//! Checkpoints: a session's variables in files, whole or not at all.
//!
//! A [`Snapshot`] is an owned copy of the slices that a session holds; [`Checkpoints`] writes it to
//! a folder of its own, or a [`Writer`] does so beside training. A [`Checkpoint`] is such a folder,
//! looked through and found whole; [`Session::restore`](super::Session::restore) sets the variables
//! of any session to it as [`Restore`] says, whatever the mesh and layout of either.
//!
//! ```text
//! DIR/step-0000001200/variables.safetensors   global tensors, row-major, little-endian
//!                     manifest.json           what they are of, and a checksum of every byte
//! ```
//!
//! Tensors lie in the file as on one processor. Slices go to their places, and come from there,
//! through a buffer of bounded size: nothing that is split is ever whole in memory.
//!
//! Of several processes that run one module each writes what it has, all into one file; the first
//! commits it. On every number of them, and on threads, the files are the same.
//!
//! One process at a time saves to a folder of checkpoints: it has a lock on a file there.
//!
//! A folder is written under another name, brought to the disk, and renamed. So what has the name
//! of a checkpoint is whole, unless the disk has failed; and then it is refused, since every byte
//! of both files counts into a checksum.

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

/// What a caller keeps beside the variables: where the data stand, names, settings.
pub type State = BTreeMap<String, String>;

/// The result of what is done with checkpoints.
type Result<T, E = CheckpointError> = std::result::Result<T, E>;

/// Files hold numbers as memory does.
const _: () = assert!(cfg!(target_endian = "little"), "checkpoints are little-endian");

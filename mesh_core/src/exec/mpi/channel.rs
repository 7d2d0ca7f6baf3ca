//! What names ranks to MPI: communicators, and members of groups as messages address them.

use std::ffi::{CString, c_int};

use mpi::ffi;

use super::super::sync::Arc;
use crate::names::{Axis, ProcessMap};

/// What names a communicator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Channel(pub(super) ffi::MPI_Comm);

// SAFETY: a handle, which MPI lets any thread use; see `World::guard`.
unsafe impl Send for Channel {}
// SAFETY: it is a handle, which threads that share it only copy; see `World::guard` for MPI's own calls.
unsafe impl Sync for Channel {}

impl Channel {
    /// Those of its ranks that are on this one's host, and how many. All call this.
    pub(super) fn on_host(self) -> Result<(Self, usize), String> {
        let (mut shared, mut ranks) = (self, 0);
        // SAFETY: a communicator of ours; the result is the caller's.
        unsafe {
            let (kind, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
            check(ffi::MPI_Comm_split_type(self.0, kind, 0, info, &mut shared.0))?;
            check(ffi::MPI_Comm_size(shared.0, &mut ranks))?;
        }
        Ok((shared, ranks as usize))
    }

    /// Gives it the name by which profilers know it, and has it report errors.
    pub(super) fn entitle(self, name: &str) -> Result<(), String> {
        let name = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: a communicator of ours; MPI copies the name, as much as it has room for.
        unsafe {
            check(ffi::MPI_Comm_set_errhandler(self.0, ffi::RSMPI_ERRORS_RETURN))?;
            check(ffi::MPI_Comm_set_name(self.0, name.as_ptr()))
        }
    }
}

/// Some ranks, or all.
pub(super) struct Communicator {
    pub(super) channel: Channel,
    /// Which of all they are, ascending.
    pub(super) ranks: Vec<usize>,
}

/// A set of axes, ascending.
pub(super) type AxisSet = Vec<Axis>;

/// What a communicator was made for.
pub(super) type Known = Vec<((ProcessMap, AxisSet), Arc<Communicator>)>;

/// A member of a group as messages address it. Messages between two members have tags of their own,
/// so groups need none: each member sends and receives in the order of its program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Address {
    pub(super) channel: Channel,
    /// What the channel calls its rank.
    pub(super) number: c_int,
    /// Its rank among all.
    pub(super) rank: usize,
    /// The tag of what is sent there.
    pub(super) to: c_int,
    /// The tag of what is received from there.
    pub(super) from: c_int,
}

/// What MPI says of a call that failed.
pub(super) fn check(code: c_int) -> Result<(), String> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let (mut text, mut length) = ([0_u8; ffi::MPI_MAX_ERROR_STRING as usize], 0);
    // SAFETY: as long as it may be.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) };
    let text = &text[..(length.max(0) as usize).min(text.len())];
    Err(format!("MPI: {}", String::from_utf8_lossy(text)))
}

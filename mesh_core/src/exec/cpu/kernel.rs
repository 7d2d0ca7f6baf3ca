//! What every kernel is: a step made ready, and the memory it works on.

use super::fetch::Coming;
use crate::program::ValueId;

/// Where one processor's values lie.
pub(crate) struct Memory {
    /// One pointer per value of the program, aligned to 64 bytes; feeds that lie in callers' arrays are
    /// aligned to their elements.
    pub(crate) pointers: Vec<*mut u8>,
    /// What is read by the next iteration of the loop whose values these are.
    pub(crate) coming: Coming,
}

impl Memory {
    /// Of values that lie there. Nothing comes.
    pub(crate) fn new(pointers: Vec<*mut u8>) -> Self {
        Self { pointers, coming: Coming::default() }
    }

    /// Where a value lies.
    pub(crate) fn pointer(&self, value: ValueId) -> *mut u8 {
        self.pointers[value.index()]
    }
}

/// A step made ready to run on one processor.
pub(crate) trait Kernel: Send {
    /// Bytes of scratch that `run` needs.
    fn scratch_bytes(&self) -> usize {
        0
    }

    /// Does the step.
    ///
    /// # Safety
    ///
    /// Every pointer of `memory` that the step names is valid for its value's bytes and aligned to its
    /// elements. Outs overlap no input, but for an out of a `Map` that coincides with an input of
    /// equal extents, order and element size whose labels are its own dims, and for a `Put` into what it makes. `scratch` is aligned to 64 bytes, valid for [`Kernel::scratch_bytes`], and overlaps
    /// nothing else.
    unsafe fn run(&self, memory: &Memory, scratch: *mut u8);
}

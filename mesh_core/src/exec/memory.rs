//! What a processor's values live in.
#![allow(unsafe_code, reason = "allocates memory that several threads reach by pointer")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::sync::Arc;
use crate::program::ALIGNMENT;

/// Zeroed memory, aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub(crate) struct Buffer {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a buffer is memory without meaning; whoever goes through its pointer answers for who else
// does.
unsafe impl Send for Buffer {}
// SAFETY: nothing of it changes; sharing it dereferences no pointer.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// At least `bytes` zeros.
    pub(crate) fn zeroed(bytes: usize) -> Result<Self, String> {
        // Small alignments get their zeros from the system, page by page as they are touched;
        // large ones are written by the allocator. So the alignment is made in `pointer`.
        let padded =
            bytes.checked_next_multiple_of(ALIGNMENT).and_then(|b| b.checked_add(ALIGNMENT));
        let layout = padded.and_then(|bytes| Layout::from_size_align(bytes, 8).ok());
        let allocated = layout.and_then(|layout| {
            // SAFETY: the size is not 0.
            let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
            Some(Self { base, layout })
        });
        allocated.ok_or_else(|| format!("there is no memory for {bytes} bytes"))
    }

    /// The first byte.
    pub(crate) fn pointer(&self) -> *mut u8 {
        let base = self.base.as_ptr();
        base.wrapping_add(base.align_offset(ALIGNMENT))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// Everything one processor writes to.
#[derive(Debug)]
pub(crate) struct Store {
    /// Values of the function that runs; as large as the largest plan.
    pub(crate) arena: Buffer,
    /// The processor's slice of each variable, which crews may share that write none.
    pub(crate) variables: Arc<[Buffer]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeros() {
        for bytes in [0, 1, 64, 1000] {
            let buffer = Buffer::zeroed(bytes).unwrap();
            assert!(buffer.pointer().addr().is_multiple_of(ALIGNMENT));
            // SAFETY: this long, and nobody else's.
            let content = unsafe { std::slice::from_raw_parts(buffer.pointer(), bytes) };
            assert!(content.iter().all(|&byte| byte == 0));
        }
        let error = Buffer::zeroed(usize::MAX).unwrap_err();
        assert!(error.contains("no memory"), "{error}");
    }
}

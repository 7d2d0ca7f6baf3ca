//! What a processor's values live in.
#![allow(unsafe_code, reason = "allocates memory that several threads reach by pointer")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use memmap2::MmapMut;

use super::cpu::cache;
use super::sync::{Arc, AtomicUsize, Ordering};
use crate::program::ALIGNMENT;

/// Bytes of the large pages that processors have. Where buffers fill some they are made of them: a processor
/// then looks up few addresses of pages, and streams a quarter faster through what no cache holds. Through what a near
/// cache holds it streams a tenth slower.
const LARGE_PAGE: usize = 2 << 20;

/// Bytes between the beginnings of buffers within their large pages, of which there are so many: what begins at
/// the same place of its page shares sets of the caches, and a kernel reads and writes several at a time.
const STAGGER: (usize, usize) = (4096 + 256, 16);

/// Zeroed memory, aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub(crate) enum Buffer {
    /// Less than a large page, or near in any.
    Small { base: NonNull<u8>, layout: Layout },
    /// Pages, which several buffers may share; this one begins at this byte.
    Pages { pages: Arc<MmapMut>, begin: usize },
}

// SAFETY: a buffer is memory without meaning; whoever goes through its pointer answers for who else
// does.
unsafe impl Send for Buffer {}
// SAFETY: nothing of it changes; sharing it dereferences no pointer.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// At least `bytes` zeros, from the system, page by page as they are touched.
    pub(crate) fn zeroed(bytes: usize) -> Result<Self, String> {
        if bytes >= LARGE_PAGE.max(cache::near() / 4) {
            return pages(bytes).map(|(pages, begin)| Self::Pages { pages, begin });
        }
        // An allocator writes the zeros of a larger alignment itself. So the alignment is made in `pointer`.
        let padded = bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let layout = Layout::from_size_align(padded, 8).map_err(|_| lack(bytes))?;
        // SAFETY: the size is not 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| lack(bytes))?;
        Ok(Self::Small { base, layout })
    }

    /// A buffer of at least so many zeros for each number of bytes. Those that are smaller than a large page share
    /// pages if all of them fill one.
    pub(crate) fn together(bytes: &[usize]) -> Result<Arc<[Self]>, String> {
        let apart = |bytes: usize| if bytes < STAGGER.0 { 0 } else { STAGGER.0 };
        let room = |bytes: usize| bytes.next_multiple_of(ALIGNMENT) + apart(bytes);
        let shares = |bytes: usize| (1..LARGE_PAGE).contains(&bytes);
        let total = bytes.iter().filter(|&&bytes| shares(bytes)).map(|&bytes| room(bytes)).sum();
        let mut shared = if total >= LARGE_PAGE { Some(pages(total)?) } else { None };
        let made = bytes.iter().map(|&bytes| match &mut shared {
            Some((pages, next)) if shares(bytes) => {
                let begin = *next;
                *next += room(bytes);
                Ok(Self::Pages { pages: Arc::clone(pages), begin })
            }
            _ => Self::zeroed(bytes),
        });
        made.collect()
    }

    /// The first byte.
    pub(crate) fn pointer(&self) -> *mut u8 {
        match self {
            Self::Small { base, .. } => {
                let base = base.as_ptr();
                base.wrapping_add(base.align_offset(ALIGNMENT))
            }
            Self::Pages { pages, begin } => pages.as_ptr().cast_mut().wrapping_add(*begin),
        }
    }
}

/// Pages with so many zeros from the byte on.
fn pages(bytes: usize) -> Result<(Arc<MmapMut>, usize), String> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let (step, places) = STAGGER;
    let place = step * (MADE.fetch_add(1, Ordering::Relaxed) % places);
    let mapped = bytes.checked_add(LARGE_PAGE + step * places).map(MmapMut::map_anon);
    let pages = mapped.and_then(Result::ok).ok_or_else(|| lack(bytes))?;
    let first = pages.as_ptr().align_offset(LARGE_PAGE);
    let large = place + bytes;
    // The rest of the last page stays in small ones. A system that has no large pages goes on without.
    #[cfg(target_os = "linux")]
    let _ = pages.advise_range(memmap2::Advice::HugePage, first, large - large % LARGE_PAGE);
    Ok((Arc::new(pages), first + place))
}

fn lack(bytes: usize) -> String {
    format!("there is no memory for {bytes} bytes")
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Self::Small { base, layout } = self {
            // SAFETY: allocated in `zeroed` with this layout.
            unsafe { dealloc(base.as_ptr(), *layout) }
        }
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
        for bytes in [0, 1, 64, 1000, LARGE_PAGE - 1, LARGE_PAGE, 3 * LARGE_PAGE + 5] {
            let buffer = Buffer::zeroed(bytes).unwrap();
            assert!(buffer.pointer().addr().is_multiple_of(ALIGNMENT));
            // SAFETY: this long, and nobody else's.
            let content = unsafe { std::slice::from_raw_parts(buffer.pointer(), bytes) };
            assert!(content.iter().all(|&byte| byte == 0));
        }
        let sizes = [1000, 0, LARGE_PAGE - 64, 4096, LARGE_PAGE, 64, LARGE_PAGE / 2];
        let buffers = Buffer::together(&sizes).unwrap();
        for (own, (buffer, &bytes)) in (1u8..).zip(buffers.iter().zip(&sizes)) {
            assert!(buffer.pointer().addr().is_multiple_of(ALIGNMENT));
            // SAFETY: this long, and nobody else's.
            let content = unsafe { std::slice::from_raw_parts_mut(buffer.pointer(), bytes) };
            assert!(content.iter().all(|&byte| byte == 0), "buffer {own} overlaps one before");
            content.fill(own);
        }
        drop(buffers);
        let error = Buffer::zeroed(usize::MAX).unwrap_err();
        assert!(error.contains("no memory"), "{error}");
    }
}

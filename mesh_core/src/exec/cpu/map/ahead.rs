//! The next tile is asked for while this one is computed: a tile's instructions work in the first
//! cache, and memory would be idle meanwhile.

use super::{Frame, Place};
use crate::exec::cpu::Memory;
use crate::exec::cpu::strided::Nest;

/// Bytes a map has to meet for this to pay; less is in the caches anyway.
const LARGE: usize = 1 << 20;
const LINE: usize = 64;

/// The places whose next tile follows this one in memory, one bit each; none if a map of so many
/// elements is small.
pub(super) fn streams(places: &[Place], elements: usize) -> u64 {
    let bytes: usize = places.iter().map(|place| place.size * elements).sum();
    let follows = |pattern: &Nest| match &pattern.loops[..] {
        [all] => all.strides.iter().all(|&stride| stride == 1),
        _ => false,
    };
    let found = places.iter().enumerate().take(64).filter(|(_, place)| follows(&place.pattern));
    if bytes < LARGE { 0 } else { found.fold(0, |bits, (k, _)| bits | 1 << k) }
}

/// Of some places, those that share no memory with one before.
pub(super) fn apart(streams: u64, places: &[Place], memory: &Memory) -> u64 {
    let at = |k: usize| memory.pointer(places[k].value);
    let repeats = |k: usize| (0..k).any(|before| streams >> before & 1 == 1 && at(before) == at(k));
    let repeated = (0..places.len().min(64)).filter(|&k| repeats(k));
    repeated.fold(streams, |bits, k| bits & !(1 << k))
}

impl Frame<'_> {
    /// Asks for part `part` of `parts` of the next tile, which begins `len` elements on and has
    /// `next`.
    #[inline]
    pub(super) fn ask_ahead(&self, len: usize, next: usize, [part, parts]: [usize; 2]) {
        let mut left = if next == 0 { 0 } else { self.streams };
        while left != 0 {
            let k = left.trailing_zeros() as usize;
            left &= left - 1;
            let size = self.map.places[k].size;
            let (begin, lines) = (self.place(k).wrapping_add(len * size), (next * size) / LINE);
            for line in lines * part / parts..lines * (part + 1) / parts {
                prefetch(begin.wrapping_add(line * LINE));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; no address is wrong.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch(_: *const u8) {}

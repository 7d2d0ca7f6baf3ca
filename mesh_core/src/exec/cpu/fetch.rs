//! Memory is asked for before it is read, so that it comes near while something else is computed.

use std::cell::Cell;

/// Bytes that come at once.
pub(super) const LINE: usize = 64;

/// What a loop's next iteration reads from memory: asked for bit by bit by the maps and folds of this one, whose
/// instructions work in the first cache.
#[derive(Default)]
pub(crate) struct Coming {
    /// Where parts begin, and how many lines they have.
    parts: Vec<(*const u8, usize)>,
    /// The part that is asked for, and how many of its lines have been.
    at: Cell<(usize, usize)>,
}

impl Coming {
    /// Of so many parts at most.
    pub(crate) fn of(parts: usize) -> Self {
        Self { parts: Vec::with_capacity(parts), at: Cell::default() }
    }

    /// Nothing comes.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.at.set((0, 0));
    }

    /// These bytes come as well.
    pub(crate) fn add(&mut self, from: *const u8, bytes: usize) {
        self.parts.push((from, bytes.div_ceil(LINE)));
    }

    /// Asks for as many lines more as come while an instruction works on so many elements.
    #[inline]
    pub(super) fn ask(&self, elements: usize) {
        const PER_LINE: usize = 48;
        let (part, asked) = self.at.get();
        if let Some(&(from, count)) = self.parts.get(part) {
            let now = (elements / PER_LINE).min(count - asked);
            for line in asked..asked + now {
                to_second(from.wrapping_add(line * LINE));
            }
            let is_over = asked + now == count;
            self.at.set(if is_over { (part + 1, 0) } else { (part, asked + now) });
        }
    }
}

macro_rules! fetches {
    ($($(#[$doc:meta])* $name:ident $hint:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub(super) fn $name(at: *const u8) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a hint; no address is wrong.
            unsafe {
                use std::arch::x86_64::{_mm_prefetch, $hint};
                _mm_prefetch::<$hint>(at.cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = at;
        }
    )*};
}

/// Asks for every line of a run of memory. A processor by itself fetches ahead no further than to the end of a page, and
/// not while arithmetic fills what it looks at.
#[inline(always)]
pub(super) fn run(from: *const u8, bytes: usize, ask: fn(*const u8)) {
    for at in (0..bytes).step_by(LINE) {
        ask(from.wrapping_add(at));
    }
}

fetches! {
    /// Asks for a line, which comes to the first cache.
    to_first _MM_HINT_T0;
    /// Asks for a line, which comes to the second cache.
    to_second _MM_HINT_T1;
    /// Asks for a line, which comes to the first cache and is to be written.
    to_write _MM_HINT_ET0;
}

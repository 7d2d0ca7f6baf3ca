//! Images with zeros around them.

use super::naive::window_labels;
use crate::exec::cpu::strided::{Labels, Loop, Nest, Strides, copy};
use crate::program::Window;

/// How an image is copied into zeros.
pub(super) struct Padding {
    /// Strides: image, padded image.
    nest: Nest,
    to: isize,
    /// Elements of a padded image.
    pub(super) len: usize,
}

impl Padding {
    pub(super) fn new(
        labels: &Labels,
        padded: &Labels,
        windows: &[Window],
        order: &[usize],
        image: usize,
        len: usize,
    ) -> Self {
        let mut nest = Nest { operands: 2, ..Nest::default() };
        let mut to = 0;
        for &l in order {
            let mut extent = labels.extents[l];
            if let Some(w) = windows.iter().find(|w| w.input as usize == l) {
                let [_, k, o] = window_labels(w).map(|l| labels.extents[l]);
                let reach = w.stride * (o - 1) + w.dilation * (k - 1) + 1;
                extent = extent.min(reach.saturating_sub(w.pad));
                to += w.pad as isize * padded.strides[image][l];
            }
            let strides = [labels.strides[image][l], padded.strides[image][l]];
            nest.loops.push(Loop { extent, strides: Strides::from_slice(&strides) });
        }
        let is_empty = nest.loops.iter().any(|l| l.extent == 0);
        let nest = if is_empty { nest } else { nest.collapse() };
        Self { nest, to, len }
    }

    /// # Safety
    ///
    /// Both sides are valid for an image.
    pub(super) unsafe fn copy(&self, size: usize, from: *const u8, to: *mut u8) {
        if self.nest.loops.iter().any(|l| l.extent == 0) {
            return;
        }
        let first = self.nest.loops.first().map_or(1, |l| l.extent);
        // SAFETY: the interior lies within both.
        unsafe {
            copy(&self.nest.loops, first, size, from, to.offset(self.to * size as isize));
        }
    }
}

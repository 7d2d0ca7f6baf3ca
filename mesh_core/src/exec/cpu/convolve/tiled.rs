//! Forward convolution and the gradient of the image by register tiles: rows of a tile are positions of the
//! result, its steps taps and channels.
//!
//! The source is read where it lies, the kernel is packed in panels of columns. Positions at the ends of images
//! leave out the taps that lie beyond.

use super::matrices::{self, Ends, Matrices, Tap};
use super::parts::Parts;
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::product::{Product, aligned};
use crate::exec::cpu::strided::Labels;
use crate::exec::cpu::tiles::{MOST, Run, Tile, Tiled, Tiles, pack_panel};
use crate::exec::cpu::transpose::{Transpose, transpose};
use crate::program::Window;
use std::ops::Range;

/// Bytes of the source's images that go together.
const SOURCE: usize = 768 << 10;
/// Bytes of a panel that stay in the second-level cache while rows go by.
const PANEL: usize = 320 << 10;
/// Fewer rows than these leave sums waiting for each other.
const FEW_ROWS: usize = 4;
/// A kernel of more positions has too many parts to list the taps of each.
const MOST_TAPS: usize = 1024;

/// Positions with the same taps.
struct Part {
    /// Per position of an image: offsets in source and result.
    rows: Vec<[isize; 2]>,
    /// Elements of source and panel, group by group of the panel's rows.
    groups: Vec<Vec<Run>>,
}

pub(super) struct ByTiles<T> {
    matrices: Matrices,
    parts: Vec<Part>,
    /// Offsets of the kernel's positions, as they are packed.
    taps: Vec<isize>,
    /// Images that go together.
    images: usize,
    tiles: Tiles<T>,
    transpose: Transpose<T>,
}

impl<T: Tiled> ByTiles<T> {
    /// `None` where a vector does not lie as one, or the machine has no tiles.
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: &Parts) -> Option<Self> {
        let tiles = T::tiles(isa())?;
        let mut matrices = Matrices::new(labels, windows, parts, Ends::Padded)?;
        let images = |of: &Matrices| {
            let [first, next] = [0, 1].map(|i| of.images.get(i).map_or(0, |image| image[0]));
            let len = of.padded.as_ref().map_or(first.abs_diff(next), |padded| padded.len);
            (SOURCE / (len * size_of::<T>()).max(1)).clamp(1, of.images.len())
        };
        if matrices.parts.iter().all(|part| part.taps.len() <= MOST_TAPS) {
            let clipped = Matrices::new(labels, windows, parts, Ends::Clipped)?;
            let [of, with] = [&clipped, &matrices].map(|of| work(of, &tiles, images(of)));
            if of <= with {
                matrices = clipped;
            }
        }
        if matrices.makes_kernel() || matrices.columns.0 > 1 && matrices.columns.1[1] != 1 {
            return None;
        }
        let mut parts = std::mem::take(&mut matrices.parts);
        // Taps of the largest parts follow each other in panels as they do in the source.
        parts.sort_by_key(|part| std::cmp::Reverse(part.taps.len()));
        let mut taps: Vec<isize> = Vec::new();
        for tap in parts.iter().flat_map(|part| &part.taps) {
            if !taps.contains(&tap.kernel) {
                taps.push(tap.kernel);
            }
        }
        let depth = matrices.depth.0;
        let most = (PANEL / (tiles.width() * size_of::<T>())).max(1);
        let all = taps.len() * depth;
        let group = all.div_ceil(all.div_ceil(most).max(1)).max(1);
        let fits = all.max(matrices.padded_len(1)) <= i32::MAX as usize;
        let part = |part: &matrices::Part| {
            let run = |tap: &Tap| {
                let row = taps.iter().position(|&at| at == tap.kernel)? * depth;
                Some(Run { a: tap.source as i32, b: row as i32, len: depth as u32 })
            };
            let runs = part.taps.iter().filter_map(run);
            Part { rows: part.rows.clone(), groups: groups(runs, group, all) }
        };
        let parts = parts.iter().map(part).collect();
        let images = images(&matrices);
        fits.then(|| Self { matrices, parts, taps, images, tiles, transpose: transpose::<T>() })
    }

    /// Rows of a panel.
    fn depth(&self) -> usize {
        self.taps.len() * self.matrices.depth.0
    }

    /// Whether all images go together: then a panel is packed when its turn comes, and stays in the second-level cache.
    fn at_once(&self) -> bool {
        self.matrices.images.len() <= self.images
    }

    /// Elements of padded images and of what is packed of the kernel.
    fn lens(&self) -> [usize; 2] {
        let all = self.tiles.padded(self.matrices.columns.0);
        let columns = if self.at_once() { all.min(self.tiles.width()) } else { all };
        [self.matrices.padded_len(self.images), self.depth() * columns]
    }
}

/// Steps of tiles of all images, of which so many go together, each as long as that of [`FEW_ROWS`] rows at least.
fn work<T: Tiled>(matrices: &Matrices, tiles: &Tiles<T>, images: usize) -> usize {
    let part = |part: &matrices::Part| {
        let rows = tiles.cut(part.rows.len() * images).map(|rows| rows.len().max(FEW_ROWS));
        part.taps.len() * rows.sum::<usize>()
    };
    matrices.parts.iter().map(part).sum::<usize>() * matrices.images.len() / images
}

/// Joins runs that follow each other, and cuts them at multiples of `group` rows of a panel of `all`.
fn groups(runs: impl Iterator<Item = Run>, group: usize, all: usize) -> Vec<Vec<Run>> {
    let mut groups: Vec<Vec<Run>> = vec![Vec::new(); all.div_ceil(group).max(1)];
    for mut run in runs {
        while run.len > 0 {
            let at = run.b as usize / group;
            let len = run.len.min(((at + 1) * group) as u32 - run.b as u32);
            let follows = |last: &&mut Run| {
                let len = last.len as i32;
                last.a + len == run.a && last.b + len == run.b
            };
            match groups[at].last_mut().filter(follows) {
                Some(last) => last.len += len,
                None => groups[at].push(Run { len, ..run }),
            }
            run = Run { a: run.a + len as i32, b: run.b + len as i32, len: run.len - len };
        }
    }
    groups
}

impl<T: Tiled> Product for ByTiles<T> {
    fn scratch_bytes(&self) -> usize {
        self.lens().iter().map(|&len| aligned(len, size_of::<T>())).sum()
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, scratch: *mut u8) {
        let operands = [lhs, rhs, out.cast_const()];
        let [source, kernel, result] = self.matrices.roles.map(|k| operands[k].cast::<T>());
        let len = self.lens()[0];
        let padded = scratch.cast::<T>();
        let packed = scratch.wrapping_add(aligned(len, size_of::<T>())).cast::<T>();
        // SAFETY: scratch has room for both parts; the rest are offsets of the plan.
        unsafe {
            std::slice::from_raw_parts_mut(padded, len).fill(T::default());
            self.matrices.groups.walk([0; 3], &mut |[s, k, r]| {
                let (source, kernel) = (source.offset(s), kernel.offset(k));
                let result = result.offset(r).cast_mut();
                let panels = || self.tiles.panels(self.matrices.columns.0);
                let place = |first: usize| packed.wrapping_add(first * self.depth());
                if !self.at_once() {
                    panels().for_each(|panel| self.pack(panel, kernel, place(panel[0])));
                }
                let all = self.matrices.images.len();
                for first in (0..all).step_by(self.images) {
                    let images = first..all.min(first + self.images);
                    let source = self.matrices.pad(source, images.clone(), padded);
                    for panel in panels() {
                        let mut at = place(panel[0]);
                        if self.at_once() {
                            at = packed;
                            self.pack(panel, kernel, at);
                        }
                        self.panel(panel, images.clone(), [source, at], result);
                    }
                }
            });
        }
    }
}

impl<T: Tiled> ByTiles<T> {
    /// Packs a panel of the kernel's columns.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn pack(&self, [first, count, width]: [usize; 3], kernel: *const T, to: *mut T) {
        let Matrices { columns: (_, [column, _]), depth: (depth, row), .. } = self.matrices;
        for (i, tap) in self.taps.iter().enumerate() {
            let to = to.wrapping_add(i * depth * width);
            // SAFETY: a position of the kernel; `to` has room for all.
            unsafe {
                let from = kernel.offset(tap + first as isize * column);
                pack_panel(from, [row, column], [depth, count, width], self.transpose, to);
            }
        }
    }

    /// A panel of the result in some images.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn panel(
        &self,
        [first, count, width]: [usize; 3],
        images: Range<usize>,
        [source, packed]: [*const T; 2],
        to: *mut T,
    ) {
        let to = to.wrapping_add(first);
        for part in &self.parts {
            for (i, runs) in part.groups.iter().enumerate() {
                let (from, to) = (&[source; MOST], &[to; MOST]);
                let tile = Tile { rows: from, runs, step: 1, b: packed, to, accumulate: i > 0 };
                // SAFETY: the caller's operands and packed kernel.
                unsafe { self.tiles(&part.rows, images.clone(), [count, width], tile) };
            }
        }
    }

    /// All rows of a part in some images; those of `tile` begin at the first image.
    ///
    /// # Safety
    ///
    /// As [`Product::run`].
    unsafe fn tiles(
        &self,
        rows: &[[isize; 2]],
        images: Range<usize>,
        columns: [usize; 2],
        tile: Tile<'_, T>,
    ) {
        let (source, result) = (tile.rows[0], tile.to[0]);
        let (mut from, mut to) = (*tile.rows, *tile.to);
        let (mut image, mut position) = (images.start, 0);
        let place = |image: usize| {
            let [at, to] =
                [self.matrices.image(images.start, image), self.matrices.images[image][1]];
            (source.wrapping_offset(at), result.wrapping_offset(to))
        };
        let mut begin = place(image);
        for range in self.tiles.cut(images.len() * rows.len()) {
            for p in 0..range.len() {
                if position == rows.len() {
                    (image, position) = (image + 1, 0);
                    begin = place(image);
                }
                from[p] = begin.0.wrapping_offset(rows[position][0]);
                to[p] = begin.1.wrapping_offset(rows[position][1]);
                position += 1;
            }
            let tile = Tile { rows: &from, to: &to, ..tile };
            // SAFETY: the rows' taps lie within the source, their columns in the result.
            unsafe { self.tiles.run(range.len(), columns, tile) };
        }
    }
}

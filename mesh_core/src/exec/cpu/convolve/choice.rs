//! Which way is the fastest for a convolution, as `benches/convolve.rs` found it.

use super::parts::Parts;
use crate::exec::cpu::cache;
use crate::exec::cpu::isa::{Isa, isa};
use crate::exec::cpu::strided::Labels;
use crate::program::Window;

/// Fewest columns of products that pay for gathering, where windows move by one and where not.
const COLUMNS: usize = 64;
const COLUMNS_OF_STRIDES: usize = 32;
/// Fewest columns for the kernel's gradient.
const COLUMNS_OF_KERNEL: usize = 48;
/// With fewer channels, register blocks begin too often.
const CHANNELS: usize = 12;
/// Elements of a kernel that leaves the second-level cache between one block of positions and the
/// next, and positions that are few for reading it.
const LARGE_KERNEL: usize = 256 << 10;
const FEW_POSITIONS: usize = 1024;

/// Fewest taps and columns for tiles.
const TAPS: usize = 4;
const COLUMNS_OF_TILES: usize = 32;

/// The ways for convolutions whose channels meet.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::exec::cpu) enum Way {
    Tiles,
    Gathered,
    Blocks,
}

#[cfg(test)]
thread_local! {
    /// What a test wants instead of the choice.
    pub(in crate::exec::cpu) static WANTED: std::cell::Cell<Option<Way>> =
        const { std::cell::Cell::new(None) };
}

/// Whether tiles are the fastest way, of elements of so many bytes.
pub(super) fn tiles(labels: &Labels, windows: &[Window], parts: &Parts, size: usize) -> bool {
    #[cfg(test)]
    if let Some(wanted) = WANTED.get() {
        return wanted == Way::Tiles;
    }
    let len = |of: &[usize]| of.iter().map(|&l| labels.extents[l]).product::<usize>();
    let taps = windows.iter().map(|w| labels.extents[usize::from(w.kernel)]).product::<usize>();
    let (channels, features) = (len(&parts.channels), len(&parts.features));
    let [image, kernel, _] = parts.roles;
    if kernel == 2 {
        let is_deep = taps >= TAPS && channels >= CHANNELS;
        return isa() != Isa::Portable && features >= COLUMNS_OF_TILES && is_deep;
    }
    let columns = if image == 2 { channels } else { features };
    let shares = shares_sets(labels, windows, parts, size) && gathers(labels, windows, parts);
    isa() == Isa::Avx512 && columns >= COLUMNS_OF_TILES && !shares
}

/// Whether the positions that a tile reads lie in one set of a first cache that holds fewer lines of it: 82 GFLOP/s where
/// products of what is gathered make 105 (Zen 4).
fn shares_sets(labels: &Labels, windows: &[Window], parts: &Parts, size: usize) -> bool {
    let [image, _, out] = parts.roles;
    let step = windows.last().map_or(0, |w| match image {
        2 => labels.strides[out][usize::from(w.output)],
        _ => labels.strides[image][usize::from(w.input)] * w.stride as isize,
    });
    cache::is_narrow() && (step.unsigned_abs() * size).is_multiple_of(cache::ALIKE)
}

/// Whether there is a choice: a test may want one of the ways for many channels.
pub(super) fn is_free() -> bool {
    #[cfg(test)]
    if WANTED.get().is_some() {
        return false;
    }
    true
}

/// Whether products of gathered windows are faster than register blocks.
pub(super) fn gathers(labels: &Labels, windows: &[Window], parts: &Parts) -> bool {
    #[cfg(test)]
    if let Some(wanted) = WANTED.get() {
        return wanted == Way::Gathered;
    }
    let len = |of: &[usize]| of.iter().map(|&l| labels.extents[l]).product::<usize>();
    let [image, kernel, _] = parts.roles;
    let (channels, features) = (len(&parts.channels), len(&parts.features));
    if kernel == 2 {
        return features >= COLUMNS_OF_KERNEL;
    }
    let (summed, columns) = if image == 2 { (features, channels) } else { (channels, features) };
    if windows.iter().any(|w| w.stride > 1) {
        return columns >= COLUMNS_OF_STRIDES;
    }
    let over = |label: fn(&Window) -> u8| {
        windows.iter().map(|w| labels.extents[usize::from(label(w))]).product::<usize>()
    };
    let positions = len(&parts.batch) * over(if image == 2 { |w| w.input } else { |w| w.output });
    let large = over(|w| w.kernel) * channels * features > LARGE_KERNEL;
    let few = large && positions < FEW_POSITIONS;
    columns >= COLUMNS && (few || summed < CHANNELS)
}

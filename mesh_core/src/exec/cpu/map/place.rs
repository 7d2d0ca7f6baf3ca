//! What a map reads or writes.

use crate::exec::cpu::strided::Nest;
use crate::program::ValueId;

/// An input or out at run time.
pub(super) struct Place {
    pub(super) value: ValueId,
    /// Bytes from where the value lies to what is read of it first.
    pub(super) offset: usize,
    pub(super) size: usize,
    /// Gathers (or for outs, scatters) a tile.
    pub(super) pattern: Nest,
    /// Bytes from one turn of the cut loop to the next.
    pub(super) step: isize,
}

//! A map made ready to run.

use super::ahead::Ahead;
use super::code::{At, Op};
use super::fold::Fold;
use super::place::Place;
use crate::exec::cpu::strided::{Loop, Nest};

/// What a map reads and writes, its instructions, and its loops.
pub(super) struct Map {
    /// Inputs, then outs.
    pub(super) places: Vec<Place>,
    pub(super) inputs: usize,
    pub(super) ops: Vec<Op<At>>,
    /// What the registers hold before the first tile.
    pub(super) pool: Vec<u64>,
    /// Tile registers behind the pool.
    pub(super) slots: usize,
    /// Per out, bytes from the registers' beginning to where it is made while it overlaps an input that
    /// is read too late.
    pub(super) aside: Vec<usize>,
    /// Per out and input, whether the out may be made where the input lies.
    pub(super) may_take: Vec<bool>,
    /// Loops over tiles' starts.
    pub(super) outer: Nest,
    /// The loop that is cut into tiles.
    pub(super) cut: Loop,
    /// Turns of `cut` per tile.
    pub(super) chunk: usize,
    /// Whether a tile may be of all turns if no out is made aside: memory is read fastest in order, by one
    /// instruction.
    pub(super) may_be_whole: bool,
    /// Elements per turn of `cut`.
    pub(super) inner: usize,
    /// Whether turns are rows; else a tile is one row.
    pub(super) has_rows: bool,
    pub(super) ahead: Ahead,
    /// How the out is folded, if it is.
    pub(super) fold: Option<Fold>,
}

impl Map {
    pub(super) fn outs(&self) -> usize {
        self.places.len() - self.inputs
    }

    /// Of each place, of where each out is made, of the registers.
    pub(super) fn addresses(&self) -> usize {
        self.places.len() + self.outs() + 1
    }

    pub(super) fn address_bytes(&self) -> usize {
        (self.addresses() * size_of::<*mut u8>()).next_multiple_of(64)
    }
}

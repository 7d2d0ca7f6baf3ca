//! Where a program's values live.

use super::{Program, VariableId};

/// Memory of one value on a processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// Byte offset in the processor's arena, a multiple of [`ALIGNMENT`].
    Arena(usize),
    /// The variable's own buffer: a `Read` that copies nothing, or a value computed where a `Write`
    /// wants it.
    Variable(VariableId),
    /// In the body of a loop, where the loop has what parameter `.0` stands for in this iteration; if it is
    /// carried, what is carried on may be made there.
    Param(usize),
    /// In the body of a loop, where the loop stacks result `.0` of this iteration.
    Stacked(usize),
}

/// Alignment in bytes of every value: one cache line, one AVX-512 register.
pub const ALIGNMENT: usize = 64;

/// Memory of all of a program's values; the same on every processor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// One per value of the program.
    pub places: Vec<Place>,
    /// Size of the arena, the bodies of loops included.
    pub arena_bytes: usize,
    /// One per loop, in the order of the steps. Their arenas all begin where the values of this
    /// plan end.
    pub bodies: Vec<Plan>,
}

impl Plan {
    /// Bytes of the arena that the program's own values take; a multiple of [`ALIGNMENT`].
    pub fn own_bytes(&self) -> usize {
        let largest = self.bodies.iter().map(|body| body.arena_bytes).max();
        self.arena_bytes.saturating_sub(largest.unwrap_or_default())
    }
}

/// A program with the plan that it runs by.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Compiled {
    /// What is done.
    pub program: Program,
    /// Where values live.
    pub plan: Plan,
}

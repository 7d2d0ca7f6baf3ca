//! Where a program's values live.

use super::{Program, VariableId};

/// Memory of one value on a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Byte offset in the processor's arena, a multiple of [`ALIGNMENT`].
    Arena(usize),
    /// The variable's own buffer: a `Read` that copies nothing, or a value computed where a `Write`
    /// wants it.
    Variable(VariableId),
}

/// Alignment in bytes of every value: one cache line, one AVX-512 register.
pub const ALIGNMENT: usize = 64;

/// Memory of all of a program's values; the same on every processor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// One per value of the program.
    pub places: Vec<Place>,
    /// Size of the arena.
    pub arena_bytes: usize,
}

/// A program with the plan that it runs by.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Compiled {
    /// What is done.
    pub program: Program,
    /// Where values live.
    pub plan: Plan,
}

//! Instructions on tiles.

use super::tile::Run;
use crate::names::DType;

/// Bytes of one tile register.
pub(super) const SLOT: usize = 4096;

/// Where an operand of an instruction lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Memory of an input, at the tile.
    Input(usize),
    /// A tile register.
    Slot(usize),
    /// A tile register with one use only.
    Pinned(usize),
    /// Memory of an out, or while that overlaps an input, a tile register.
    Out { out: usize, slot: usize },
    /// A number of the pool.
    Pool(usize),
}

/// Along which of a tile's two dims a register is not the same everywhere. What varies along one only
/// has that many elements, side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Varies {
    pub(super) rows: bool,
    pub(super) columns: bool,
}

impl Varies {
    pub(super) const NOWHERE: Self = Self { rows: false, columns: false };
    pub(super) const EVERYWHERE: Self = Self { rows: true, columns: true };

    /// Whether an argument has an element for each that an instruction's row has, if this is where the
    /// result varies: rows run along columns, or along rows if columns are alike.
    pub(super) fn runs(self, argument: Self) -> bool {
        if self.columns { argument.columns } else { argument.rows }
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self { rows: self.rows || other.rows, columns: self.columns || other.columns }
    }
}

/// An argument of an instruction.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    pub(super) source: Source,
    pub(super) varies: Varies,
}

/// One instruction.
pub(super) enum Op {
    /// Runs a loop over as many elements as the result has; `sizes` are of elements of the result,
    /// then of the arguments.
    Apply { run: Run, args: [Arg; 3], to: Source, varies: Varies, sizes: [usize; 4] },
    /// Gathers an input into a packed tile, once if all tiles are equal.
    Gather { input: usize, to: Source, once: bool },
    /// Spreads a register over a whole tile.
    Spread { from: Arg, to: Source, size: usize },
    /// Copies a packed tile, or one element, to an out.
    Store { from: Source, uniform: bool, out: usize },
}

/// What planning needs to know of an input or out.
pub(super) struct Port {
    pub(super) dtype: DType,
    /// How tiles lie in memory.
    pub(super) shape: PortShape,
}

/// How tiles of an input or out lie in memory.
pub(super) enum PortShape {
    /// All elements of a tile are one.
    Uniform,
    /// A tile is one run.
    Packed,
    /// Each row is a run.
    Rows,
    /// All elements of a row are one, and those of the rows side by side.
    PerRow,
    /// All rows are one run.
    PerColumn,
    /// Anything else.
    Strided {
        /// Whether all tiles are equal.
        once: bool,
    },
}

/// The instructions of a body, with numbers and tile registers.
#[derive(Default)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    /// Constants' bits, then room for results on uniform operands.
    pub(super) pool: Vec<u64>,
    pub(super) slots: usize,
}

impl Code {
    /// Whether an out may be made where an input lies: its elements are all read before.
    pub(super) fn reads_before(&self, input: usize, out: usize) -> bool {
        let is_made =
            |op: &Op| matches!(op, Op::Apply { to: Source::Out { out: o, .. }, .. } if *o == out);
        let is_read = |op: &Op| match op {
            Op::Apply { args, .. } => args.iter().any(|arg| arg.source == Source::Input(input)),
            Op::Gather { input: read, .. } => *read == input,
            Op::Spread { from, .. } => from.source == Source::Input(input),
            Op::Store { from, .. } => *from == Source::Input(input),
        };
        let made = self.ops.iter().position(is_made);
        let read = self.ops.iter().rposition(is_read);
        made.is_some_and(|made| read.is_none_or(|read| read < made))
    }
}

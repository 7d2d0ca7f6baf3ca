//! Instructions on tiles.

use super::fold::{FoldRun, OPERANDS};
use super::tile::{ARGS, Run};
use crate::names::DType;

/// Bytes of one tile register.
pub(super) const SLOT: usize = 4096;

/// Where an operand of an instruction lies, in a plan.
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

/// Where an operand lies at run time: so many bytes behind one of a frame's addresses.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) address: usize,
    pub(super) bytes: usize,
}

/// An argument of an instruction.
#[derive(Clone, Copy)]
pub(super) struct Arg<S = Source> {
    pub(super) source: S,
    pub(super) varies: Varies,
}

/// One instruction; its operands lie at `S`s.
#[derive(Clone, Copy)]
pub(super) enum Op<S = Source> {
    /// Runs a loop over as many elements as the result has; `sizes` are of elements of the result,
    /// then of the arguments.
    Apply { run: Run, args: [Arg<S>; ARGS], to: S, varies: Varies, sizes: [usize; ARGS + 1] },
    /// Gathers an input into a packed tile, once if all tiles are equal.
    Gather { input: usize, to: S, once: bool },
    /// Spreads a register over a whole tile.
    Spread { from: Arg<S>, to: S, size: usize },
    /// Copies a packed tile, or one element, to an out.
    Store { from: S, uniform: bool, out: usize },
    /// Folds a packed tile onto an out.
    Fold { from: S, out: usize },
    /// Adds up what it makes of the first `count` operands, row by row.
    Sum { run: FoldRun, args: [Arg<S>; OPERANDS], count: usize, out: usize },
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
    /// Of an out that tiles are folded onto.
    Folded {
        /// Whether it is a sum of rows, whose terms may be made as they are added up.
        terms: bool,
    },
    /// Anything else.
    Strided {
        /// Whether all tiles are equal.
        once: bool,
    },
}

/// When an input is read last, as the instruction sees it that makes an out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reads {
    /// Before that.
    Before,
    /// By it, as one argument, element for element.
    With,
    /// After it, or in another way.
    Late,
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
    /// When an input is read last, as the instruction sees it that makes an out.
    pub(super) fn reads(&self, input: usize, out: usize) -> Reads {
        let is_made =
            |op: &Op| matches!(op, Op::Apply { to: Source::Out { out: o, .. }, .. } if *o == out);
        let is_read = |op: &Op| match op {
            Op::Apply { args, .. } => args.iter().any(|arg| arg.source == Source::Input(input)),
            Op::Gather { input: read, .. } => *read == input,
            Op::Spread { from, .. } => from.source == Source::Input(input),
            Op::Sum { args, .. } => args.iter().any(|arg| arg.source == Source::Input(input)),
            Op::Store { from, .. } | Op::Fold { from, .. } => *from == Source::Input(input),
        };
        let Some(made) = self.ops.iter().position(is_made) else { return Reads::Late };
        let Some(read) = self.ops.iter().rposition(is_read) else { return Reads::Before };
        match &self.ops[made] {
            _ if read < made => Reads::Before,
            Op::Apply { args, sizes, .. } if read == made => {
                let mut here = (0..ARGS).filter(|&k| args[k].source == Source::Input(input));
                match (here.next(), here.next()) {
                    (Some(k), None) if sizes[k + 1] == sizes[0] => Reads::With,
                    _ => Reads::Late,
                }
            }
            _ => Reads::Late,
        }
    }

    /// Whether registers hold at most what varies along one of a tile's dims.
    pub(super) fn holds_no_tile(&self) -> bool {
        self.ops.iter().all(|op| match op {
            Op::Apply { to: Source::Out { .. }, .. } | Op::Gather { .. } | Op::Spread { .. } => {
                false
            }
            Op::Apply { varies, .. } => *varies != Varies::EVERYWHERE,
            Op::Store { .. } | Op::Fold { .. } | Op::Sum { .. } => true,
        })
    }

    /// Whether one instruction makes the out of inputs and numbers: it needs no registers, so its tiles may
    /// be of any size.
    pub(super) fn is_alone(&self) -> bool {
        let in_memory = |source: Source| matches!(source, Source::Input(_) | Source::Pool(_));
        let mut applied = self.ops.iter().filter(|op| matches!(op, Op::Apply { .. }));
        let (one, more) = (applied.next(), applied.next());
        let makes = |op: &Op| match op {
            Op::Apply { args, to: Source::Out { .. }, .. } => {
                args.iter().all(|arg| in_memory(arg.source))
            }
            _ => false,
        };
        let kept = |op: &Op| match op {
            Op::Apply { .. } | Op::Store { from: Source::Out { .. }, .. } => true,
            Op::Gather { .. } | Op::Spread { .. } | Op::Store { .. } => false,
            Op::Fold { .. } | Op::Sum { .. } => false,
        };
        more.is_none() && one.is_some_and(makes) && self.ops.iter().all(kept)
    }

    /// Per out, bytes from the registers' beginning to the tile register that it is made in where it may
    /// not be made in memory.
    pub(super) fn aside(&self, outs: usize) -> Vec<usize> {
        let slot = |out: usize| {
            self.ops.iter().find_map(|op| match op {
                Op::Apply { to: Source::Out { out: made, slot }, .. } if *made == out => {
                    Some(*slot)
                }
                _ => None,
            })
        };
        (0..outs).map(|out| slot(out).map_or(0, |slot| self.bytes_to(slot))).collect()
    }

    /// Bytes from the registers' beginning to a tile register: numbers come first.
    fn bytes_to(&self, slot: usize) -> usize {
        pool_bytes(&self.pool) + slot * SLOT
    }

    /// The instructions for a frame, whose addresses are of inputs, of outs, of where outs are made, of the
    /// registers.
    pub(super) fn located(&self, inputs: usize, outs: usize) -> Vec<Op<At>> {
        let (made, registers) = (inputs + outs, inputs + 2 * outs);
        let at = |source| match source {
            Source::Input(input) => At { address: input, bytes: 0 },
            Source::Out { out, .. } => At { address: made + out, bytes: 0 },
            Source::Pool(index) => At { address: registers, bytes: index * 8 },
            Source::Slot(slot) | Source::Pinned(slot) => {
                At { address: registers, bytes: self.bytes_to(slot) }
            }
        };
        let arg = |Arg { source, varies }| Arg { source: at(source), varies };
        let located = |op: &Op| match *op {
            Op::Apply { run, args, to, varies, sizes } => {
                Op::Apply { run, args: args.map(arg), to: at(to), varies, sizes }
            }
            Op::Gather { input, to, once } => Op::Gather { input, to: at(to), once },
            Op::Spread { from, to, size } => Op::Spread { from: arg(from), to: at(to), size },
            Op::Store { from, uniform, out } => Op::Store { from: at(from), uniform, out },
            Op::Fold { from, out } => Op::Fold { from: at(from), out },
            Op::Sum { run, args, count, out } => Op::Sum { run, args: args.map(arg), count, out },
        };
        self.ops.iter().map(located).collect()
    }
}

/// Bytes of a map's numbers, which lie before its tile registers.
pub(super) fn pool_bytes(pool: &[u64]) -> usize {
    (pool.len() * 8).next_multiple_of(64)
}

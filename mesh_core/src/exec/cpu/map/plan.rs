//! From the body of a `Map` to instructions on tiles.

use super::instr;
use super::tile::{Kind, Run};
use crate::names::DType;
use crate::program::{Body, Instr, Prim};

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
    fn runs(self, argument: Self) -> bool {
        if self.columns { argument.columns } else { argument.rows }
    }

    fn or(self, other: Self) -> Self {
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

#[derive(Clone, Copy)]
struct Register {
    source: Source,
    varies: Varies,
    dtype: DType,
}

impl Register {
    fn arg(self) -> Arg {
        Arg { source: self.source, varies: self.varies }
    }

    /// Bytes of an element as it is held.
    fn size(self) -> usize {
        Kind::of(self.dtype).size()
    }
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

struct Planner<'a> {
    inputs: &'a [Port],
    outs: &'a [Port],
    code: Code,
    free: Vec<usize>,
    registers: Vec<Register>,
    /// Per register, the last instruction that reads it.
    last: Vec<usize>,
}

/// Plans a body.
pub(super) fn plan(body: &Body, inputs: &[Port], outs: &[Port]) -> Result<Code, String> {
    let end = body.code.len();
    let mut last = vec![0; end];
    for (i, (instr, _)) in body.code.iter().enumerate() {
        if let Instr::Apply(prim, args) = instr {
            args[..prim.arity()].iter().for_each(|arg| last[arg.0 as usize] = i);
        }
    }
    // A cast that changes nothing is its argument: that lives as long as the cast.
    for (i, (instr, dtype)) in body.code.iter().enumerate().rev() {
        if let Instr::Apply(Prim::Cast, [arg, ..]) = instr
            && instr::cast(body.code[arg.0 as usize].1, *dtype).is_none()
        {
            last[arg.0 as usize] = last[arg.0 as usize].max(last[i]);
        }
    }
    for result in &body.results {
        mark(body, result.0 as usize, end, &mut last);
    }
    let code = Code::default();
    let mut planner = Planner { inputs, outs, code, free: Vec::new(), registers: Vec::new(), last };
    for i in 0..end {
        planner.instruction(body, i)?;
        planner.release(i);
    }
    // Everything is read before anything is stored: an out may take an input's memory.
    let results = body.results.iter().enumerate();
    let stores: Result<Vec<_>, String> =
        results.map(|(out, result)| planner.result(out, result.0 as usize)).collect();
    planner.code.ops.extend(stores?);
    Ok(planner.code)
}

/// A register is read at `at`; so is what it is merely another name for.
fn mark(body: &Body, register: usize, at: usize, last: &mut [usize]) {
    last[register] = at;
    if let (Instr::Apply(Prim::Cast, [arg, ..]), dtype) = body.code[register]
        && instr::cast(body.code[arg.0 as usize].1, dtype).is_none()
    {
        mark(body, arg.0 as usize, at, last);
    }
}

impl Planner<'_> {
    fn slot(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.code.slots += 1;
            self.code.slots - 1
        })
    }

    fn number(&mut self, bits: u64) -> Source {
        self.code.pool.push(bits);
        Source::Pool(self.code.pool.len() - 1)
    }

    /// Frees the registers that instruction `i` was the last to read.
    fn release(&mut self, i: usize) {
        for r in 0..=i {
            let Source::Slot(slot) = self.registers[r].source else { continue };
            let shared = self.registers.iter().enumerate().any(|(k, other)| {
                k != r && other.source == Source::Slot(slot) && (self.last[k] > i)
            });
            // A register that nobody reads is free at once.
            if self.last[r].max(r) == i && !shared && !self.free.contains(&slot) {
                self.free.push(slot);
            }
        }
    }

    fn instruction(&mut self, body: &Body, i: usize) -> Result<(), String> {
        let (instr, dtype) = body.code[i];
        let register = match instr {
            Instr::Const(scalar) => {
                let bits = bits(Kind::of(dtype), scalar.value());
                Register { source: self.number(bits), varies: Varies::NOWHERE, dtype }
            }
            Instr::Input(input) => self.input(input as usize, dtype)?,
            Instr::Apply(prim, args) => self.apply(body, i, prim, args.map(|a| a.0 as usize))?,
        };
        self.registers.push(register);
        Ok(())
    }

    fn input(&mut self, input: usize, dtype: DType) -> Result<Register, String> {
        let port = self.inputs.get(input).ok_or("a body reads an input that is not there")?;
        if port.dtype != dtype {
            return Err(format!("input {input} is {}, not {dtype}", port.dtype));
        }
        let source = Source::Input(input);
        let (source, varies) = match port.shape {
            PortShape::Uniform => (source, Varies::NOWHERE),
            PortShape::Packed | PortShape::Rows => (source, Varies::EVERYWHERE),
            PortShape::PerRow => (source, Varies { rows: true, columns: false }),
            PortShape::PerColumn => (source, Varies { rows: false, columns: true }),
            PortShape::Strided { once } => {
                let to = if once { self.pinned() } else { Source::Slot(self.slot()) };
                self.code.ops.push(Op::Gather { input, to, once });
                (to, Varies::EVERYWHERE)
            }
        };
        if dtype != DType::BF16 {
            return Ok(Register { source, varies, dtype });
        }
        let to = match varies == Varies::NOWHERE {
            true => self.number(0),
            false => Source::Slot(self.slot()),
        };
        let sizes = [4, 2, 2, 2];
        let args = [Arg { source, varies }; 3];
        self.code.ops.push(Op::Apply { run: instr::widen(), args, to, varies, sizes });
        if let Source::Slot(slot) = source {
            self.free.push(slot);
        }
        Ok(Register { source: to, varies, dtype })
    }

    fn pinned(&mut self) -> Source {
        self.code.slots += 1;
        Source::Pinned(self.code.slots - 1)
    }

    fn apply(
        &mut self,
        body: &Body,
        i: usize,
        prim: Prim,
        args: [usize; 3],
    ) -> Result<Register, String> {
        let (_, dtype) = body.code[i];
        let mut regs = args.map(|a| self.registers[a]);
        let typed = regs[prim.arity() - 1].dtype;
        let together = |regs: &[Register; 3]| {
            regs[..prim.arity()].iter().fold(Varies::NOWHERE, |all, r| all.or(r.varies))
        };
        let mut varies = together(&regs);
        let (run, order) = if prim == Prim::Cast {
            match instr::cast(regs[0].dtype, dtype) {
                Some(run) => (run, [0, 1, 2]),
                None => return Ok(Register { dtype, ..regs[0] }),
            }
        } else {
            // A condition has an element for each of the result's.
            if prim == Prim::Select && varies != Varies::NOWHERE && !varies.runs(regs[0].varies) {
                regs[0] = self.spread(regs[0]);
                varies = together(&regs);
            }
            let uniform = match varies == Varies::NOWHERE {
                true => [false; 3],
                false => regs.map(|r| !varies.runs(r.varies)),
            };
            let found = instr::apply(prim, Kind::of(typed), uniform);
            found.ok_or_else(|| format!("there is no {} of {typed}", prim.name()))?
        };
        let to = match varies == Varies::NOWHERE {
            true => self.number(0),
            false => self.target(body, i, dtype, varies),
        };
        let sizes = [dtype, regs[order[0]].dtype, regs[order[1]].dtype, regs[order[2]].dtype]
            .map(|dtype| Kind::of(dtype).size());
        let args = order.map(|k| regs[k].arg());
        self.code.ops.push(Op::Apply { run, args, to, varies, sizes });
        Ok(Register { source: to, varies, dtype })
    }

    /// A whole tile of a register.
    fn spread(&mut self, register: Register) -> Register {
        let to = self.pinned();
        let (from, size) = (register.arg(), register.size());
        self.code.ops.push(Op::Spread { from, to, size });
        Register { source: to, varies: Varies::EVERYWHERE, ..register }
    }

    /// Where instruction `i` puts its tile: straight into memory if it is a packed out.
    fn target(&mut self, body: &Body, i: usize, dtype: DType, varies: Varies) -> Source {
        let slot = self.slot();
        let out = body.results.iter().position(|r| r.0 as usize == i);
        match out.filter(|_| varies == Varies::EVERYWHERE) {
            Some(out) if self.direct(out, dtype) => Source::Out { out, slot },
            _ => Source::Slot(slot),
        }
    }

    fn direct(&self, out: usize, dtype: DType) -> bool {
        let port = &self.outs[out];
        let run = matches!(port.shape, PortShape::Packed | PortShape::Rows);
        dtype != DType::BF16 && port.dtype == dtype && run
    }

    /// The instruction that stores a result.
    fn result(&mut self, out: usize, register: usize) -> Result<Op, String> {
        let mut register = self.registers[register];
        let dtype = register.dtype;
        let port = &self.outs[out];
        if port.dtype != dtype {
            return Err(format!("out {out} is {}, not {dtype}", port.dtype));
        }
        let packed = matches!(port.shape, PortShape::Packed);
        if let Source::Input(input) = register.source
            && register.varies == Varies::EVERYWHERE
        {
            // As it lies, it may not be packed; and an out may take its memory.
            register.source = self.pinned();
            self.code.ops.push(Op::Gather { input, to: register.source, once: false });
        }
        let nowhere = register.varies == Varies::NOWHERE;
        if dtype == DType::BF16 {
            let to = if nowhere { self.number(0) } else { self.pinned() };
            let (args, varies) = ([register.arg(); 3], register.varies);
            let sizes = [2, 4, 4, 4];
            self.code.ops.push(Op::Apply { run: instr::narrow(), args, to, varies, sizes });
            register.source = to;
        }
        let uniform = nowhere && packed;
        if register.varies != Varies::EVERYWHERE && !uniform {
            let to = self.pinned();
            let from = register.arg();
            self.code.ops.push(Op::Spread { from, to, size: dtype.size() });
            register.source = to;
        }
        Ok(Op::Store { from: register.source, uniform, out })
    }
}

/// A number as a register of some kind holds it, in the low bytes.
fn bits(kind: Kind, value: f64) -> u64 {
    match kind {
        Kind::F32 => u64::from((value as f32).to_bits()),
        Kind::F64 => value.to_bits(),
        Kind::I32 => u64::from(value as i32 as u32),
        Kind::Bool => u64::from(value != 0.0),
    }
}

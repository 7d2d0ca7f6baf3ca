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

/// One instruction.
pub(super) enum Op {
    /// Runs a loop.
    Apply { run: Run, args: [Source; 3], to: Source, uniform: bool },
    /// Gathers an input into a packed tile, once if all tiles are equal.
    Gather { input: usize, to: Source, once: bool },
    /// Spreads one element over a tile.
    Spread { from: Source, to: Source, size: usize },
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
    /// Anything else.
    Strided {
        /// Whether all tiles are equal.
        once: bool,
    },
}

#[derive(Clone, Copy)]
struct Register {
    source: Source,
    uniform: bool,
    dtype: DType,
}

/// The instructions of a body, with numbers and tile registers.
#[derive(Default)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    /// Constants' bits, then room for results on uniform operands.
    pub(super) pool: Vec<u64>,
    pub(super) slots: usize,
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
                Register { source: self.number(bits), uniform: true, dtype }
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
        let (source, uniform) = match port.shape {
            PortShape::Uniform => (Source::Input(input), true),
            PortShape::Packed => (Source::Input(input), false),
            PortShape::Strided { once } => {
                let to = if once { self.pinned() } else { Source::Slot(self.slot()) };
                self.code.ops.push(Op::Gather { input, to, once });
                (to, false)
            }
        };
        if dtype != DType::BF16 {
            return Ok(Register { source, uniform, dtype });
        }
        let to = if uniform { self.number(0) } else { Source::Slot(self.slot()) };
        self.code.ops.push(Op::Apply { run: instr::widen(), args: [source; 3], to, uniform });
        if let Source::Slot(slot) = source {
            self.free.push(slot);
        }
        Ok(Register { source: to, uniform, dtype })
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
        let used = &args[..prim.arity()];
        let mut regs = args.map(|a| self.registers[a]);
        let typed = regs[prim.arity() - 1].dtype;
        let all = used.iter().all(|&a| self.registers[a].uniform);
        let (run, order) = if prim == Prim::Cast {
            match instr::cast(regs[0].dtype, dtype) {
                Some(run) => (run, [0, 1, 2]),
                None => return Ok(Register { dtype, ..regs[0] }),
            }
        } else {
            if prim == Prim::Select && regs[0].uniform && !all {
                regs[0] = self.spread(regs[0]);
            }
            let uniform = if all { [false; 3] } else { regs.map(|r| r.uniform) };
            let found = instr::apply(prim, Kind::of(typed), uniform);
            found.ok_or_else(|| format!("there is no {} of {typed}", prim.name()))?
        };
        let to = if all { self.number(0) } else { self.target(body, i, dtype) };
        let args = order.map(|k| regs[k].source);
        self.code.ops.push(Op::Apply { run, args, to, uniform: all });
        Ok(Register { source: to, uniform: all, dtype })
    }

    /// A whole tile of a uniform register.
    fn spread(&mut self, register: Register) -> Register {
        let to = self.pinned();
        let size = Kind::of(register.dtype).size();
        self.code.ops.push(Op::Spread { from: register.source, to, size });
        Register { source: to, uniform: false, ..register }
    }

    /// Where instruction `i` puts its tile: straight into memory if it is a packed out.
    fn target(&mut self, body: &Body, i: usize, dtype: DType) -> Source {
        let slot = self.slot();
        let out = body.results.iter().position(|r| r.0 as usize == i);
        match out {
            Some(out) if self.direct(out, dtype) => Source::Out { out, slot },
            _ => Source::Slot(slot),
        }
    }

    fn direct(&self, out: usize, dtype: DType) -> bool {
        let port = &self.outs[out];
        dtype != DType::BF16 && port.dtype == dtype && matches!(port.shape, PortShape::Packed)
    }

    /// The instruction that stores a result.
    fn result(&mut self, out: usize, register: usize) -> Result<Op, String> {
        let Register { mut source, uniform, dtype } = self.registers[register];
        let port = &self.outs[out];
        if port.dtype != dtype {
            return Err(format!("out {out} is {}, not {dtype}", port.dtype));
        }
        let strided = matches!(port.shape, PortShape::Strided { .. });
        if let Source::Input(input) = source
            && !uniform
            && self.outs.len() > 1
        {
            source = self.pinned();
            self.code.ops.push(Op::Gather { input, to: source, once: false });
        }
        if dtype == DType::BF16 {
            let to = if uniform { self.number(0) } else { self.pinned() };
            self.code.ops.push(Op::Apply { run: instr::narrow(), args: [source; 3], to, uniform });
            source = to;
        }
        if uniform && strided {
            let to = self.pinned();
            self.code.ops.push(Op::Spread { from: source, to, size: dtype.size() });
            source = to;
        }
        Ok(Op::Store { from: source, uniform: uniform && !strided, out })
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

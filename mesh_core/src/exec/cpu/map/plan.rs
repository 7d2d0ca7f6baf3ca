//! From the body of a `Map` to instructions on tiles.

mod results;

use super::code::{Arg, Code, Op, Port, PortShape, Source, Varies};
use super::pairs::{self, Part, pairs};
use super::terms::Terms;
use super::tile::{ARGS, Kind, Run};
use super::triples::apply_triple;
use super::{casts, idioms, instr};
use crate::names::DType;
use crate::program::{Body, Instr, Prim, Reg};

#[derive(Clone, Copy)]
struct Register {
    source: Source,
    varies: Varies,
    dtype: DType,
}

/// In place of an argument that an instruction does not have.
const NOTHING: Register =
    Register { source: Source::Pool(0), varies: Varies::NOWHERE, dtype: DType::F32 };

impl Register {
    fn arg(self) -> Arg {
        Arg { source: self.source, varies: self.varies }
    }

    /// Bytes of an element as it is held.
    fn size(self) -> usize {
        Kind::of(self.dtype).size()
    }
}

struct Planner<'a> {
    inputs: &'a [Port],
    outs: &'a [Port],
    code: Code,
    free: Vec<usize>,
    registers: Vec<Register>,
    /// Per instruction.
    parts: Vec<Part>,
    /// Per register, the last instruction that reads it.
    last: Vec<usize>,
    /// Of the sum that the body's result is folded to, if they are made as they are added up.
    terms: Option<Terms>,
}

/// Plans a body.
pub(super) fn plan(body: &Body, inputs: &[Port], outs: &[Port]) -> Result<Code, String> {
    let adds = |port: &Port| matches!(port.shape, PortShape::Folded { terms: true });
    let terms = Terms::of(body).filter(|_| outs.iter().all(adds));
    let made = terms.as_ref().map_or(&[][..], |terms| &terms.made);
    let (end, parts) = (body.code.len(), pairs(body, made));
    let mut last = vec![0; end];
    for (i, (instr, _)) in body.code.iter().enumerate() {
        if let Instr::Apply(prim, args) = instr {
            let read = if let Part::Inner(outer) = parts[i] { outer } else { i };
            let args = args[..prim.arity()].iter().map(|arg| arg.0 as usize);
            args.for_each(|arg| last[arg] = last[arg].max(read));
        }
        // Some that its arguments are read by may have loops of their own.
        if let (Part::Idiom, Some(found)) = (parts[i], idioms::find(body, i)) {
            found.leaves.iter().for_each(|&leaf| last[leaf] = last[leaf].max(i));
        }
    }
    // What has another name lives as long as that.
    for i in (0..end).rev() {
        if let Some(named) = named(body, i) {
            last[named] = last[named].max(last[i]);
        }
    }
    for result in &body.results {
        mark(body, result.0 as usize, end, &mut last);
    }
    let (code, free, registers) = (Code::default(), Vec::new(), Vec::new());
    let mut planner = Planner { inputs, outs, code, free, registers, parts, last, terms };
    for i in 0..end {
        planner.instruction(body, i)?;
        planner.release(i);
    }
    // Everything is read before anything is stored: an out may take an input's memory.
    let results = body.results.iter().enumerate();
    let stores: Result<Vec<_>, String> =
        results.map(|(out, result)| planner.result(body, out, result.0 as usize)).collect();
    planner.code.ops.extend(stores?);
    Ok(planner.code)
}

/// A register is read at `at`; so is what it is merely another name for.
fn mark(body: &Body, register: usize, at: usize, last: &mut [usize]) {
    last[register] = at;
    if let Some(named) = named(body, register) {
        mark(body, named, at, last);
    }
}

/// What instruction `i` is merely another name for: the argument of a cast that changes nothing, or rounds to
/// bf16 what is rounded so when it is stored, and only then read.
fn named(body: &Body, i: usize) -> Option<usize> {
    let (Instr::Apply(Prim::Cast, [arg, ..]), to) = body.code[i] else { return None };
    let arg = arg.0 as usize;
    let from = body.code[arg].1;
    let reads = |(instr, _): &(Instr, DType)| match instr {
        Instr::Apply(prim, args) => args[..prim.arity()].iter().any(|arg| arg.0 as usize == i),
        _ => false,
    };
    let is_stored_rounded =
        || (from, to) == (DType::F32, DType::BF16) && !body.code.iter().any(reads);
    (casts::cast(from, to).is_none() || is_stored_rounded()).then_some(arg)
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
            Instr::Apply(prim, args) => match self.parts[i] {
                Part::Alone => self.apply(body, i, prim, args)?,
                // Read by the outer one only, which knows better.
                Part::Inner(_) => Register { dtype, ..self.registers[args[0].0 as usize] },
                Part::Outer(argument) => self.pair(body, i, args, argument)?,
                Part::Idiom => self.idiom(body, i)?,
            },
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
            PortShape::Folded { .. } => return Err("an input is folded onto".to_owned()),
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
        let sizes = [4, 2, 2, 2, 2];
        let args = [Arg { source, varies }; ARGS];
        self.code.ops.push(Op::Apply { run: casts::widen(), args, to, varies, sizes });
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
        args: [Reg; 3],
    ) -> Result<Register, String> {
        let (_, dtype) = body.code[i];
        let arity = prim.arity();
        let mut regs = [NOTHING; ARGS];
        (0..arity).for_each(|k| regs[k] = self.registers[args[k].0 as usize]);
        let typed = regs[arity - 1].dtype;
        let mut varies = together(&regs[..arity]);
        if named(body, i).is_some() {
            return Ok(Register { dtype, ..regs[0] });
        }
        let (run, order) = if prim == Prim::Cast {
            let cast = casts::cast(regs[0].dtype, dtype).ok_or("a cast has no loop")?;
            (cast, [0, 1, 2, 3])
        } else {
            // A condition has an element for each of the result's.
            if prim == Prim::Select && varies != Varies::NOWHERE && !varies.runs(regs[0].varies) {
                regs[0] = self.spread(regs[0]);
                varies = together(&regs[..arity]);
            }
            let found = instr::apply(prim, Kind::of(typed), uniform(varies, &regs));
            found.ok_or_else(|| format!("there is no {} of {typed}", prim.name()))?
        };
        Ok(self.run(body, i, run, order.map(|k| regs[k]), varies))
    }

    /// Instruction `i`, of which this argument is made in the same loop.
    fn pair(
        &mut self,
        body: &Body,
        i: usize,
        args: [Reg; 3],
        argument: usize,
    ) -> Result<Register, String> {
        let at = args[argument].0 as usize;
        if let Some(run) = pairs::gate(body, i, argument) {
            let of = self.registers[args[1 - argument].0 as usize];
            return Ok(self.run(body, i, run, [of, NOTHING, NOTHING, NOTHING], of.varies));
        }
        let (Instr::Apply(outer, _), Instr::Apply(inner, [a, b, _])) =
            (body.code[i].0, body.code[at].0)
        else {
            return Err("what is paired has no arguments".to_owned());
        };
        let is_first = |arg: Reg| self.parts[usize::from(arg.0)] == Part::Inner(i);
        if let Some(within) = [a, b].into_iter().position(is_first) {
            return self.triple(body, i, (args, argument), ([a, b, a], within));
        }
        let others = (0..outer.arity()).filter(|&k| k != argument).map(|k| args[k]);
        let mut regs = [NOTHING; ARGS];
        for (register, arg) in regs.iter_mut().zip([a, b].into_iter().chain(others)) {
            *register = self.registers[arg.0 as usize];
        }
        if outer == Prim::Cast {
            let dtype = body.code[i].1;
            for (register, number) in regs[2..].iter_mut().zip([1.0, 0.0]) {
                let source = self.number(bits(Kind::of(dtype), number));
                *register = Register { source, varies: Varies::NOWHERE, dtype };
            }
        }
        let varies = together(&regs);
        let (pair, kind) = ([inner, outer], Kind::of(regs[0].dtype));
        let found = pairs::apply_pair(pair, kind, argument, uniform(varies, &regs));
        if let Some((run, order)) = found {
            return Ok(self.run(body, i, run, order.map(|k| regs[k]), varies));
        }
        self.registers[at] = self.apply(body, at, inner, [a, b, a])?;
        self.apply(body, i, outer, args)
    }

    /// Instruction `i` and all of its idiom.
    fn idiom(&mut self, body: &Body, i: usize) -> Result<Register, String> {
        let found = idioms::find(body, i).ok_or("what is an idiom has no loop")?;
        let regs = found.leaves.map(|leaf| self.registers[leaf]);
        let varies = together(&regs);
        let run = (found.run)(uniform(varies, &regs)).ok_or("an idiom has no such loop")?;
        Ok(self.run(body, i, run, regs, varies))
    }

    /// Instruction `i`, of which this argument, a pair, is made in the same loop: of this argument of its own.
    fn triple(
        &mut self,
        body: &Body,
        i: usize,
        (args, argument): ([Reg; 3], usize),
        (of, within): ([Reg; 3], usize),
    ) -> Result<Register, String> {
        let at = usize::from(args[argument].0);
        let first = usize::from(of[within].0);
        let [Instr::Apply(inner, [a, b, _]), Instr::Apply(middle, _), Instr::Apply(outer, _)] =
            [first, at, i].map(|i| body.code[i].0)
        else {
            return Err("what is paired has no arguments".to_owned());
        };
        let held = |reg: Reg| self.registers[usize::from(reg.0)];
        let mut regs = [a, b, of[1 - within], args[1 - argument]].map(held);
        let varies = together(&regs);
        // A product's factors may be swapped.
        if inner == Prim::Mul && uniform(varies, &regs)[0] {
            regs.swap(0, 1);
        }
        match apply_triple([inner, middle, outer], within == 1, uniform(varies, &regs)) {
            Some(run) => Ok(self.run(body, i, run, regs, varies)),
            None => {
                self.parts[first] = Part::Inner(at);
                self.registers[at] = self.pair(body, at, of, within)?;
                self.apply(body, i, outer, args)
            }
        }
    }

    /// Runs a loop for instruction `i`.
    fn run(
        &mut self,
        body: &Body,
        i: usize,
        run: Run,
        args: [Register; ARGS],
        varies: Varies,
    ) -> Register {
        let (_, dtype) = body.code[i];
        let to = match varies == Varies::NOWHERE {
            true => self.number(0),
            false => self.target(body, i, dtype, varies),
        };
        let [a, b, c, d] = args.map(Register::size);
        let sizes = [Kind::of(dtype).size(), a, b, c, d];
        let args = args.map(Register::arg);
        self.code.ops.push(Op::Apply { run, args, to, varies, sizes });
        Register { source: to, varies, dtype }
    }

    /// A whole tile of a register.
    fn spread(&mut self, register: Register) -> Register {
        let to = self.pinned();
        let (from, size) = (register.arg(), register.size());
        self.code.ops.push(Op::Spread { from, to, size });
        Register { source: to, varies: Varies::EVERYWHERE, ..register }
    }
}

/// Where a result varies.
fn together(args: &[Register]) -> Varies {
    args.iter().fold(Varies::NOWHERE, |all, arg| all.or(arg.varies))
}

/// Which arguments have one element for many of a result that varies so.
fn uniform(varies: Varies, args: &[Register; ARGS]) -> [bool; ARGS] {
    args.map(|arg| varies != Varies::NOWHERE && !varies.runs(arg.varies))
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

//! Where results go: to memory as they are made, by a copy, or onto what they are folded to.

use super::{ARGS, Planner, Register, together, uniform};
use crate::exec::cpu::map::casts;
use crate::exec::cpu::map::code::{Op, PortShape, Source, Varies};
use crate::exec::cpu::map::terms::Terms;
use crate::names::DType;
use crate::program::{Body, Instr};

impl Planner<'_> {
    /// Where instruction `i` puts its tile: straight into memory if it is a packed out.
    pub(super) fn target(&mut self, body: &Body, i: usize, dtype: DType, varies: Varies) -> Source {
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

    /// The instruction that adds up terms.
    fn sum(&mut self, body: &Body, out: usize, terms: &Terms) -> Result<Op, String> {
        let regs: [Register; ARGS] = terms.operands.map(|operand| self.registers[operand]);
        let varies = together(&regs);
        if varies == Varies::EVERYWHERE
            && let Some((run, order)) = terms.run(uniform(varies, &regs))
        {
            let (args, count) = (order.map(|k| regs[k].arg()), terms.count());
            return Ok(Op::Sum { run, args, count, out });
        }
        let (last, before) = terms.made.split_last().ok_or("a sum is of nothing")?;
        for &i in before {
            self.registers[i] = self.made(body, i)?;
        }
        match Terms::product(body).filter(|_| !before.is_empty()) {
            Some(product) => self.sum(body, out, &product),
            None => {
                self.registers[*last] = self.made(body, *last)?;
                self.result(body, out, *last)
            }
        }
    }

    /// Instruction `i` alone.
    fn made(&mut self, body: &Body, i: usize) -> Result<Register, String> {
        match body.code[i].0 {
            Instr::Apply(prim, args) => self.apply(body, i, prim, args),
            _ => Err("what is added up is not made".to_owned()),
        }
    }

    /// The instruction that stores a result.
    pub(super) fn result(
        &mut self,
        body: &Body,
        out: usize,
        register: usize,
    ) -> Result<Op, String> {
        if let Some(terms) = self.terms.take() {
            return self.sum(body, out, &terms);
        }
        let mut register = self.registers[register];
        let dtype = register.dtype;
        let port = &self.outs[out];
        if port.dtype != dtype {
            return Err(format!("out {out} is {}, not {dtype}", port.dtype));
        }
        let packed = matches!(port.shape, PortShape::Packed);
        let is_run = packed || matches!(port.shape, PortShape::Rows);
        let everywhere = register.varies == Varies::EVERYWHERE;
        let nowhere = register.varies == Varies::NOWHERE;
        if dtype == DType::BF16 {
            let to = match if nowhere { self.number(0) } else { self.pinned() } {
                Source::Pinned(slot) if everywhere && is_run => Source::Out { out, slot },
                to => to,
            };
            let (args, varies) = ([register.arg(); ARGS], register.varies);
            let sizes = [2, 4, 4, 4, 4];
            self.code.ops.push(Op::Apply { run: casts::narrow(), args, to, varies, sizes });
            register.source = to;
        } else if let Source::Input(input) = register.source
            && everywhere
        {
            // As it lies, it may not be packed; and an out may take its memory.
            register.source = self.pinned();
            self.code.ops.push(Op::Gather { input, to: register.source, once: false });
        }
        let uniform = nowhere && packed;
        if register.varies != Varies::EVERYWHERE && !uniform {
            let to = self.pinned();
            let from = register.arg();
            self.code.ops.push(Op::Spread { from, to, size: dtype.size() });
            register.source = to;
        }
        if let PortShape::Folded { .. } = port.shape {
            return Ok(Op::Fold { from: register.source, out });
        }
        Ok(Op::Store { from: register.source, uniform, out })
    }
}

//! Bodies made of bodies.

use crate::names::DType;
use crate::program::{Body, Dims, Instr, Operand, Prim, Reg, Scalar, Value};

/// Code that grows by whole bodies, with its inputs; equal ones become one.
#[derive(Default)]
pub(super) struct Weave {
    pub(super) inputs: Vec<Operand>,
    code: Vec<(Instr, DType)>,
}

impl Weave {
    /// The register of an instruction.
    pub(super) fn push(&mut self, instr: Instr, dtype: DType) -> Reg {
        let known = self.code.iter().position(|known| *known == (instr, dtype));
        Reg(known.unwrap_or_else(|| {
            self.code.push((instr, dtype));
            self.code.len() - 1
        }) as u16)
    }

    /// The register of an operand's elements.
    pub(super) fn input(&mut self, values: &[Value], operand: Operand) -> Reg {
        let dtype = values[operand.value.index()].dtype;
        let index = self.inputs.iter().position(|known| *known == operand).unwrap_or_else(|| {
            self.inputs.push(operand);
            self.inputs.len() - 1
        });
        self.push(Instr::Input(index as u8), dtype)
    }

    /// A number.
    pub(super) fn constant(&mut self, scalar: Scalar) -> Reg {
        self.push(Instr::Const(scalar), scalar.dtype())
    }

    /// A body's code with other registers for its inputs; gives those of its results.
    pub(super) fn append(&mut self, body: &Body, inputs: &[Reg]) -> Vec<Reg> {
        let mut regs: Vec<Reg> = Vec::with_capacity(body.code.len());
        for &(instr, dtype) in &body.code {
            let reg = match instr {
                Instr::Input(index) => inputs[usize::from(index)],
                Instr::Const(_) => self.push(instr, dtype),
                Instr::Apply(prim, args) => {
                    let args = args.map(|arg| regs[usize::from(arg.0)]);
                    self.push(Instr::Apply(prim, args), dtype)
                }
            };
            regs.push(reg);
        }
        body.results.iter().map(|result| regs[usize::from(result.0)]).collect()
    }

    /// What a register is once it has been stored and read again: bf16 is rounded there.
    pub(super) fn stored(&mut self, reg: Reg) -> Reg {
        if self.code[usize::from(reg.0)].1 != DType::BF16 {
            return reg;
        }
        let held = self.push(Instr::Apply(Prim::Cast, [reg; 3]), DType::F32);
        self.push(Instr::Apply(Prim::Cast, [held; 3]), DType::BF16)
    }

    /// The body with these results, without instructions that none of them needs, and its inputs.
    pub(super) fn finish(self, results: &[Reg]) -> (Body, Vec<Operand>) {
        let mut needed = vec![false; self.code.len()];
        results.iter().for_each(|reg| needed[usize::from(reg.0)] = true);
        for (i, (instr, _)) in self.code.iter().enumerate().rev() {
            if let (Instr::Apply(prim, args), true) = (instr, needed[i]) {
                args[..prim.arity()].iter().for_each(|arg| needed[usize::from(arg.0)] = true);
            }
        }
        let mut new = vec![Reg(0); self.code.len()];
        let mut code = Vec::with_capacity(self.code.len());
        for (i, (instr, dtype)) in self.code.into_iter().enumerate().filter(|&(i, _)| needed[i]) {
            let instr = match instr {
                Instr::Apply(prim, args) => {
                    let mut args = args.map(|arg| new[usize::from(arg.0)]);
                    let first = args[0];
                    args[prim.arity()..].fill(first);
                    Instr::Apply(prim, args)
                }
                other => other,
            };
            new[i] = Reg(code.len() as u16);
            code.push((instr, dtype));
        }
        let results = results.iter().map(|reg| new[usize::from(reg.0)]).collect();
        (Body { code, results }, self.inputs)
    }
}

/// An operand of what makes a value, in the labels of who reads the value.
pub(super) fn turned(inner: &Operand, outer: &Operand) -> Operand {
    let dims: Dims = inner.dims.iter().map(|&dim| outer.dims[usize::from(dim)]).collect();
    Operand { value: inner.value, dims }
}

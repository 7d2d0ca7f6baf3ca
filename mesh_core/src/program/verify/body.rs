//! The rules of map bodies.

use super::{Legal, ensure};
use crate::names::DType;
use crate::program::{Body, Instr, Prim, Reg};
use std::fmt::Arguments;

impl Body {
    /// Whether it is well typed over inputs of these dtypes.
    pub(in crate::program) fn check(&self, inputs: &[DType]) -> Legal {
        for (index, &(instr, dtype)) in self.code.iter().enumerate() {
            let legal = match instr {
                Instr::Input(input) => match inputs.get(usize::from(input)) {
                    Some(&found) => same(format_args!("x{input}"), found, dtype),
                    None => Err(format!("there is no x{input}")),
                },
                Instr::Const(scalar) => same(format_args!("the constant"), scalar.dtype(), dtype),
                Instr::Apply(prim, args) => apply(self, index, prim, args, dtype),
            };
            legal.map_err(|problem| format!("register {index}: {problem}"))?;
        }
        for result in &self.results {
            ensure!(usize::from(result.0) < self.code.len(), "there is no register {}", result.0);
        }
        Ok(())
    }
}

fn same(what: Arguments<'_>, found: DType, wanted: DType) -> Legal {
    ensure!(found == wanted, "{what} is {found}, not {wanted}");
    Ok(())
}

fn apply(body: &Body, index: usize, prim: Prim, args: [Reg; 3], dtype: DType) -> Legal {
    let name = prim.name();
    let (used, unused) = args.split_at(prim.arity());
    for arg in used {
        ensure!(usize::from(arg.0) < index, "{name} of register {}, which comes later", arg.0);
    }
    ensure!(
        unused.iter().all(|arg| *arg == args[0]),
        "unused arguments of {name} do not repeat the first"
    );
    let of = |arg: Reg| body.code[usize::from(arg.0)].1;
    let argument =
        |i: usize, wanted| same(format_args!("argument {i} of {name}"), of(args[i]), wanted);
    let first = of(args[0]);
    if prim == Prim::Cast {
        return Ok(());
    }
    if prim == Prim::Select {
        argument(0, DType::Bool)?;
        return (1..3).try_for_each(|i| argument(i, dtype));
    }
    ensure!(prim.accepts(first), "{name} does not accept {first}");
    (1..used.len()).try_for_each(|i| argument(i, first))?;
    same(format_args!("{name}"), if prim.is_comparison() { DType::Bool } else { first }, dtype)
}

//! What a crew runs.

use super::super::memory::{Buffer, Store};
use crate::names::Mesh;
use crate::passes::Executable;
use crate::program::{Compiled, Form, Value, VariableId, VariableType, owns};

/// An executable as a crew runs it, the same for all that have its variables.
pub(in crate::exec) struct Work {
    pub(super) variables: Vec<VariableType>,
    /// The type of a slice of each variable.
    pub(super) slices: Vec<Value>,
    /// The initialisation is the last.
    pub(super) functions: Vec<Compiled>,
    /// Per function, a variable that it writes, if it writes any.
    pub(super) writes: Vec<Option<VariableId>>,
    pub(super) arena_bytes: usize,
    /// Whether numbers are looked at.
    pub(super) inspects: bool,
}

impl Work {
    pub(in crate::exec) fn new(executable: Executable) -> Self {
        let arena_bytes = executable.arena_bytes();
        let Executable { variables, functions, init, check_numerics: inspects, .. } = executable;
        let functions: Vec<_> = functions.into_iter().chain([init]).collect();
        let writes = functions.iter().map(|compiled| {
            compiled.program.steps().iter().find_map(|step| match step.form {
                Form::Write(form) => Some(form.variable),
                _ => None,
            })
        });
        let slices = variables.iter().map(|v| Value::new(v.dtype, v.extents.iter().copied()));
        let (writes, slices) = (writes.collect(), slices.collect());
        Self { variables, slices, functions, writes, arena_bytes, inspects }
    }

    /// The memory of a processor. Variables are zeros.
    pub(super) fn store(&self, mesh: &Mesh, processor: usize) -> Result<Store, String> {
        let bytes = |(variable, slice): (&VariableType, &Value)| {
            if owns(mesh, processor, &variable.owners) { slice.bytes() } else { 0 }
        };
        let slices = self.variables.iter().zip(&self.slices);
        let variables = Buffer::together(&slices.map(bytes).collect::<Vec<_>>())?;
        Ok(Store { arena: Buffer::zeroed(self.arena_bytes)?, variables })
    }

    /// That a function writes a variable, for people.
    pub(super) fn written(&self, function: usize, variable: VariableId) -> String {
        let function = &self.functions[function].program.name;
        format!("function `{function}` writes variable `{}`", self.variables[variable.index()].name)
    }
}

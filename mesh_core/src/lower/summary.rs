//! A module's variables as a table.

use super::Module;
use super::explain::grouped;
use crate::names::DType;
use std::fmt;

/// A variable.
#[derive(Clone, PartialEq, Debug)]
pub struct SummaryRow {
    /// Unique name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Its dims with their sizes and the axes they are split over; who owns it.
    pub placement: String,
    /// Number of elements.
    pub elements: usize,
    /// Bytes of all its elements.
    pub whole_bytes: usize,
    /// Bytes of one processor's slice, on a processor that holds it.
    pub bytes: usize,
    /// Whether optimizers update it.
    pub trainable: bool,
}

/// What [`Module::summary`] says. Its `Display` is a table: parameters, then slots and other state.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// In the order of the module.
    pub variables: Vec<SummaryRow>,
    /// Bytes of all variables on the processor that holds most.
    pub bytes: usize,
}

impl Summary {
    pub(super) fn new(module: &Module) -> Self {
        let mesh = module.mesh();
        let row = |variable: &super::VariableSpec| {
            let local = variable.local(mesh);
            SummaryRow {
                name: variable.name.clone(),
                dtype: variable.dtype,
                placement: variable.placement.describe(mesh, &variable.shape),
                elements: variable.shape.size(),
                whole_bytes: variable.shape.size() * variable.dtype.size(),
                bytes: local.extents.iter().product::<usize>() * local.dtype.size(),
                trainable: variable.trainable,
            }
        };
        let variables = module.variables().iter().map(row).collect();
        Self { variables, bytes: module.variable_bytes() }
    }

    /// Elements of all variables that optimizers update.
    pub fn parameters(&self) -> usize {
        self.variables.iter().filter(|row| row.trainable).map(|row| row.elements).sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.variables.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let width = width.clamp(20, 60);
        for (trainable, title) in [(true, "parameters"), (false, "slots and other state")] {
            let rows = self.variables.iter().filter(|row| row.trainable == trainable);
            let mut rows = rows.peekable();
            if rows.peek().is_none() {
                continue;
            }
            writeln!(
                f,
                "{title:<width$}  {:>14} {:>14} {:>14}  lies as",
                "elements", "bytes", "bytes here"
            )?;
            for SummaryRow { name, dtype, placement, elements, whole_bytes, bytes, .. } in rows {
                let numbers = [*elements, *whole_bytes, *bytes].map(|n| grouped(n as u64));
                let [elements, whole, bytes] = numbers;
                let name = format!("  {name}");
                writeln!(
                    f,
                    "{name:<width$}  {elements:>14} {whole:>14} {bytes:>14}  {dtype}{placement}"
                )?;
            }
        }
        let [parameters, bytes] = [self.parameters(), self.bytes].map(|n| grouped(n as u64));
        writeln!(
            f,
            "{parameters} parameters in all; a processor holds at most {bytes} bytes of variables"
        )
    }
}

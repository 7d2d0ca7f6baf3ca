//! `explain`: what each processor does under a layout, without running anything.

use super::Module;
use crate::program::{Compiled, Cost, cost};
use std::fmt;

/// One operation of a function.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Unique name of the operation.
    pub name: String,
    /// The user's line.
    pub at: String,
    /// The outputs: global dims, the axes they are split over, sums owed.
    pub slice: String,
    /// Forms of its steps, collectives among them with their axes.
    pub steps: Vec<String>,
    /// Collectives: form, axes, bytes each processor receives.
    pub collectives: Vec<(String, String, u64)>,
    /// Work of one processor.
    pub cost: Cost,
}

/// One function.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionRows {
    /// Its name.
    pub name: String,
    /// Its operations in order; those without steps are left out.
    pub rows: Vec<Row>,
    /// Bytes of intermediate values on each processor, at their peak.
    pub arena_bytes: usize,
}

/// What a module does, as data; its `Display` is a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Explain {
    /// The mesh, as text.
    pub mesh: String,
    /// Number of processors.
    pub processors: usize,
    /// In the order of declaration.
    pub functions: Vec<FunctionRows>,
    /// Bytes of variables on each processor.
    pub variable_bytes: usize,
}

impl Explain {
    pub(super) fn new(module: &Module) -> Self {
        Self {
            mesh: module.mesh.to_string(),
            processors: module.mesh.processors(),
            functions: module.functions.iter().map(|f| function(module, f)).collect(),
            variable_bytes: module.variable_bytes(),
        }
    }
}

impl FunctionRows {
    /// The sum of all rows.
    pub fn total(&self) -> Cost {
        self.rows.iter().fold(Cost::default(), |sum, row| sum + row.cost)
    }

    /// Every collective: form, axes, bytes each processor receives.
    pub fn collectives(&self) -> impl Iterator<Item = &(String, String, u64)> {
        self.rows.iter().flat_map(|row| &row.collectives)
    }
}

fn function(module: &Module, compiled: &Compiled) -> FunctionRows {
    let program = &compiled.program;
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for node in &program.steps {
        let cost = cost(program, &node.step, &module.mesh);
        let origin = program.origin(node);
        let place = rows.iter().rposition(|(o, _)| *o == node.origin);
        let index = place.unwrap_or_else(|| {
            let row = Row {
                name: origin.name.clone(),
                at: origin.at.clone(),
                slice: origin.slice.clone(),
                steps: Vec::new(),
                collectives: Vec::new(),
                cost: Cost::default(),
            };
            rows.push((node.origin, row));
            rows.len() - 1
        });
        let row = &mut rows[index].1;
        row.cost += cost;
        let form = node.step.form();
        match node.step.axes() {
            Some(axes) => {
                let axes = module.mesh.list(axes);
                row.steps.push(format!("{form}({axes})"));
                row.collectives.push((form.to_owned(), axes, cost.sent));
            }
            None => row.steps.push(form.to_owned()),
        }
    }
    FunctionRows {
        name: program.name.clone(),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        arena_bytes: compiled.plan.arena_bytes,
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "mesh {:?}: {} processors; per processor:", self.mesh, self.processors)?;
        for function in &self.functions {
            writeln!(f, "\n{}", function.name)?;
            writeln!(
                f,
                "  {:<34} {:<52} {:>12} {:>12} {:>12}  steps",
                "operation", "output", "flops", "bytes", "received"
            )?;
            for row in &function.rows {
                writeln!(
                    f,
                    "  {:<34} {:<52} {:>12} {:>12} {:>12}  {}",
                    row.name,
                    row.slice,
                    row.cost.flops,
                    row.cost.bytes,
                    row.cost.sent,
                    row.steps.join(" ")
                )?;
                writeln!(f, "  {:<34} {}", "", row.at)?;
            }
            let total = function.total();
            writeln!(
                f,
                "  {:<34} {:<52} {:>12} {:>12} {:>12}",
                "total",
                format!("{} collectives", function.collectives().count()),
                total.flops,
                total.bytes,
                total.sent
            )?;
            writeln!(f, "  peak memory: {} bytes of values", function.arena_bytes)?;
        }
        write!(f, "\nvariables: {} bytes", self.variable_bytes)
    }
}

//! `explain`: what each processor does under a layout, without running anything.

use super::Module;
use crate::names::Mesh;
use crate::passes::Executable;
use crate::program::{Block, Cost, Form, Origin, Program, Step, cost};
use indexmap::IndexMap;
use std::fmt;
use std::sync::Arc;

/// One operation of a function.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Unique name of the operation.
    pub name: String,
    /// The user's line.
    pub at: String,
    /// What it was made for, if other code made it at that line: `gradient of einsum`.
    pub note: String,
    /// The outputs: global dims, the axes they are split over, sums owed.
    pub slice: String,
    /// What one processor holds of them, as in `f32[100, 256]`.
    pub local: Vec<String>,
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
    /// Bytes of intermediate values on each processor, at their peak, if it is known for what target.
    pub arena_bytes: Option<usize>,
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
        let functions = module.functions.iter().map(|program| function(module, program));
        Self {
            mesh: module.mesh.to_string(),
            processors: module.mesh.processors(),
            functions: functions.collect(),
            variable_bytes: module.variable_bytes(),
        }
    }

    /// With the memory that the functions take when they are compiled.
    pub(super) fn memory(mut self, executable: &Executable) -> Self {
        for (rows, compiled) in self.functions.iter_mut().zip(&executable.functions) {
            rows.arena_bytes = Some(compiled.plan.arena_bytes);
        }
        self
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

fn function(module: &Module, program: &Program) -> FunctionRows {
    let mut rows = Vec::new();
    add(&mut rows, &program.block, &module.mesh, 1);
    FunctionRows {
        name: program.name.clone(),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        arena_bytes: None,
    }
}

/// Adds the rows of a block that runs so many times. Under each loop stand those of its body, for all
/// iterations together.
fn add(rows: &mut Vec<(Arc<Origin>, Row)>, block: &Block, mesh: &Mesh, times: u64) {
    let mut first = rows.len();
    for step in &block.steps {
        let body = match &step.form {
            Form::Loop(form) => Some((&*form.body, form.expected() as u64)),
            _ => None,
        };
        // What a loop costs stands in the rows of its body.
        let cost = if body.is_some() { Cost::default() } else { cost(block, step, mesh) };
        let cost = cost.times(times);
        let origin = &step.origin;
        let place = rows[first..].iter().rposition(|(o, _)| Arc::ptr_eq(o, origin));
        let index = place.map_or(rows.len(), |place| first + place);
        if index == rows.len() {
            let row = Row {
                name: origin.name.clone(),
                at: origin.at.clone(),
                note: origin.purpose(),
                slice: origin.slice.clone(),
                local: Vec::new(),
                steps: Vec::new(),
                collectives: Vec::new(),
                cost: Cost::default(),
            };
            rows.push((Arc::clone(origin), row));
        }
        let row = &mut rows[index].1;
        row.cost += cost;
        row.local = local(block, step);
        let form = step.form.name();
        match step.axes() {
            Some(axes) => {
                let axes = mesh.list(axes);
                row.steps.push(format!("{form}({axes})"));
                row.collectives.push((form.to_owned(), axes, cost.sent));
            }
            None => row.steps.push(form.to_owned()),
        }
        if let Some((body, iterations)) = body {
            add(rows, body, mesh, times * iterations);
            first = rows.len();
        }
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mesh = if self.mesh.is_empty() { "without axes" } else { &self.mesh };
        let are = if self.processors == 1 { "processor" } else { "processors" };
        writeln!(f, "mesh {mesh}: {} {are}; all numbers are for one of them", self.processors)?;
        for function in &self.functions {
            write!(f, "\n{function}")?;
            let variables = grouped(self.variable_bytes as u64);
            match function.arena_bytes {
                Some(values) => writeln!(
                    f,
                    "  peak memory: {} bytes: {} of values, {variables} of variables",
                    grouped((values + self.variable_bytes) as u64),
                    grouped(values as u64),
                )?,
                None => writeln!(f, "  memory: {variables} bytes of variables")?,
            }
        }
        Ok(())
    }
}

/// The operations under the source lines they come from, two lines each, and the totals.
impl fmt::Display for FunctionRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.rows.iter().map(|row| row.name.len() + 2).max().unwrap_or(0);
        let width = longest.clamp(20, 40);
        writeln!(
            f,
            "{:<1$}  {2:>14} {3:>14} {4:>12}  steps",
            self.name,
            width + 2,
            "flops",
            "bytes",
            "received"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, cost: Cost, steps: &str| {
            let numbers = [cost.flops, cost.bytes, cost.sent].map(grouped);
            let [flops, bytes, received] = numbers;
            let line = format!("  {name:<width$}  {flops:>14} {bytes:>14} {received:>12}  {steps}");
            writeln!(f, "{}", line.trim_end())
        };
        let mut place = "";
        for row in &self.rows {
            let Row { at, note, .. } = row;
            if at != place {
                writeln!(f, "  {at}")?;
                place = at;
            }
            line(f, &format!("  {}", row.name), row.cost, &runs(&row.steps))?;
            let of = if row.slice.is_empty() { "" } else { " of " };
            let joint = if note.is_empty() { "" } else { "; " };
            writeln!(f, "        {}{of}{}{joint}{note}", row.local.join(" "), row.slice)?;
        }
        line(f, "total", self.total(), "")?;
        let mut kinds: IndexMap<String, usize> = IndexMap::new();
        for (form, axes, _) in self.collectives() {
            *kinds.entry(format!("{form}({axes})")).or_default() += 1;
        }
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
        writeln!(f, "  collectives: {kinds}")
    }
}

/// Step forms with equal neighbours counted: `permute(r) x2 move`.
fn runs(steps: &[String]) -> String {
    let runs = steps.chunk_by(PartialEq::eq).map(|run| match run {
        [only] => only.clone(),
        _ => format!("{} x{}", run[0], run.len()),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// Digits in threes, and a dash for nothing.
fn grouped(number: u64) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The slices that a step makes, or stores: `f32[100, 256]`.
fn local(block: &Block, step: &Step) -> Vec<String> {
    let slice = |id| {
        let value = block.value(id);
        let sizes: Vec<_> = value.extents.iter().map(ToString::to_string).collect();
        format!("{}[{}]", value.dtype, sizes.join(", "))
    };
    match &step.form {
        Form::Await(form) => form.begun(step).map(slice).collect(),
        _ if step.outs.is_empty() => step.reads().map(slice).collect(),
        _ => step.outs.iter().copied().map(slice).collect(),
    }
}

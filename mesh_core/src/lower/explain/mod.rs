//! `explain`: what each processor does under a layout, without running anything.
//!
//! [`Explain`] is data: an entry per operation. It is printed as a page, or operation by operation.

mod advice;
mod kernels;
mod listing;
mod memory;
mod page;
mod uneven;

pub use advice::{Advice, Repeated};
pub use kernels::Chosen;
pub use listing::Listing;
pub(super) use listing::grouped;
pub use page::Alike;
pub use uneven::Unbalanced;

use super::{Module, Target};
use crate::names::Mesh;
use crate::passes::{Executable, Machine};
use crate::program::{Block, Cost, Form, Origin, Program, Step, ValueId, cost};
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
    /// How often it is done in a call: the iterations of the loops that it stands in.
    pub times: u64,
    /// Where its steps come from.
    pub origin: Arc<Origin>,
    /// Whether some processors alone do it.
    pub owned: bool,
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
    /// Those of them that the forward pass keeps for the gradient.
    pub kept_bytes: Option<usize>,
    /// Operations of loops that are done again for the gradient, since that costs less than keeping what they made,
    /// with how often in a call, if it is known for what target.
    pub again: Vec<(String, u64)>,
    /// Work that several processors repeat, by axis.
    pub repeated: Vec<Repeated>,
    /// Work that one processor does more of than others.
    pub unbalanced: Vec<Unbalanced>,
    /// How the back-end runs steps that it has several ways for, if it was asked.
    pub chosen: Vec<Chosen>,
}

/// What a module does, as data. Its `Display` is a page with the totals, the dearest operations and what
/// is repeated; [`listing`](Self::listing) has every operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Explain {
    /// The mesh, as text.
    pub mesh: String,
    /// Number of processors.
    pub processors: usize,
    /// The physical place of each processor, if that is not the place of its number for all.
    pub order: Option<Vec<usize>>,
    /// In the order of declaration.
    pub functions: Vec<FunctionRows>,
    /// Bytes of variables on the processor that holds most.
    pub variable_bytes: usize,
    /// Those of them that optimizers update.
    pub parameter_bytes: usize,
    /// Elements of all variables that optimizers update.
    pub parameters: usize,
    /// What the layout says that has no effect.
    pub warnings: Vec<String>,
    /// The name of the target and its machine, if it is explained for one.
    pub target: Option<(&'static str, Machine)>,
}

impl Explain {
    pub(super) fn new(module: &Module) -> Self {
        let functions = module.functions.iter().map(|program| function(module, program));
        let mut functions: Vec<_> = functions.collect();
        advice::repeated(&mut functions, module);
        let trained = module.variables.iter().filter(|variable| variable.trainable);
        let holder = (0..module.mesh.processors())
            .max_by_key(|&p| (module.variable_bytes_on(p), std::cmp::Reverse(p)));
        Self {
            mesh: module.mesh.to_string(),
            processors: module.mesh.processors(),
            order: module.mesh.order().map(<[usize]>::to_vec),
            functions,
            variable_bytes: module.variable_bytes(),
            parameter_bytes: module.bytes_on(holder.unwrap_or(0), |variable| variable.trainable),
            parameters: trained.map(|variable| variable.shape.size()).sum(),
            warnings: module.warnings.iter().map(ToString::to_string).collect(),
            target: None,
        }
    }

    /// With the memory that the functions take when they are compiled for a target.
    pub(super) fn memory(mut self, executable: &Executable, target: &Target) -> Self {
        self.target = Some((target.name, target.machine.clone()));
        for (rows, compiled) in self.functions.iter_mut().zip(&executable.functions) {
            rows.arena_bytes = Some(compiled.plan.arena_bytes);
            rows.kept_bytes = Some(memory::kept(compiled));
            rows.again = memory::again(&compiled.program.block);
        }
        self
    }

    /// With what a back-end says of steps of the compiled functions: the way in which it runs them.
    pub(super) fn chosen(
        mut self,
        executable: &Executable,
        way: &dyn Fn(&Block, &Step) -> Option<&'static str>,
    ) -> Self {
        for (rows, compiled) in self.functions.iter_mut().zip(&executable.functions) {
            rows.chosen = kernels::chosen(&compiled.program.block, 1, way);
        }
        self
    }

    /// Every operation of every function, under the source lines that they come from.
    pub fn listing(&self) -> Listing<'_> {
        Listing(self)
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

/// Work as one number, to compare operations by: at ten operations in the time of a byte, as machines of
/// today have them.
fn weight(cost: Cost) -> f64 {
    (cost.flops as f64).max(10.0 * cost.bytes as f64)
}

fn function(module: &Module, program: &Program) -> FunctionRows {
    let mut rows = Vec::new();
    add(&mut rows, &program.block, &module.mesh, 1);
    let unbalanced = uneven::unbalanced(&rows, |work| module.mesh.list(&work.axes));
    FunctionRows {
        name: program.name.clone(),
        rows,
        unbalanced,
        arena_bytes: None,
        kept_bytes: None,
        again: Vec::new(),
        repeated: Vec::new(),
        chosen: Vec::new(),
    }
}

/// Adds the rows of a block that runs so many times. Under each loop stand those of its body, for all
/// iterations together.
fn add(rows: &mut Vec<Row>, block: &Block, mesh: &Mesh, times: u64) {
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
        let place = rows[first..].iter().rposition(|row| Arc::ptr_eq(&row.origin, origin));
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
                times,
                origin: Arc::clone(origin),
                owned: !step.owners.is_empty(),
            };
            rows.push(row);
        }
        let row = &mut rows[index];
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

/// The slices that a step makes, or stores: `f32[100, 256]`.
fn local(block: &Block, step: &Step) -> Vec<String> {
    let slice = |id| slice(block, id);
    match &step.form {
        Form::Await(form) => form.begun(step).map(slice).collect(),
        _ if step.outs.is_empty() => step.reads().map(slice).collect(),
        _ => step.outs.iter().copied().map(slice).collect(),
    }
}

/// A value as one processor has it.
fn slice(block: &Block, id: ValueId) -> String {
    let value = block.value(id);
    let sizes: Vec<_> = value.extents.iter().map(ToString::to_string).collect();
    format!("{}[{}]", value.dtype, sizes.join(", "))
}

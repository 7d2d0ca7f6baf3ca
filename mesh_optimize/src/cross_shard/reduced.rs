//! A proof that variables are changed by gradients of the whole batch.
//!
//! The proof follows values through the program. A value that is fed from a split batch is *open*
//! along the axes that split the batch. A reduction or a gather over an axis *closes* it there. A
//! value that is written to a variable must be closed along each of these axes and open along none.

use mesh_core::lower::Module;
use mesh_core::names::{Axis, DimName, Layout, Mesh, RuleDim, RuleSet};
use mesh_core::program::forms::Loop;
use mesh_core::program::{Block, Body, Form, Instr, Reg, Step, ValueId};
use std::fmt;
use thiserror::Error;

/// A variable that a part of the batch changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreduced {
    /// The variable's name.
    pub variable: String,
    /// The axes along which each processor changes the variable by its own part of the batch.
    pub apart: Vec<String>,
    /// The other axes of the batch over which no reduction reaches the variable.
    pub missing: Vec<String>,
}

impl fmt::Display for Unreduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, apart, missing } = self;
        if !apart.is_empty() {
            let axes = apart.join("+");
            write!(
                f,
                "{variable}: each processor along {axes} changes its own part by its own \
                       part of the batch alone"
            )?;
        }
        if !missing.is_empty() {
            let joint = if apart.is_empty() { format!("{variable}: ") } else { "; ".to_owned() };
            write!(f, "{joint}nothing that changes it is summed over {}", missing.join("+"))?;
        }
        Ok(())
    }
}

/// Why `assert_reduced` refused a function.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ReducedError {
    /// The module has no function of this name.
    #[error("there is no function `{function}`: there are {known}")]
    Unknown {
        /// The name.
        function: String,
        /// The module's functions.
        known: String,
    },
    /// The function updates no trainable variable.
    #[error("`{0}` updates no trainable variable")]
    NothingTrained(String),
    /// Some variables are changed by a part of the batch.
    #[error("`{function}` does not reduce over all axes that split {batch}:{lines}", lines = lines(.variables))]
    Unreduced {
        /// The function.
        function: String,
        /// The batch's dim.
        batch: String,
        /// The variables, each with its axes.
        variables: Vec<Unreduced>,
    },
}

fn lines(variables: &[Unreduced]) -> String {
    variables.iter().map(|variable| format!("\n  {variable}")).collect()
}

/// Checks that every trainable variable that `function` updates is changed only by values that are
/// reduced over every axis that `layout` splits the dim `batch` over.
///
/// `layout` is the one that `module` was lowered with. A gradient may pass through optimizer state
/// on its way to the variable.
/// on their way count.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sgd, assert_reduced};
///
/// let g = mesh_ops::graph();
/// let (batch, x) = (dim("batch", 8), dim("x", 4));
/// let input = g.input("input", [batch, x], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// g.function("train", [input], [loss], Sgd::new(0.1).minimize(loss));
///
/// let layout: Layout = "batch:data;slots/*:data".parse()?;
/// let module = g.lower(&"data:4".parse()?, &layout)?;
/// assert_reduced(&module, &layout, "train", "batch")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the module has no such function, if the function updates no trainable variable, or if one of
/// them is changed by a part of the batch.
pub fn assert_reduced(
    module: &Module,
    layout: &Layout,
    function: &str,
    batch: &str,
) -> Result<(), ReducedError> {
    if module.function(function).is_none() {
        let known: Vec<_> =
            module.functions().iter().map(|program| program.name.as_str()).collect();
        let (function, known) = (function.to_owned(), known.join(", "));
        return Err(ReducedError::Unknown { function, known });
    }
    let axes = batch_axes(module.mesh(), layout, batch);
    let mut state = vec![Flow::default(); module.variables().len()];
    loop {
        let mut after = state.clone();
        let mut written = Vec::new();
        for program in module.functions() {
            let fed = program.feeds.iter().map(|slot| {
                let open = slot.split.iter().fold(0, |open, axes| open | bits(axes));
                Flow { open: open & bits(&axes), closed: 0 }
            });
            let flows = flows(&program.block, fed.collect(), &state);
            for step in program.steps() {
                let Form::Write(form) = step.form else { continue };
                let (variable, flow) = (form.variable, flows[step.inputs[0].value.index()]);
                if program.name == function && module.variables()[variable.index()].trainable {
                    written.push((variable, flow));
                }
                // The old value of a trained variable is no gradient. Optimizer state may hold one.
                if !module.variables()[variable.index()].trainable {
                    after[variable.index()] = after[variable.index()].and(flow);
                }
            }
        }
        if after == state {
            let written = written.into_iter();
            let named =
                written.map(|(id, flow)| (module.variables()[id.index()].name.clone(), flow));
            return judge(module, function, batch, &axes, named.collect());
        }
        state = after;
    }
}

fn judge(
    module: &Module,
    function: &str,
    batch: &str,
    axes: &[Axis],
    written: Vec<(String, Flow)>,
) -> Result<(), ReducedError> {
    if written.is_empty() {
        return Err(ReducedError::NothingTrained(function.to_owned()));
    }
    let names = |which: u16| -> Vec<String> {
        let found = axes.iter().filter(|axis| which & bits(&[**axis]) != 0);
        found.map(|axis| module.mesh().name(*axis).to_owned()).collect()
    };
    let judged = written.into_iter().map(|(variable, Flow { open, closed })| Unreduced {
        variable,
        apart: names(open),
        missing: names(bits(axes) & !open & !closed),
    });
    let variables: Vec<_> =
        judged.filter(|u| !u.apart.is_empty() || !u.missing.is_empty()).collect();
    if variables.is_empty() {
        return Ok(());
    }
    let (function, batch) = (function.to_owned(), batch.to_owned());
    Err(ReducedError::Unreduced { function, batch, variables })
}

/// The axes that split the dim `batch`.
fn batch_axes(mesh: &Mesh, layout: &Layout, batch: &str) -> Vec<Axis> {
    let target = RuleDim::Named(DimName::new(batch));
    let mut rules = layout.rules().iter().filter(|rule| rule.set == RuleSet::Compute);
    let rule = rules.find(|rule| rule.dim == target);
    let axes = rule.into_iter().flat_map(|rule| &rule.axes).filter_map(|name| mesh.axis(name));
    axes.filter(|axis| mesh.size(*axis) > 1).collect()
}

fn bits(axes: &[Axis]) -> u16 {
    axes.iter().fold(0, |bits, axis| bits | 1 << axis.index())
}

/// How a value depends on the batch, one bit per axis.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Flow {
    /// The axes along which the value depends on this processor's part of the batch.
    open: u16,
    /// The axes over which a collective combined the parts of the batch.
    closed: u16,
}

impl Flow {
    fn and(self, other: Self) -> Self {
        Self { open: self.open | other.open, closed: self.closed | other.closed }
    }

    /// The dependence of the result of a collective on its input.
    fn through(self, form: &str, axes: u16) -> Self {
        let Self { open, closed } = self;
        match form {
            "all_reduce" | "reduce_scatter" | "reduce_to" => {
                Self { open: open & !axes, closed: closed | axes }
            }
            "all_gather" => Self { open: open & !axes, closed: closed | open & axes },
            _ => self,
        }
    }
}

/// The dependence of every value of a block.
fn flows(block: &Block, given: Vec<Flow>, state: &[Flow]) -> Vec<Flow> {
    let mut flows = vec![Flow::default(); block.values.len()];
    for (param, flow) in block.params.iter().zip(given) {
        flows[param.index()] = flow;
    }
    for step in &block.steps {
        let of = |id: ValueId| flows[id.index()];
        let made: Vec<Flow> = match &step.form {
            Form::Read(form) => vec![state[form.variable.index()]],
            Form::Map(form) => of_map(&form.body, step, &of),
            Form::AllReduce(_) | Form::Barrier(_) => step.reads().map(of).collect(),
            Form::Loop(form) => of_loop(form, step, &of),
            _ => vec![step.reads().map(of).fold(Flow::default(), Flow::and); step.outs.len()],
        };
        let axes = step.axes().map_or(0, |axes| bits(axes));
        for (out, flow) in step.outs.iter().zip(made) {
            flows[out.index()] = flow.through(step.form.name(), axes);
        }
    }
    flows
}

/// The dependence of each result of a map, which follows from the inputs that it depends on.
fn of_map(body: &Body, step: &Step, of: &impl Fn(ValueId) -> Flow) -> Vec<Flow> {
    let flow = |&result: &Reg| {
        let read = step.reads().zip(inputs_read(body, result, step.inputs.len()));
        let read = read.filter(|(_, is_read)| *is_read);
        read.map(|(input, _)| of(input)).fold(Flow::default(), Flow::and)
    };
    body.results.iter().map(flow).collect()
}

/// Which inputs a result of a map's body depends on.
fn inputs_read(body: &Body, result: Reg, inputs: usize) -> Vec<bool> {
    let mut needed = vec![false; body.code.len()];
    let mut read = vec![false; inputs];
    needed[usize::from(result.0)] = true;
    for (i, (instr, _)) in body.code.iter().enumerate().rev() {
        match instr {
            _ if !needed[i] => {}
            Instr::Input(input) => read[usize::from(*input)] = true,
            Instr::Const(_) => {}
            Instr::Apply(_, args) => args.iter().for_each(|arg| needed[usize::from(arg.0)] = true),
        }
    }
    read
}

/// The dependence of a loop's results: iterations are followed until what they carry stays the
/// same.
fn of_loop(form: &Loop, step: &Step, of: &impl Fn(ValueId) -> Flow) -> Vec<Flow> {
    let inputs = form.inputs(step);
    let mut carried: Vec<_> = inputs.carried.iter().map(|input| of(input.value)).collect();
    let asked = inputs.condition.map(of).unwrap_or_default();
    loop {
        let around = inputs.sliced.iter().chain(inputs.captured).map(|input| of(input.value));
        let given = carried.iter().copied().chain(around).chain([Flow::default()]).collect();
        let flows = flows(&form.body, given, &[]);
        let made: Vec<_> = form.body.results.iter().map(|result| flows[result.index()]).collect();
        let next: Vec<_> = carried.iter().zip(&made).map(|(old, new)| old.and(*new)).collect();
        if next == carried {
            let stacked = &made[carried.len().min(made.len())..];
            let left = carried.iter().chain(stacked).take(step.outs.len());
            return left.map(|flow| flow.and(asked)).collect();
        }
        carried = next;
    }
}

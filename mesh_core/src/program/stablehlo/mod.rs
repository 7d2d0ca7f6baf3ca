//! Programs in StableHLO, the language that XLA compiles for CPUs, GPUs and TPUs
//! (<https://openxla.org/stablehlo/spec>). One module text per program; each form's spelling stands in the
//! form's room, `program/forms/`; what all of them write with stands here.
//!
//! **One text for all processors.** Processors are *replicas*: `mhlo.num_replicas` of them, one partition
//! each. The program has said already who holds what and who meets whom, so there is nothing left for
//! XLA's partitioner to decide: as partitions, every value would need a sharding that says "manual", and
//! every collective a channel, for the same code in the end. A group of a collective is a list of
//! processors, and a processor's number is `replica_id`, from which its coordinates follow.
//!
//! **The border.** `@main` takes, in this order, the seed (if anything is random), the variables that the program reads
//! or writes, and the feeds; it returns the variables that it writes, the fetches and the probes. All are the
//! slices of one processor, in declared order. A variable that is written is donated: its argument may be
//! overwritten with its result.
//!
//! **Owners.** Every processor runs every step, also those that some own. Who does not own a step makes
//! of it what nobody looks at: the verifier has made sure that only owners use what owners made.
//!
//! **Numbers.** bf16 is held, computed and summed in f32 and rounded where it is stored, with
//! `reduce_precision`, which XLA never leaves out as it may leave out a conversion there and back; so it does
//! not matter to a stored value what is fused with what. Sums are XLA's, in its own order. Integers,
//! comparisons, moves and random numbers are those of the meaning (the tails of normal ones as far as the device
//! has the same logarithm). `maximum` and `minimum` pass NaN on, and choose between two zeros by the sign.
//!
//! **Locations.** Each operation carries the name of the graph's operation and the user's line.

mod convert;
mod convolution;
mod fold;
mod groups;
mod labels;
mod literal;
mod ops;
mod prims;
mod products;
mod random;
#[cfg(test)]
mod tests;
mod writer;

pub(super) use convolution::Slide;
pub(super) use fold::Along;
pub(super) use labels::{extents_of, those};
pub(super) use ops::{Is, Padding};
pub(super) use products::Lookup;
pub(super) use writer::{Element, Tensor, Writer};

use super::forms::StepCx;
use super::{Block, Form, Program, Value, ValueId, VariableType};
use crate::names::Mesh;
use std::iter::zip;

/// A program's text, and what its function takes and returns.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Spelled {
    /// The module.
    pub(crate) text: String,
    /// What `@main` takes.
    pub(crate) arguments: Vec<Argument>,
    /// What `@main` returns.
    pub(crate) results: Vec<Outcome>,
}

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Argument {
    /// The seed as `tensor<2xui32>`, the low word first.
    Seed,
    /// The slice of a variable, by its position in the module's table.
    Variable(usize),
    /// The slice of a feed, by its position.
    Feed(usize),
}

/// What a result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The new slice of a variable, by its position in the module's table.
    Variable(usize),
    /// The slice of a fetch, or behind those of a probe, by its position.
    Left(usize),
}

/// Choices that a program leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// How exact products are.
    pub precision: Precision,
}

/// How exactly a device multiplies matrices of f32. CPUs always do so exactly; GPUs and TPUs have faster
/// units, which round factors first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// As f32 has it.
    #[default]
    Highest,
    /// Factors of about 16 bits, or TF32.
    High,
    /// Whatever is fastest: TF32 or bf16.
    Default,
}

impl Precision {
    /// What a product of the text has.
    fn name(self) -> &'static str {
        match self {
            Self::Highest => "HIGHEST",
            Self::High => "HIGH",
            Self::Default => "DEFAULT",
        }
    }
}

/// What a form is in StableHLO.
pub(super) trait Spell {
    /// Writes a legal step on tensors of its inputs' types; gives its outs.
    ///
    /// # Errors
    /// What has no spelling: a user's kernel that gives none.
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String>;
}

/// The text of a legal program.
///
/// # Errors
/// A step that has no spelling, with the user's line.
pub(crate) fn spell(
    program: &Program,
    mesh: &Mesh,
    variables: &[VariableType],
    options: &Options,
) -> Result<Spelled, String> {
    let used = Used::of(program, variables.len());
    let mut to = Writer::new(mesh, variables, *options);
    let (mut arguments, mut head) = (Vec::new(), Vec::new());
    if used.random {
        arguments.push(Argument::Seed);
        let seed = to.argument(Element::U32, &[2]);
        head.push((seed.clone(), "seed", None));
        to.seed = Some(seed);
    }
    let mut outcome = 0;
    for (i, variable) in variables.iter().enumerate() {
        if !used.read[i] && !used.written[i] {
            continue;
        }
        arguments.push(Argument::Variable(i));
        let slice = to.argument(variable.dtype.into(), &variable.extents);
        let donated = used.written[i].then_some(outcome);
        outcome += usize::from(used.written[i]);
        head.push((slice.clone(), variable.name.as_str(), donated));
        to.old[i] = Some(slice);
    }
    let mut params = Vec::new();
    for (i, (slot, id)) in program.fed().enumerate() {
        arguments.push(Argument::Feed(i));
        let Value { dtype, extents, .. } = program.value(id);
        let slice = to.argument((*dtype).into(), extents);
        head.push((slice.clone(), slot.name.as_str(), None));
        params.push(slice);
    }
    let left = to.block(&program.block, &params)?;
    let written = (0..variables.len()).filter(|&i| used.written[i]);
    let results = written.map(Outcome::Variable);
    let results = results.chain((0..left.len()).map(Outcome::Left)).collect();
    let returned: Vec<_> = std::mem::take(&mut to.new).into_iter().flatten().chain(left).collect();
    let text = to.module(&program.name, &head, &returned);
    Ok(Spelled { text, arguments, results })
}

/// What a program has to do with besides feeds and fetches.
struct Used {
    /// By variable.
    read: Vec<bool>,
    /// By variable.
    written: Vec<bool>,
    /// Whether anything depends on the seed.
    random: bool,
}

impl Used {
    fn of(program: &Program, variables: usize) -> Self {
        let (read, written) = (vec![false; variables], vec![false; variables]);
        let mut used = Self { read, written, random: false };
        used.look(&program.block);
        used
    }

    fn look(&mut self, block: &Block) {
        for step in &block.steps {
            match &step.form {
                Form::Read(form) => self.read[form.variable.index()] = true,
                Form::Write(form) => self.written[form.variable.index()] = true,
                Form::Generate(form) => self.random |= form.generator.key().is_some(),
                Form::Loop(form) => self.look(&form.body),
                _ => {}
            }
        }
    }
}

impl Writer<'_> {
    /// Writes the steps of a block; gives its results.
    pub(super) fn block(
        &mut self,
        block: &Block,
        params: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let mut values: Vec<Option<Tensor>> = vec![None; block.values.len()];
        zip(&block.params, params).for_each(|(id, of)| values[id.index()] = Some(of.clone()));
        let known = |values: &[Option<Tensor>], id: ValueId| {
            values[id.index()].clone().ok_or_else(|| format!("{id:?} is used before it is made"))
        };
        for (index, step) in block.steps.iter().enumerate() {
            self.locate(&step.origin);
            let inputs: Vec<_> =
                step.reads().map(|id| known(&values, id)).collect::<Result<_, _>>()?;
            let (mesh, variables) = (self.mesh, self.variables);
            let cx = StepCx { block, step, mesh, variables };
            let outs = step.form.spelling().spell(&cx, self, &inputs);
            let outs = outs.map_err(|problem| match &step.form {
                // Its own caption says which step of its body it is.
                Form::Loop(_) => problem,
                _ => format!("{}: {problem}", block.caption(index)),
            })?;
            zip(&step.outs, outs).for_each(|(id, out)| values[id.index()] = Some(out));
        }
        block.results.iter().map(|&id| known(&values, id)).collect()
    }
}

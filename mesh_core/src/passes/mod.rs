//! From a lowered program to one that runs: the passes in their order, the memory plan, its check.
//!
//! A pass keeps a legal program legal and its results equal (up to the rounding of sums, where it
//! says so). Passes know no graph and no layout. [`PORTABLE`] passes know no machine, either: they are
//! part of lowering. The others are listed by a [`Target`].

mod all_reduce;
mod behind;
mod buffers;
mod check;
mod combine;
mod cse;
mod dead;
mod early;
mod folds;
mod fuse;
mod hoist;
mod kept;
mod machine;
mod merge_sums;
mod moves;
mod onto;
mod order;
mod overlap;
mod products;
mod slices;
mod target;
#[cfg(test)]
mod tests;
mod tile;
mod uses;
mod weave;

pub use all_reduce::AllReduce;
pub use buffers::{lower_bound, plan};
pub use check::check;
pub(crate) use dead::run as drop_dead_steps;
pub use machine::{Caches, Exchange, Flops, Level, Machine};
pub use target::Target;

use crate::names::Mesh;
use crate::program::{Block, Compiled, Form, Problem, Program, ValueId, VariableType, verify};
use std::fmt;

macro_rules! passes {
    ($($(#[doc = $doc:literal])* $pass:ident: $name:literal, $reason:literal;)*) => {
        /// A rewriting of programs.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum PassId {
            $($(#[doc = $doc])* $pass,)*
        }

        impl PassId {
            /// All passes there are.
            pub const ALL: &[Self] = &[$(Self::$pass,)*];

            /// The name in faults and flags.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$pass => $name,)*
                }
            }

            /// Why it stands where it stands.
            pub fn reason(self) -> &'static str {
                match self {
                    $(Self::$pass => $reason,)*
                }
            }
        }
    };
}

passes! {
    /// Steps of which nobody needs a result go.
    DeadSteps: "dead steps",
        "lowering emits whole operations, and merging may leave a collective without outs that anybody \
         needs: what nobody needs costs later passes time and hides single uses from them";
    /// Equal things are computed once.
    CommonSubexpressions: "common subexpressions",
        "gradients repeat the forward pass's broadcasts, transposes and reads; once merged, equal \
         partial sums are one value";
    /// Moves of moves become one.
    Moves: "moves",
        "equal moves are one by now, and what is read of each by whom is known; before everything that \
         counts values";
    /// What is the same in all iterations of a loop is computed before it.
    LoopInvariants: "loop invariants",
        "equal steps are one by now, so that each is moved once; before sums are merged, which then \
         sees what left the iterations";
    /// Sums of reduced partials become reduced sums of partials.
    MergePendingSums: "merge pending sums",
        "one collective instead of several, found once each partial has its true number of uses";
    /// All-reduces are made in the order that lowering is asked for.
    AllReduces: "all-reduces",
        "merging must have found equal sums while each was one step";
    /// Products that sum nothing, or whose sum is bound by memory, become maps.
    ElementwiseProducts: "elementwise products",
        "after merging, so that equal products have become one; before fusion, which takes what \
         becomes a map";
    /// Loops make again for their gradients what costs more to keep.
    KeptValues: "kept values",
        "each elementwise operation is a map of its own still, products that sum nothing among them; \
         fusion then joins what is made again with what reads it";
    /// Products that a loop adds up over its iterations are one product behind it.
    SummedProducts: "summed products",
        "what is kept of each iteration is known by now; each elementwise operation is a map of its own still";
    /// What a fold reads is computed as it is folded, and what a scatter is folded onto is given to it.
    Folds: "folds",
        "each elementwise operation is a map of its own still; what folds take need not be fused";
    /// Maps over the same elements become one.
    Fusion: "fusion",
        "what is merged or removed need not be read; what moves does so before reductions find their \
         place";
    /// The order in which dims lie in memory is chosen.
    MemoryOrder: "memory order",
        "for what fusion leaves; before tiles, which are cut along the dims that lie outermost";
    /// What fusion cannot join is done tile by tile.
    Tiles: "tiles",
        "what fusion could not join is done tile by tile; the rest keeps its place";
    /// Slices that only maps read are read where they lie.
    Slices: "slices",
        "every map stands by now; a tile's slice is one of a tile";
    /// What frees memory runs as soon as it can.
    EarlyReductions: "early reductions",
        "what is merged or removed has no place any more; of the rest, what frees memory should do so \
         before more is taken";
    /// Small all-reduces near each other become one.
    CombineAllReduces: "combine small all-reduces",
        "merging and early reductions look at sums one by one; what is left and stands near enough is \
         met for once";
    /// Collectives run beside computation.
    Overlap: "overlap",
        "each step has its form and each collective its size; whatever moved steps afterwards would \
         have to know what is under way";
}

/// The passes that know no machine, in the order in which lowering runs them.
pub const PORTABLE: [PassId; 7] = [
    PassId::DeadSteps,
    PassId::CommonSubexpressions,
    PassId::Moves,
    PassId::LoopInvariants,
    PassId::MergePendingSums,
    PassId::DeadSteps,
    PassId::AllReduces,
];

impl fmt::Display for PassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What passes know besides the program.
#[derive(Clone, Copy, Debug)]
struct PassCx<'a> {
    /// The processors.
    mesh: &'a Mesh,
    /// How sums over processors are made.
    all_reduce: AllReduce,
    /// Whom it is for.
    machine: &'a Machine,
}

impl PassId {
    /// Rewrites a block, which is legal before and after; bodies of loops are blocks of their own.
    fn run(self, block: &mut Block, cx: &PassCx<'_>) {
        match self {
            Self::DeadSteps => dead::run(block),
            Self::CommonSubexpressions => cse::run(block),
            Self::Moves => moves::run(block),
            Self::LoopInvariants => hoist::run(block),
            Self::MergePendingSums => merge_sums::run(block),
            Self::AllReduces => all_reduce::run(block, cx.all_reduce),
            Self::ElementwiseProducts => products::run(block, cx.machine),
            Self::KeptValues => kept::run(block, cx.machine),
            Self::SummedProducts => behind::run(block),
            Self::Folds => {
                folds::run(block);
                onto::run(block);
            }
            Self::Fusion => fuse::run(block, cx.machine),
            Self::MemoryOrder => order::run(block),
            Self::Tiles => tile::run(block, cx.machine),
            Self::Slices => slices::run(block),
            Self::EarlyReductions => early::run(block),
            Self::CombineAllReduces => combine::run(block, cx.machine),
            Self::Overlap => overlap::run(block, cx),
        }
    }
}

/// A program that breaks the verifier's or the plan checker's rules although lowering and passes
/// must keep them: a bug of this crate, never a mistake of its user.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "internal error: program {program} is illegal after {pass}. This is a bug in mesh_core, not \
     in your model; please report it.\n  {}",
    joined(problems)
)]
pub struct Fault {
    /// The program's name.
    pub program: String,
    /// What ran last.
    pub pass: &'static str,
    /// What is wrong, as the verifier or the checker says it.
    pub problems: Vec<Problem>,
}

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}

impl Fault {
    /// A fault of a program after a pass, or what else ran last.
    fn of(program: &str, pass: &'static str) -> impl FnOnce(Vec<Problem>) -> Self {
        let program = program.to_owned();
        move |problems| Self { program, pass, problems }
    }
}

/// Improves a lowered program by passes that know no machine, in their order.
///
/// # Errors
/// An illegal program, or a pass that makes it so.
pub fn improve(
    program: &mut Program,
    mesh: &Mesh,
    variables: &[VariableType],
    all_reduce: AllReduce,
    passes: &[PassId],
) -> Result<(), Fault> {
    if cfg!(debug_assertions) || passes.is_empty() {
        verify(program, mesh, variables).map_err(Fault::of(&program.name, "lowering"))?;
    }
    run(program, passes, &PassCx { mesh, all_reduce, machine: &Target::host().machine }, variables)
}

/// Runs passes in their order. The program is verified at the end, and in debug builds after each pass.
fn run(
    program: &mut Program,
    passes: &[PassId],
    cx: &PassCx<'_>,
    variables: &[VariableType],
) -> Result<(), Fault> {
    for (i, pass) in passes.iter().enumerate() {
        program.block.everywhere(&mut |block| pass.run(block, cx));
        if cfg!(debug_assertions) || i + 1 == passes.len() {
            verify(program, cx.mesh, variables).map_err(Fault::of(&program.name, pass.name()))?;
        }
    }
    Ok(())
}

/// What a back-end runs: a module made ready for a [`Target`].
#[derive(Clone, PartialEq, Debug)]
pub struct Executable {
    /// The processors.
    pub mesh: Mesh,
    /// State, as programs see it.
    pub variables: Vec<VariableType>,
    /// One per function of the module, in its order.
    pub functions: Vec<Compiled>,
    /// Sets every variable to its initial value.
    pub init: Compiled,
    /// Whether to look at every number that a step makes.
    pub check_numerics: bool,
}

impl Executable {
    /// Bytes of memory that the values of any one function take on a processor.
    pub fn arena_bytes(&self) -> usize {
        self.programs().map(|compiled| compiled.plan.arena_bytes).max().unwrap_or(0)
    }

    /// The functions in the module's order, then the initialisation.
    pub fn programs(&self) -> impl Iterator<Item = &Compiled> {
        self.functions.iter().chain([&self.init])
    }
}

/// Makes a program ready for a target: improves it by the target's passes, and plans its memory.
///
/// # Errors
/// An illegal program, or a pass or plan that breaks a rule.
pub fn compile(
    mut program: Program,
    mesh: &Mesh,
    variables: &[VariableType],
    target: &Target,
) -> Result<Compiled, Fault> {
    let cx = PassCx { mesh, all_reduce: AllReduce::default(), machine: &target.machine };
    run(&mut program, &target.passes, &cx, variables)?;
    writes_last(&mut program.block);
    let plan = plan(&program, variables);
    check(&program, &plan, variables).map_err(Fault::of(&program.name, "buffer planning"))?;
    Ok(Compiled { program, plan })
}

/// Moves writes behind all other steps, in order: so a variable's old value can be read wherever
/// a read stands, as [`plan`] wants it.
pub fn writes_last(block: &mut Block) {
    block.steps.sort_by_key(|step| matches!(step.form, Form::Write(_)));
}

/// Drops values that nothing defines and numbers the others in the order of their definition.
fn compact(block: &mut Block) {
    let outs = block.steps.iter().flat_map(|step| step.outs.iter().copied());
    let old: Vec<ValueId> = block.params.iter().copied().chain(outs).collect();
    if old.iter().map(|value| value.index()).eq(0..block.values.len()) {
        return;
    }
    let mut new = vec![ValueId(u32::MAX); block.values.len()];
    for (index, &old) in (0..).zip(&old) {
        new[old.index()] = ValueId(index);
    }
    block.values = old.iter().map(|&old| block.value(old).clone()).collect();
    let renumber = |value: &mut ValueId| *value = new[value.index()];
    for step in &mut block.steps {
        step.inputs.iter_mut().for_each(|input| renumber(&mut input.value));
        step.outs.iter_mut().for_each(renumber);
    }
    block.tensors.retain(|(value, _)| new[value.index()] != ValueId(u32::MAX));
    block.tensors.iter_mut().for_each(|(value, _)| renumber(value));
    block.params.iter_mut().chain(&mut block.results).for_each(renumber);
}

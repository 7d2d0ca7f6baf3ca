//! From a lowered program to one that runs: the passes in their order, the memory plan, its check.
//!
//! A pass keeps a legal program legal and its results equal (up to the rounding of sums, where it
//! says so). Passes know no graph and no layout.

mod all_reduce;
mod buffers;
mod check;
mod combine;
mod cse;
mod dead;
mod early;
mod fuse;
mod hoist;
mod merge_sums;
mod order;
mod overlap;
mod products;
#[cfg(test)]
mod tests;
mod tile;
mod uses;

pub use all_reduce::AllReduce;
pub use buffers::{lower_bound, plan};
pub use check::check;

use crate::names::Mesh;
use crate::program::{Compiled, Origin, Program, Step, ValueId, VariableType, verify};
use std::sync::Arc;

/// A rewriting of programs.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The name in faults and traces.
    pub name: &'static str,
    /// Why it stands where it stands.
    pub reason: &'static str,
    /// What it does. The program is legal before and after.
    pub run: fn(&mut Program, &Mesh),
}

const OVERLAP: &str = "overlap";

/// The passes in the order in which they run.
pub fn passes() -> &'static [Pass] {
    &[
        Pass {
            name: "dead steps",
            reason: "lowering emits whole operations; what nobody needs costs later passes time \
                     and hides single uses from them",
            run: dead::run,
        },
        Pass {
            name: "common subexpressions",
            reason: "gradients repeat the forward pass's broadcasts, transposes and reads; once \
                     merged, equal partial sums are one value",
            run: cse::run,
        },
        Pass {
            name: "loop invariants",
            reason: "merged, so that each is moved once; before sums are merged, which then sees \
                     what left the rounds",
            run: hoist::run,
        },
        Pass {
            name: "merge pending sums",
            reason: "sums of reduced partials become reduced sums of partials: one collective \
                     instead of several, found once each partial has its true number of uses",
            run: merge_sums::run,
        },
        Pass {
            name: "dead steps after merging",
            reason: "merging may leave a collective without outs that anybody needs",
            run: dead::run,
        },
        Pass {
            name: "elementwise products",
            reason: "after merging, so that equal products have become one; before fusion, which \
                     takes what becomes a map",
            run: products::run,
        },
        Pass {
            name: "fusion",
            reason: "what is merged or removed need not be read; what moves does so before \
                     reductions find their place",
            run: fuse::run,
        },
        Pass {
            name: "memory order",
            reason: "for what fusion leaves; before tiles, which are cut along the dims that lie \
                     outermost",
            run: order::run,
        },
        Pass {
            name: "tiles",
            reason: "what fusion could not join is done tile by tile; the rest keeps its place",
            run: tile::run,
        },
        Pass {
            name: "early reductions",
            reason: "what is merged or removed has no place any more; of the rest, what frees \
                     memory should do so before more is taken",
            run: early::run,
        },
        Pass {
            name: "combine small all-reduces",
            reason: "merging and early reductions look at sums one by one; what is left and stands \
                     near enough is met for once",
            run: combine::run,
        },
        Pass {
            name: OVERLAP,
            reason: "each step has its form and each collective its size; whatever moved steps \
                     afterwards would have to know what is under way",
            run: overlap::run,
        },
    ]
}

/// A program that breaks the verifier's or the plan checker's rules although lowering and passes
/// must keep them: a bug of this crate, never a mistake of its user.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "internal error: program {program} is illegal after {pass}. This is a bug in mesh_core, not \
     in your model; please report it.\n  {}",
    problems.join("\n  ")
)]
pub struct Fault {
    /// The program's name.
    pub program: String,
    /// What ran last.
    pub pass: &'static str,
    /// What is wrong, as the verifier or the checker says it.
    pub problems: Vec<String>,
}

/// Improves a program by [`passes`] but for one, makes its all-reduces as wanted before it overlaps
/// them with computation, and plans its memory.
pub fn compile(
    program: Program,
    mesh: &Mesh,
    variables: &[VariableType],
    all_reduce: AllReduce,
    without: Option<&str>,
) -> Result<Compiled, Fault> {
    let (last, others): (Vec<_>, Vec<_>) = passes().iter().partition(|pass| pass.name == OVERLAP);
    let passes =
        others.into_iter().copied().chain(all_reduce.pass()).chain(last.into_iter().copied());
    let passes: Vec<_> = passes.filter(|pass| Some(pass.name) != without).collect();
    compile_with(&passes, program, mesh, variables)
}

/// As [`compile`], with other passes.
///
/// The program is verified when it comes and when it leaves, and in debug builds between passes.
pub fn compile_with(
    passes: &[Pass],
    mut program: Program,
    mesh: &Mesh,
    variables: &[VariableType],
) -> Result<Compiled, Fault> {
    let fault = |program: &Program, pass: &'static str| {
        let program = program.name.clone();
        move |problems| Fault { program, pass, problems }
    };
    verify(&program, mesh, variables).map_err(fault(&program, "lowering"))?;
    let mut last = "lowering";
    for pass in passes {
        everywhere(&mut program, &mut |program| (pass.run)(program, mesh));
        last = pass.name;
        if cfg!(debug_assertions) {
            verify(&program, mesh, variables).map_err(fault(&program, last))?;
        }
    }
    writes_last(&mut program);
    verify(&program, mesh, variables).map_err(fault(&program, last))?;
    let plan = plan(&program, variables);
    check(&program, &plan, variables).map_err(fault(&program, "buffer planning"))?;
    Ok(Compiled { program, plan })
}

/// Does something to a program and then to the bodies of its loops.
fn everywhere(program: &mut Program, run: &mut impl FnMut(&mut Program)) {
    run(program);
    for node in &mut program.steps {
        if let Step::Loop(rounds) = &mut node.step {
            everywhere(&mut rounds.body, run);
        }
    }
}

/// Moves writes behind all other steps, in order: so a variable's old value can be read wherever
/// a read stands, as [`plan`] wants it.
pub fn writes_last(program: &mut Program) {
    program.steps.sort_by_key(|node| matches!(node.step, Step::Write { .. }));
}

/// Drops values that nothing defines and numbers the others in the order of their definition.
fn compact(program: &mut Program) {
    let feeds = program.feeds.iter().map(|slot| slot.value);
    let outs = program.steps.iter().flat_map(|node| node.step.outs().iter().copied());
    let old: Vec<ValueId> = feeds.chain(outs).collect();
    if old.iter().map(|value| value.index()).eq(0..program.values.len()) {
        return;
    }
    let mut new = vec![ValueId(u32::MAX); program.values.len()];
    for (index, &old) in (0..).zip(&old) {
        new[old.index()] = ValueId(index);
    }
    program.values = old.iter().map(|&old| program.value(old).clone()).collect();
    let renumber = |value: &mut ValueId| *value = new[value.index()];
    for node in &mut program.steps {
        node.step.each_input(renumber);
        node.step.each_out(renumber);
    }
    program.tensors.retain(|slot| new[slot.value.index()] != ValueId(u32::MAX));
    let slots = program.feeds.iter_mut().chain(&mut program.fetches).chain(&mut program.tensors);
    slots.for_each(|slot| renumber(&mut slot.value));
}

/// Where a step comes from that does what two did; it stands where the second stood.
fn merged(one: &Arc<Origin>, two: &Arc<Origin>) -> Arc<Origin> {
    let mut merged = one.operations().to_vec();
    for origin in two.operations() {
        if !merged.contains(origin) {
            merged.push(Arc::clone(origin));
        }
    }
    let (op, name) = (joined(&one.op, &two.op), joined(&one.name, &two.name));
    let (at, slice) = (two.at.clone(), two.slice.clone());
    Arc::new(Origin { op, name, at, slice, merged })
}

/// Two names, or chains of names, as one chain; of long ones the first and the last.
fn joined(one: &str, two: &str) -> String {
    let first = one.split('+').next().unwrap_or(one);
    let last = two.rsplit('+').next().unwrap_or(two);
    let middle = if one.contains('+') || two.contains('+') { "+…+" } else { "+" };
    format!("{first}{middle}{last}")
}

mod combine;
mod handed;
mod orders;
mod overlaps;
mod plans;
mod random;
mod rewrites;
mod rounds;
mod tiles;
mod widenings;

use super::*;
use crate::program::sketch::{Sketch, axis, built, square, var, variable, x};
use crate::program::{Builder, Generator, Place, Plan, Step, print};

/// Compiles and gives the printed program with the plan's places.
fn planned(program: Program, variables: &[VariableType]) -> String {
    let mesh = square();
    let compiled = compile_with(&[], program, &mesh, variables).unwrap();
    let places: Vec<_> = (0..)
        .zip(&compiled.plan.places)
        .map(|(index, place)| match place {
            Place::Arena(begin) => format!("{:?} @{begin}", ValueId(index)),
            Place::Variable(variable) => format!("{:?} in {variable:?}", ValueId(index)),
            other => format!("{:?} {other:?}", ValueId(index)),
        })
        .collect();
    format!(
        "{}arena {}: {}",
        print(&compiled.program, &mesh),
        compiled.plan.arena_bytes,
        places.join(", ")
    )
}

#[test]
fn passes_have_names_and_reasons() {
    let list: Vec<_> = passes().iter().map(|pass| pass.name).collect();
    let expected = [
        "dead steps",
        "common subexpressions",
        "loop invariants",
        "merge pending sums",
        "dead steps after merging",
        "elementwise products",
        "fusion",
        "memory order",
        "tiles",
        "early reductions",
        "combine small all-reduces",
        "overlap",
    ];
    assert_eq!(list, expected);
    assert!(passes().iter().all(|pass| pass.reason.len() > 40));
}

#[test]
fn a_pass_that_breaks_a_program_is_a_fault_of_ours() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let image = b.fed("image", &[4]);
        let double = b.of(x(0) + x(0), &[image]);
        b.fetched("double", double);
    });
    let run = |program: &mut Program, _: &Mesh| program.steps.clear();
    let broken = [Pass { name: "clear", reason: "none", run }];
    let fault = compile_with(&broken, program, &mesh, &[]).unwrap_err();
    insta::assert_snapshot!(fault, @r"
    internal error: program test is illegal after clear. This is a bug in mesh_core, not in your model; please report it.
      fetch double: %1 is used before it is defined
      value %1: is never defined
    ");
}

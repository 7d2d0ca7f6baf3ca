mod combine;
mod folds;
mod handed;
mod kept;
mod loops;
mod moved;
mod orders;
mod overlaps;
mod plans;
mod random;
mod rewrites;
mod slices;
mod tiles;
mod widenings;

use super::*;
use crate::array::{Array, ArrayRef};
use crate::exec::{Backend, Reference, ThreadBackend};
use crate::program::forms::Loop;
use crate::program::sketch::{Sketch, axis, built, square, var, variable, x};
use crate::program::{Builder, Form, Generator, Place, Plan, Step, print};

/// All passes, in the order in which they run.
fn all() -> Vec<PassId> {
    PORTABLE.into_iter().chain(Target::host().passes).collect()
}

/// All passes but one.
fn without(pass: PassId) -> Vec<PassId> {
    all().into_iter().filter(|own| *own != pass).collect()
}

fn host() -> Machine {
    Target::host().machine
}

/// What passes know on a mesh.
fn cx<'a>(mesh: &'a Mesh, machine: &'a Machine) -> PassCx<'a> {
    PassCx { mesh, all_reduce: AllReduce::default(), machine }
}

/// A program that has gone through passes, with its plan.
fn compiled(
    program: Program,
    mesh: &Mesh,
    variables: &[VariableType],
    passes: &[PassId],
) -> Compiled {
    compile(program, mesh, variables, &Target { passes: passes.to_vec(), ..Target::host() })
        .unwrap()
}

/// Something to run one program on threads, which has variables.
fn backend(
    mesh: &Mesh,
    variables: &[VariableType],
    compiled: Compiled,
    couriers: Option<bool>,
    check_numerics: bool,
) -> ThreadBackend {
    let (mesh, variables) = (mesh.clone(), variables.to_vec());
    let (functions, init) = (vec![compiled], Compiled::default());
    let executable = Executable { mesh, variables, functions, init, check_numerics };
    ThreadBackend::new(executable, 7, &[], couriers).unwrap()
}

/// Zeros for what a program leaves.
fn zeros(program: &Program) -> Vec<Array> {
    let zeros = |(slot, value): (&crate::program::Slot, ValueId)| {
        Array::zeros(program.value(value).dtype, &slot.shape)
    };
    program.left().map(zeros).collect()
}

/// What a program leaves that is fed these arrays.
fn run(mesh: &Mesh, compiled: Compiled, feeds: &[ArrayRef<'_>]) -> Vec<Array> {
    let mut outs = zeros(&compiled.program);
    let mut backend = backend(mesh, &[], compiled, None, false);
    backend.call(0, feeds, &mut outs, &mut []).unwrap();
    outs
}

/// Arrays as f64.
fn doubles(arrays: Vec<Array>) -> Vec<Vec<f64>> {
    arrays.iter().map(|array| array.to_f64().into_iter().collect()).collect()
}

/// The loops of a program.
fn loops(program: &Program) -> Vec<&Loop> {
    program.block.loops().map(|(_, form)| form).collect()
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Compiles and gives the printed program with the plan's places.
fn planned(program: Program, variables: &[VariableType]) -> String {
    let mesh = square();
    let compiled = compiled(program, &mesh, variables, &[]);
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
fn every_pass_runs_once_and_has_a_reason() {
    let list: Vec<_> = all().iter().map(|pass| pass.name()).collect();
    let expected = [
        "dead steps",
        "common subexpressions",
        "moves",
        "loop invariants",
        "merge pending sums",
        "dead steps",
        "all-reduces",
        "elementwise products",
        "kept values",
        "summed products",
        "folds",
        "fusion",
        "memory order",
        "tiles",
        "slices",
        "early reductions",
        "combine small all-reduces",
        "overlap",
    ];
    assert_eq!(list, expected);
    for pass in PassId::ALL {
        assert!(pass.reason().len() > 40 && all().contains(pass), "{pass}");
        assert!(!without(*pass).contains(pass));
    }
}

#[test]
fn an_illegal_program_is_a_fault_of_ours() {
    let mesh = square();
    let mut program = built(&mesh, |b| {
        let image = b.fed("image", &[4]);
        let double = b.of(x(0) + x(0), &[image]);
        b.fetched("double", double);
    });
    program.block.steps.clear();
    let fault = improve(&mut program, &mesh, &[], AllReduce::Direct, &PORTABLE).unwrap_err();
    insta::assert_snapshot!(fault, @r"
    internal error: program test is illegal after lowering. This is a bug in mesh_core, not in your model; please report it.
      result 0: %1 is used before it is defined
      value %1: is never defined
    ");
}

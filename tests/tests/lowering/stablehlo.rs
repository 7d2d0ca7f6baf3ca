//! Whatever is lowered has a text in StableHLO, with a collective there for each that it has. What
//! compilers make of the texts, the tests on XLA's devices show.

use mesh_core::lower::{Options, Warnings};
use mesh_core::program::{Block, Form, Program, StableHloOptions};
use mesh_ops::prelude::*;
use mesh_ops::testing::{Trial, dim_names, rooms};
use std::collections::BTreeSet;

/// Where texts are made: four processors, so that groups are some of them.
const MESH: &str = "a:2;b:2";

/// Dims of a case that are split, one after the other: more would show the same forms again.
const DIMS: usize = 3;

/// The names of the collectives of a block and its loops, as the text has them.
fn collectives(block: &Block, found: &mut Vec<&'static str>) {
    for step in &block.steps {
        match &step.form {
            Form::Loop(form) => collectives(&form.body, found),
            // Every input is met for by itself.
            Form::AllReduce(_) => found.extend(step.inputs.iter().map(|_| "all_reduce")),
            Form::ReduceTo(_) | Form::Broadcast(_) => found.push("all_reduce"),
            Form::Permute(_) => found.push("collective_permute"),
            form if form.axes().is_some() => found.push(form.name()),
            _ => {}
        }
    }
}

/// How often a text has each of these operations.
fn counted(text: &str, program: &Program) -> Result<(), String> {
    let mut expected = Vec::new();
    collectives(&program.block, &mut expected);
    for name in BTreeSet::from_iter(expected.iter().copied()) {
        let operations = text.matches(&format!("\"stablehlo.{name}\"(")).count();
        let steps = expected.iter().filter(|step| **step == name).count();
        if operations != steps {
            return Err(format!("{operations} of {name} for {steps} steps"));
        }
    }
    Ok(())
}

/// Every case of every room, forward and backward: nothing is split, then each of some dims.
#[test]
fn every_case_is_spelled() {
    let mesh: Mesh = MESH.parse().unwrap();
    let quiet = Options { warnings: Warnings::Keep, ..Options::default() };
    let mut faults = Vec::new();
    let mut texts = 0;
    for case in rooms().flat_map(|room| room.cases()) {
        let trial = Trial::new(&case, &[]).unwrap();
        let rules = dim_names(&trial.graph).into_iter().take(DIMS).map(|dim| format!("{dim}:a"));
        for layout in [String::new()].into_iter().chain(rules) {
            // Some ops need some of their dims whole.
            let lowered = trial.graph.lower_with(&mesh, &layout.parse().unwrap(), &quiet);
            let Ok(module) = lowered else { continue };
            for program in module.functions() {
                let text = module.stablehlo(&program.name, &StableHloOptions::default());
                let text = text.map_err(|error| error.to_string());
                texts += 1;
                if let Err(fault) = text.and_then(|text| counted(&text, program)) {
                    faults.push(format!("{} {layout:?} {}: {fault}", case.name(), program.name));
                }
            }
        }
    }
    assert!(texts > 1000, "{texts} texts are too few");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn an_unknown_function_is_an_error() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("batch", 4)], F32);
    g.function("forward", [x], [x.relu()], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"batch:a".parse().unwrap()).unwrap();
    let error = module.stablehlo("forwards", &StableHloOptions::default()).unwrap_err();
    let expected =
        "the module has no function `forwards` (did you mean `forward`?): there are forward";
    assert_eq!(error.to_string(), expected);
}

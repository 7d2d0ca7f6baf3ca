//! A session runs only modules whose programs and plans are legal: those of lowering, and those
//! that [`Module::new`] has checked.

use mesh_core::lower::{Module, VariableSpec};
use mesh_core::passes::check;
use mesh_core::program::{Compiled, Form, Place, Plan, ValueId};
use mesh_ops::prelude::*;
use tests::on_host;

use crate::models::MODELS;

/// Changes a plan so that a step's result lies where one of its inputs lies. That is refused unless
/// nothing needs the input any more and the step may work in place; then the bits stay.
#[test]
fn a_value_in_anothers_place_is_refused_unless_nobody_can_tell() {
    let (mut refused, mut accepted) = (0, 0);
    for (model, build) in MODELS {
        let g = mesh_ops::graph();
        build(&g);
        let module = g.lower(&"a:2".parse().unwrap(), &"batch:a".parse().unwrap()).unwrap();
        let types: Vec<_> = module.variables().iter().map(|v| v.local(module.mesh())).collect();
        let Compiled { program, plan } = &on_host(&module)[0];
        let needed = |value: ValueId, from: usize| {
            let mut after = program.steps()[from..].iter();
            program.block.results.contains(&value) || after.any(|step| step.has_input(value))
        };
        for (at, step) in program.steps().iter().enumerate() {
            for (i, out) in step.outs.iter().enumerate() {
                for (j, input) in step.reads().enumerate() {
                    let [from, to] = [input, *out].map(|id| plan.places[id.index()]);
                    if from == to || matches!(step.form, Form::Write(_)) {
                        continue;
                    }
                    let mut aliasing = plan.clone();
                    aliasing.places[out.index()] = from;
                    let what = format!("{model}, step {at}: {out:?} where {input:?} is");
                    if check(program, &aliasing, &types).is_err() {
                        refused += 1;
                        continue;
                    }
                    accepted += 1;
                    let form = &step.form;
                    let may = form.renames() || form.may_work_in_place(&step.inputs, i, j);
                    assert!(may && !needed(input, at + 1), "{what}");
                }
            }
        }
    }
    assert!(refused > 100, "{refused} refused, {accepted} accepted");
}

#[test]
fn what_does_not_fit_is_refused() {
    type Change = fn(&mut Plan);
    const CHANGES: &[(&str, Change)] = &[
        ("ends beyond the arena", |plan| plan.arena_bytes = 64),
        ("ends beyond the arena", |plan| plan.places[0] = Place::Arena(usize::MAX - 63)),
        ("which is not aligned", |plan| plan.places[0] = Place::Arena(4)),
        ("which is not there", |plan| plan.places[0] = Place::Param(0)),
        ("which is not there", |plan| plan.places[0] = Place::Stacked(7)),
        ("places for", |plan| plan.places.truncate(3)),
        ("plans for 0 bodies", |plan| plan.bodies.push(Plan::default())),
    ];
    let (_, build) = MODELS[0];
    let g = mesh_ops::graph();
    build(&g);
    let mesh: Mesh = "a:2".parse().unwrap();
    let module = g.lower(&mesh, &"batch:a".parse().unwrap()).unwrap();
    let types: Vec<_> = module.variables().iter().map(|v| v.local(module.mesh())).collect();
    let Compiled { program, plan } = &on_host(&module)[0];
    for (expected, change) in CHANGES {
        let mut changed = plan.clone();
        change(&mut changed);
        let problems = check(program, &changed, &types).unwrap_err();
        let mut problems = problems.iter().map(ToString::to_string);
        assert!(problems.any(|problem| problem.contains(expected)), "{expected}");
    }
    let on = |mesh: Mesh, variables: &[VariableSpec]| {
        let (functions, init) = (module.functions().to_vec(), module.init().clone());
        Module::new(mesh, variables.to_vec(), functions, init)
    };
    let again = on(mesh.clone(), module.variables()).unwrap();
    assert!(again.functions() == module.functions() && again.init() == module.init());
    on("a:4".parse().unwrap(), module.variables()).unwrap_err();
    on(Mesh::single(), module.variables()).unwrap_err();
    on(mesh, &module.variables()[1..]).unwrap_err();
}

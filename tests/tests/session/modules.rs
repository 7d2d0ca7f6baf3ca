//! A session runs only modules whose programs and plans are legal: those of lowering, and those
//! that [`Module::new`] has checked.

use mesh_core::lower::{Module, VariableSpec};
use mesh_core::program::{Place, Plan, Step};
use mesh_ops::prelude::*;
use tests::changed;

use crate::models::{MODELS, borrowed, feeds};

/// The fetches of a step, then the variables after it.
fn trained(module: &Module) -> Vec<(String, Array)> {
    let mut session = Session::threads(module, 3).unwrap();
    session.set_replica_check(true).unwrap();
    let fetches = session.call_named("train", &borrowed(&feeds(module, "train"))).unwrap();
    let names: Vec<_> = session.variables().map(str::to_owned).collect();
    let variables = names.into_iter().map(|name| {
        let value = session.read(&name).unwrap();
        (name, value)
    });
    fetches.into_iter().chain(variables).collect()
}

/// Changes a plan so that a step's result lies where one of its inputs lies. That is refused unless
/// nothing needs the input any more and the step may work in place; then the bits stay.
#[test]
fn a_value_in_anothers_place_is_refused_or_changes_nothing() {
    let (mut refused, mut accepted) = (0, 0);
    for (model, build) in MODELS {
        let g = mesh_ops::graph();
        build(&g);
        let module = g.lower(&"a:2".parse().unwrap(), &"batch:a".parse().unwrap()).unwrap();
        let want = trained(&module);
        let function = &module.functions()[0];
        for (at, node) in function.program.steps.iter().enumerate() {
            for out in node.step.outs() {
                for input in node.step.inputs() {
                    let [from, to] = [input, *out].map(|id| function.plan.places[id.index()]);
                    if from == to || matches!(node.step, Step::Write { .. }) {
                        continue;
                    }
                    let aliasing = changed(&module, |functions, _| {
                        functions[0].plan.places[out.index()] = from;
                    });
                    let what = format!("{model}, step {at}: {out:?} where {input:?} is");
                    match aliasing {
                        Ok(module) => {
                            accepted += 1;
                            assert_eq!(trained(&module), want, "{what}");
                        }
                        Err(error) => {
                            refused += 1;
                            assert_eq!(error.program, "train", "{what}");
                        }
                    }
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
        ("which is not there", |plan| plan.places[0] = Place::Fed(0)),
        ("which is not there", |plan| plan.places[0] = Place::Stacked(7)),
        ("places for", |plan| plan.places.truncate(3)),
        ("plans for 0 bodies", |plan| plan.bodies.push(Plan::default())),
    ];
    let (_, build) = MODELS[0];
    let g = mesh_ops::graph();
    build(&g);
    let mesh: Mesh = "a:2".parse().unwrap();
    let module = g.lower(&mesh, &"batch:a".parse().unwrap()).unwrap();
    for (expected, change) in CHANGES {
        let refused = changed(&module, |functions, _| change(&mut functions[0].plan));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
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

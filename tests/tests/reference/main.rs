//! The reference back-end: it gives the numbers of threads, on meshes of any size, and back-ends of users
//! may wrap it.

mod folds;
mod language_model;
#[allow(dead_code, reason = "shared with tests of sessions")]
#[path = "../session/models.rs"]
mod models;
mod recorder;
mod refusals;

use mesh_core::lower::Target;
use mesh_core::session::{Reference, Result};
use mesh_ops::prelude::*;
use models::{MODELS, borrowed, feeds, layouts};

/// How far results of small models may be apart that are made of the same sums in another order, relative
/// to the largest number: some hundred roundings of f32.
const ROUNDING: f64 = 1e-5;

/// Calls of a training function that are compared.
const STEPS: usize = 2;

/// Layouts of a model on a mesh that are compared.
const LAYOUTS: usize = 6;

/// The fetches of some steps, then the variables.
fn trained(mut session: Session, module: &Module) -> Vec<Array> {
    session.set_replica_check(true).unwrap();
    let feeds = feeds(module, "train");
    let step = |session: &mut Session| session.call_named("train", &borrowed(&feeds)).unwrap();
    let fetched = (0..STEPS).flat_map(|_| step(&mut session)).map(|(_, array)| array);
    let mut all: Vec<_> = fetched.collect();
    let names: Vec<_> = session.variables().map(str::to_owned).collect();
    all.extend(names.iter().map(|name| session.read(name).unwrap()));
    all
}

#[track_caller]
fn assert_near(what: &str, found: &[Array], expected: &[Array], rounding: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()), "{what}");
        let exact = !found.dtype().is_float();
        let (found, expected) = (found.to_f64(), expected.to_f64());
        let largest = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        let allowed = if exact { 0.0 } else { rounding * largest };
        for (index, x) in found.indexed_iter() {
            let y = expected[&index];
            assert!((x - y).abs() <= allowed, "{what}: result {i} at {index:?}: {x}, not {y}");
        }
    }
}

/// Whatever is made of a module, and whoever runs it: the numbers are the same.
#[test]
fn models_train_as_on_threads() {
    for (model, build) in MODELS {
        let g = mesh_ops::graph();
        build(&g);
        for mesh in ["", "a:2", "a:2;b:2"] {
            for (layout, module) in layouts(&g, &mesh.parse().unwrap(), LAYOUTS) {
                let session = |session: Result<Session>| trained(session.unwrap(), &module);
                let expected = session(Session::threads(&module, 7));
                let compiled = Reference::compiled(&module, &Target::host(), 7).unwrap();
                let what = format!("{model} on \"{mesh}\" under \"{layout}\"");
                assert_near(&what, &session(Session::reference(&module, 7)), &expected, ROUNDING);
                let what = format!("{what}, compiled");
                assert_near(&what, &session(Session::on(&module, compiled)), &expected, ROUNDING);
            }
        }
    }
}

//! Sessions on XLA's devices, through the plugin that `MESH_PJRT_PLUGIN` names: they do what threads do, keep
//! variables on the devices, and say what is wrong with plugins.

#[path = "../conformance/attention.rs"]
mod attention;
#[path = "../conformance/beams.rs"]
mod beams;
mod collectives;
mod conformance;
#[path = "../conformance/conv.rs"]
mod conv;
#[path = "../conformance/core.rs"]
mod core;
mod edges;
mod errors;
#[path = "../conformance/index.rs"]
mod index;
#[path = "../conformance/layers.rs"]
mod layers;
#[path = "../conformance/meanings.rs"]
mod meanings;
#[path = "../conformance/mixtures.rs"]
mod mixtures;
#[allow(dead_code, reason = "shared with tests of sessions")]
#[path = "../session/models.rs"]
mod models;
#[path = "../conformance/routed.rs"]
mod routed;
mod state;
#[path = "../conformance/transformers.rs"]
mod transformers;
#[path = "../conformance/variables.rs"]
mod variables;

use conformance::conform;
use mesh_core::session::Plugin;
use mesh_ops::prelude::*;
use models::{MODELS, borrowed, feeds, layouts};
use std::sync::LazyLock;
use tests::{fast, plugin};

/// How far results may be apart that are made of the same sums in another order, relative to the largest
/// number: some hundred roundings of f32.
const ROUNDING: f64 = 1e-5;

/// Calls of a training function that are compared.
const STEPS: usize = 3;

/// Layouts of a model on a mesh that are compared.
const LAYOUTS: usize = 3;

/// Of the sizes of convolutions and pools that the suite tries, one in so many: each is compiled.
const EVERY: usize = 31;

/// A session on devices; on threads if there is no plugin, which is said.
fn started(module: &Module) -> Session {
    static PLUGIN: LazyLock<Option<Plugin>> = LazyLock::new(plugin);
    match &*PLUGIN {
        Some(plugin) => Session::xla_with(module, 0, &fast(plugin)).unwrap(),
        None => Session::threads(module, 0).unwrap(),
    }
}

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
fn assert_near(what: &str, found: &[Array], expected: &[Array]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()), "{what}");
        let exact = !found.dtype().is_float();
        let (found, expected) = (found.to_f64(), expected.to_f64());
        let largest = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        let allowed = if exact { 0.0 } else { ROUNDING * largest };
        for (index, x) in found.indexed_iter() {
            let y = expected[&index];
            assert!((x - y).abs() <= allowed, "{what}: result {i} at {index:?}: {x}, not {y}");
        }
    }
}

/// A perceptron, attention and a convolution, with their gradients and updates.
#[test]
fn models_train_as_on_threads() {
    let Some(plugin) = plugin() else { return };
    for (model, build) in MODELS {
        let g = mesh_ops::graph();
        build(&g);
        let meshes = ["", "a:2", "a:2;b:2"].map(|mesh| mesh.parse::<Mesh>().unwrap());
        let there = conformance::mesh().processors();
        for mesh in meshes.iter().filter(|mesh| mesh.processors() <= there) {
            for (layout, module) in layouts(&g, mesh, LAYOUTS) {
                let expected = trained(Session::threads(&module, 7).unwrap(), &module);
                let session = Session::xla_with(&module, 7, &fast(&plugin)).unwrap();
                let what = format!("{model} on \"{mesh}\" under \"{layout}\"");
                assert_near(&what, &trained(session, &module), &expected);
            }
        }
    }
}

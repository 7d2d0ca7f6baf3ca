//! What holds for everything in the list of optimizers.

use mesh_core::lower::Target;
use mesh_core::session::Threads;
use mesh_core::session::checkpoint::{Checkpoints, Restore};
use mesh_ops::prelude::*;
use mesh_optimize::{Entry, Optimizer, OptimizerConfig, compute_gradients, optimizers};
use ndarray::{Array2, ArrayD};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Sums over slices in another order, in f64, through four steps of which some divide by roots of small
/// numbers.
const TOLERANCE: f64 = 1e-10;

/// Of the roots that Shampoo keeps: moments of few gradients are singular but for epsilon, and the root of what is
/// next to nothing there enlarges rounding. The variables, which multiply it by as little, are held to the other bound.
const ROOTS: f64 = 1e-8;

/// Meshes and layouts: alone, ZeRO-1, FSDP beside tensor parallelism, owners.
const LAYOUTS: [(&str, &str); 4] = [
    ("", ""),
    ("d:2", "batch:d;slots/*:d"),
    ("d:2;m:2", "batch:d;hidden:m;params/*:d;slots/*:d"),
    ("d:2", "batch:d;slots/*:d@each"),
];

/// The configuration of an optimizer with its default options, around another one if that is asked for.
pub(crate) fn config(entry: &Entry) -> Value {
    let mut config = json!({"opt_name": entry.name(), "lr": 0.01});
    if entry.wraps() {
        config["inner"] = json!({"opt_name": "momentum"});
    }
    config
}

fn refused(config: &Value) -> String {
    OptimizerConfig::from_json(&config.to_string()).unwrap_err().to_string()
}

/// A network of two layers whose function `train` takes `x` and `y`.
pub(crate) fn network(g: &Graph, optimizer: &dyn Optimizer) -> Function<2, 1> {
    let (batch, hidden) = (dim("batch", 4), dim("hidden", 4));
    let [x, y] =
        [("x", 6), ("y", 2)].map(|(name, size)| g.input(name, [batch, dim(name, size)], F64));
    let inner = x.dense(hidden, "first").tanh();
    let loss = (inner.dense(dim("y", 2), "second") - y).square().mean();
    g.function("train", [x, y], [loss], optimizer.apply_grads(&compute_gradients(loss, &[])))
}

fn session(g: &Graph, (mesh, layout): (&str, &str), target: Target) -> Session {
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
    let module = module.unwrap_or_else(|report| panic!("{layout}: {report}"));
    Session::threads_with(&module, 5, &Threads::default().target(target)).unwrap()
}

pub(crate) fn steps(session: &mut Session, train: &Function<2, 1>, steps: std::ops::Range<usize>) {
    for step in steps {
        let of = |width, salt: usize| {
            Array2::from_shape_fn((4, width), |(i, j)| {
                ((step * 50 + i * 7 + j + salt) as f64).sin()
            })
        };
        let (x, y) = (of(6, 0), of(2, 1000));
        let feeds = [x.view().into_dyn().into(), y.view().into_dyn().into()];
        let [loss] = session.call(train, feeds).unwrap();
        assert!(loss.item().unwrap().is_finite());
    }
}

pub(crate) fn variables(session: &Session) -> BTreeMap<String, ArrayD<f64>> {
    let names: Vec<_> = session.variables().map(str::to_owned).collect();
    names.into_iter().map(|name| (name.clone(), session.read(&name).unwrap().to_f64())).collect()
}

#[track_caller]
pub(crate) fn close(
    got: &BTreeMap<String, ArrayD<f64>>,
    want: &BTreeMap<String, ArrayD<f64>>,
    what: &str,
) {
    assert!(got.keys().eq(want.keys()), "{what}: {:?}", got.keys());
    for (name, want) in want {
        let most = want.iter().fold(1e-3, |most: f64, x| most.max(x.abs()));
        let off = (&got[name] - want).iter().fold(0.0, |off: f64, x| off.max(x.abs()));
        let is_root = ["/shampoo_lr", "/shampoo_rr"].iter().any(|slot| name.ends_with(slot));
        let tolerance = if is_root { ROOTS } else { TOLERANCE };
        assert!(off <= tolerance * most, "{what}: {name} is off by {off:e} of {most:e}");
    }
}

/// Every number is looked at, a checkpoint after two steps is gone on from under every layout, and where two
/// more steps lead is the same.
#[test]
fn they_go_on_from_checkpoints_on_other_meshes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("listed");
    for entry in optimizers() {
        let name = entry.name();
        let config = OptimizerConfig::from_json(&config(entry).to_string()).unwrap();
        let (g, optimizer) = (mesh_ops::graph(), config.optimizer());
        let train = network(&g, &*optimizer);
        let mut whole = session(&g, LAYOUTS[0], Target::host().check_numerics());
        steps(&mut whole, &train, 0..2);
        let kept = Checkpoints::new(folder.join(name));
        kept.save(2, &whole.snapshot().unwrap(), &Default::default()).unwrap();
        steps(&mut whole, &train, 2..4);
        let listed: BTreeSet<_> = optimizer.slot_names().into_iter().collect();
        for variable in g.trainable_variables() {
            let prefix = format!("{}/", variable.name());
            let made =
                variable.slots().into_iter().map(|slot| slot.name()[prefix.len()..].to_owned());
            assert!(made.clone().all(|slot| listed.contains(&*slot)), "{name}: {listed:?}");
        }
        for layout in LAYOUTS {
            let mut resumed = session(&g, layout, Target::host());
            resumed.set_replica_check(true).unwrap();
            let checkpoint = kept.latest().unwrap().checkpoint.unwrap();
            resumed.restore(&checkpoint, &Restore::all()).unwrap();
            steps(&mut resumed, &train, 2..4);
            close(&variables(&resumed), &variables(&whole), &format!("{name} under {layout:?}"));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Each option takes its own default, and refuses what it may not be.
#[test]
fn their_options_are_checked() {
    for entry in optimizers() {
        let name = entry.name();
        for option in entry.options() {
            let with = |value: Value| {
                let mut config = config(entry);
                config[option.name] = value;
                config
            };
            let default = serde_json::from_str(&option.default);
            let default = default.unwrap_or_else(|_| json!(option.default));
            OptimizerConfig::from_json(&with(default).to_string())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            // No option is a negative number or a text of no meaning.
            for wrong in [json!(-1.5), json!("nonsense")] {
                let error = refused(&with(wrong.clone()));
                let said = format!("{}: {wrong} is not legal; legal is ", option.name);
                assert!(error.starts_with(&said) && error.lines().count() == 1, "{name}: {error}");
            }
            let legal = option.legal.trim_end_matches(", or none");
            assert!(!legal.is_empty(), "{name}: {}", option.name);
        }
        let mut stranger = config(entry);
        let misspelt =
            entry.options().first().map_or("optoin".to_owned(), |o| format!("{}x", o.name));
        stranger[&misspelt] = json!(1);
        assert!(
            refused(&stranger).contains(&format!("{misspelt}: there is no such key")),
            "{name}"
        );
    }
}

/// What a room says of itself is what users read.
#[test]
fn they_are_described() {
    let names: BTreeSet<_> = optimizers().iter().map(Entry::name).collect();
    assert_eq!(names.len(), optimizers().len());
    for entry in optimizers() {
        let about = entry.about();
        let year = about.paper.split(|c: char| !c.is_ascii_digit()).any(|word| word.len() == 4);
        assert!(year && about.rate > 0.0 && !about.formula.is_empty(), "{about:?}");
        assert!(["PyTorch", "optax"].iter().any(|peer| about.peers.contains(peer)), "{about:?}");
    }
}

//! The programs that `tests/mpi/` starts on several ranks: `mpirun -n 4 ranks WHAT [FOLDER
//! [SECONDS]]`.

mod allocations;
mod decoding;
mod exchanged;
mod faults;
mod feeds;
mod killed;
#[allow(dead_code, reason = "shared with tests of sessions")]
#[path = "../tests/session/models.rs"]
mod models;
mod overlap;
mod transformer;

use mesh_core::lower::Options;
use mesh_core::passes::AllReduce;
use mesh_core::program::Form;
use mesh_core::session::checkpoint::{Checkpoint, Checkpoints, Restore, State};
use mesh_ops::prelude::*;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of calls that are compared.
const STEPS: usize = 3;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let folder = arguments.get(1).map(PathBuf::from).unwrap_or_default();
    match arguments.first().map(String::as_str) {
        Some("same") => same([mesh()].into_iter().chain(shared_meshes())),
        Some("same-apart") => same([mesh()]),
        Some("feeds") => feeds::run(),
        Some("overlap") => overlap::run(),
        Some("allocations") => allocations::run(),
        Some("save") => save(&folder),
        Some("resume") => resume(&folder, &mesh()),
        Some("resume-shared") => resume(&folder, &shared_meshes()[1]),
        Some("train") => killed::train(&folder, arguments[2].parse().unwrap()),
        Some(fault) if faults::run(fault, &folder) => {}
        _ => {
            println!("nothing to do: `cargo test -p tests --test mpi` starts this on several ranks")
        }
    }
}

fn ranks() -> usize {
    let ranks = env::var("OMPI_COMM_WORLD_SIZE").or_else(|_| env::var("PMI_SIZE"));
    ranks.map_or(1, |ranks| ranks.parse().unwrap())
}

/// A square mesh, or a line, with one processor per rank.
pub fn mesh() -> Mesh {
    let text = match ranks() {
        4 => "a:2;b:2",
        2 => "a:2;b:1",
        _ => "a:1;b:1",
    };
    text.parse().unwrap()
}

/// Meshes with several processors per rank, in which the last axis lies within ranks, or the first,
/// or one axis both within and between, or both axes.
fn shared_meshes() -> Vec<Mesh> {
    let order = |text: &str, order: &[usize]| {
        text.parse::<Mesh>().unwrap().with_order(order.to_vec()).unwrap()
    };
    let plain = |text: &str| text.parse().unwrap();
    match ranks() {
        4 => vec![plain("a:4;b:2"), order("a:2;b:4", &[0, 2, 4, 6, 1, 3, 5, 7])],
        2 => vec![
            plain("a:2;b:2"),
            order("a:2;b:2", &[0, 2, 1, 3]),
            order("a:2;b:2", &[0, 2, 3, 1]),
            plain("a:2;b:4"),
        ],
        _ => vec![plain("a:2;b:2")],
    }
}

/// A model and the layouts under which it is compared if they are legal.
type Case = (&'static str, fn(&Graph), &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "mlp",
        models::mlp,
        &[
            "",
            "batch:a; hidden:b",
            "batch:a+b",
            "hidden:a; pixels:b",
            "classes:b; hidden:a",
            "batch:a; params/*:a; slots/*:a",
            "batch:a+b; params/*:b@1; slots/*:b@1",
        ],
    ),
    ("conv", models::conv, &["batch:a; filters:b", "rows:a+b"]),
    (
        "transformer",
        transformer::build,
        &[
            "batch:a; heads:b; d_ff:b; vocab:b",
            "length:a; memory_length:b",
            "length:b; batch:a; slots/*:a",
            "batch:b+a; slots/*:a@each",
            "batch:a; params/*:a; slots/*:a",
        ],
    ),
    (
        "attention that is exchanged",
        exchanged::build,
        &["length:a+b", "length:a; batch:b; params/*:b", "length:b; heads:a"],
    ),
    (
        "decoding",
        decoding::build,
        &["memory_length:a+b", "memory_length:a; heads:b", "batch:a; memory_length:b"],
    ),
];

/// Every model under each of its layouts that the mesh allows.
fn modules(mesh: &Mesh) -> Vec<(String, Module)> {
    let mut found = Vec::new();
    for (name, build, layouts) in CASES {
        let graph = mesh_ops::graph();
        build(&graph);
        for layout in *layouts {
            let layout: Layout = layout.parse().unwrap();
            // Some models are too small for some meshes.
            let Ok(module) = graph.lower(mesh, &layout) else { continue };
            let in_two_steps = sums_over_several(&module).then(|| {
                let options = Options { all_reduce: AllReduce::Hierarchical, ..Options::default() };
                let module = graph.lower_with(mesh, &layout, &options).unwrap();
                (format!("{name} {layout}, in two steps"), module)
            });
            found.push((format!("{name} {layout}"), module));
            found.extend(in_two_steps);
        }
    }
    found
}

fn sums_over_several(module: &Module) -> bool {
    let mut steps = module.functions().iter().flat_map(|function| function.steps());
    steps.any(|step| matches!(&step.form, Form::AllReduce(form) if form.axes.len() > 1))
}

/// Runs some steps and returns all fetches.
pub fn train(session: &mut Session, module: &Module, steps: usize) -> Vec<Array> {
    let feeds = models::feeds(module, "train");
    let step = |_| session.call_named("train", &models::borrowed(&feeds)).unwrap();
    (0..steps).flat_map(step).map(|(_, array)| array).collect()
}

/// The bits of everything a session holds.
fn bits(session: &Session) -> Vec<(String, Vec<u64>)> {
    let names: Vec<_> = session.variables().map(str::to_owned).collect();
    names.into_iter().map(|name| (name.clone(), of(&session.read(&name).unwrap()))).collect()
}

fn of(array: &Array) -> Vec<u64> {
    array.to_f64().iter().map(|x| x.to_bits()).collect()
}

fn assert_same(what: &str, ours: &[Array], theirs: &[Array]) {
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(of(ours), of(theirs), "fetches of {what}");
    }
}

/// Ranks compute the bits of threads.
fn same(meshes: impl IntoIterator<Item = Mesh>) {
    let mut count = 0;
    for mesh in meshes {
        let modules = modules(&mesh);
        assert!(modules.len() > 8, "{} modules on {mesh}", modules.len());
        modules.iter().for_each(|(name, module)| compare(&format!("{name} on {mesh}"), module));
        count += modules.len();
    }
    println!("{count} modules are the same");
}

fn compare(name: &str, module: &Module) {
    let mut threads = Session::threads(module, 5).unwrap();
    let mut ranks = Session::mpi(module, 5).unwrap();
    ranks.set_replica_check(true).unwrap();
    ranks.record(true).unwrap();
    assert_same(name, &train(&mut ranks, module, STEPS), &train(&mut threads, module, STEPS));
    assert_eq!(bits(&ranks), bits(&threads), "variables of {name}");
    // A rank has only the times of its own processors.
    let own = (0..module.mesh().processors()).filter(|&p| ranks.recorded(p).is_some());
    let mut expected = ranks.processes().of(ranks.rank()).to_vec();
    expected.sort_unstable();
    assert_eq!(own.collect::<Vec<_>>(), expected, "{name}");
    // A write on one rank is a write on all.
    let first = ranks.variables().next().unwrap().to_owned();
    let before = ranks.read(&first).unwrap();
    let zeros = Array::zeros(before.dtype(), before.shape());
    ranks.write(&first, &zeros).unwrap();
    assert_eq!(ranks.read(&first).unwrap(), zeros, "{name}");
}

const LAYOUT: &str = "batch:a; heads:b; d_ff:b; slots/*:a";

fn attention(mesh: &Mesh) -> Module {
    let graph = mesh_ops::graph();
    transformer::build(&graph);
    graph.lower(mesh, &LAYOUT.parse().unwrap()).unwrap()
}

/// Trains and saves: the files are those that threads save.
fn save(folder: &Path) {
    let (module, step) = (attention(&mesh()), STEPS as u64);
    let (mut ranks, mut threads) =
        (Session::mpi(&module, 9).unwrap(), Session::threads(&module, 9).unwrap());
    train(&mut ranks, &module, STEPS);
    train(&mut threads, &module, STEPS);
    let (own, all) = (ranks.snapshot().unwrap(), threads.snapshot().unwrap());
    assert!(ranks.rank() == 0 || own.bytes() < all.bytes() / 2, "a rank has what others have");
    let path = Checkpoints::new(folder).save(step, &own, &State::new()).unwrap();
    let alone = Checkpoints::new(folder.join(format!("threads-{}", ranks.rank())));
    let expected = alone.save(step, &all, &State::new()).unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
    for entry in fs::read_dir(&expected).unwrap() {
        let name = entry.unwrap().file_name();
        let [ours, theirs] = [&path, &expected].map(|p| fs::read(p.join(&name)).unwrap());
        assert!(ours == theirs, "{name:?}");
    }
    fs::remove_dir_all(alone.folder()).unwrap();
    let stored = Checkpoint::open(path).unwrap();
    threads.restore(&stored, &Restore::all()).unwrap();
    assert_eq!(bits(&ranks), bits(&threads));
}

/// Resumes from the checkpoint on the present number of ranks.
fn resume(folder: &Path, mesh: &Mesh) {
    let module = attention(mesh);
    let stored = Checkpoints::new(folder).latest().unwrap().checkpoint.unwrap();
    let mut ranks = Session::mpi(&module, 0).unwrap();
    let mut threads = Session::threads(&module, 0).unwrap();
    ranks.restore(&stored, &Restore::all()).unwrap();
    threads.restore(&stored, &Restore::all()).unwrap();
    let (ours, theirs) = (train(&mut ranks, &module, STEPS), train(&mut threads, &module, STEPS));
    assert_same("what goes on", &ours, &theirs);
    assert_eq!(bits(&ranks), bits(&threads));
}

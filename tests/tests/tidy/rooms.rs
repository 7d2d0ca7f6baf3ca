//! Which room uses which, and what stands in one room alone.

use crate::sources::{production, rooms, used_of, words};
use tests::circles::circle;

#[test]
fn one_room_names_mpi() {
    for (path, code) in production("mesh_core/src").into_iter().chain(production("examples/src")) {
        let named = code.contains("use mpi::") || code.contains("ffi::MPI_");
        assert!(!named || path.starts_with("mesh_core/src/exec/mpi/"), "{path} names MPI");
    }
}

#[test]
fn one_file_of_the_executor_names_what_threads_share() {
    const NAMED: [&str; 6] =
        ["std::sync", "core::sync", "alloc::sync", "std::thread", "spin_loop", "thread::park"];
    for (path, code) in production("mesh_core/src/exec") {
        let flat: String = code.split_whitespace().collect();
        let named = NAMED.iter().find(|name| flat.contains(**name));
        let hidden =
            used_of(&code, "std::").into_iter().find(|used| used == "sync" || used == "thread");
        let is_sync = path == "mesh_core/src/exec/sync.rs";
        assert!(is_sync || (named, &hidden) == (None, &None), "{path} names {named:?} {hidden:?}");
    }
}

#[test]
fn comm_threads_and_ranks_stand_one_upon_the_other() {
    let table: [(&str, &[&str]); 2] = [("comm", &["threads", "mpi"]), ("threads", &["mpi"])];
    for (room, forbidden) in table {
        for (path, code) in production(&format!("mesh_core/src/exec/{room}")) {
            let used = [used_of(&code, "super::"), used_of(&code, "exec::")].concat();
            let stray = used.iter().find(|used| forbidden.contains(&used.as_str()));
            assert_eq!(stray, None, "{path}: exec/{room}/ may not use it");
        }
    }
}

#[test]
fn rooms_of_core_use_what_stands_before_them() {
    let table: [(&str, &[&str]); 4] = [
        ("split", &["graph", "lower", "passes", "exec", "session"]),
        ("program", &["graph", "lower", "split", "passes", "exec", "session"]),
        ("passes", &["graph", "lower", "split", "exec", "session"]),
        ("exec", &["graph", "lower", "split", "session"]),
    ];
    for (room, forbidden) in table {
        for (path, code) in production(&format!("mesh_core/src/{room}")) {
            let used = rooms(&code);
            let stray = used.iter().find(|used| forbidden.contains(&used.as_str()));
            assert_eq!(stray, None, "{path}: {room}/ may not use it");
        }
    }
}

#[test]
fn the_graph_knows_of_lowering_what_an_op_sees() {
    for (path, code) in production("mesh_core/src/graph") {
        let used = used_of(&code, "lower::");
        let seen = ["LocalCx", "PlaceCx", "PlacedCx", "Placing", "Shares"];
        let stray = used.iter().find(|used| !seen.contains(&used.as_str()));
        assert_eq!(stray, None, "{path}: graph/ knows an op's contexts only");
    }
}

#[test]
fn files_of_a_room_stand_in_an_order() {
    for room in ["exec", "graph", "names"] {
        let files = production(&format!("mesh_core/src/{room}")).into_iter();
        let in_crate = |path: String| path["mesh_core/src/".len()..].to_owned();
        let files: Vec<_> = files.map(|(path, code)| (in_crate(path), code)).collect();
        assert_eq!(circle(&files), None, "these files use each other in a circle");
    }
}

#[test]
fn the_executor_knows_no_layout() {
    let strangers = ["Layout", "Rules", "Placement", "Slice", "Shape", "Dimension", "DimName"];
    for (path, code) in production("mesh_core/src/exec") {
        let used = used_of(&code, "names::");
        let stray = used.iter().find(|used| strangers.contains(&used.as_str()));
        assert_eq!(stray, None, "{path}: exec/ knows extents and groups only");
    }
}

#[test]
fn optimizers_know_no_mesh() {
    let strangers = [
        "mesh",
        "meshes",
        "layout",
        "layouts",
        "axis",
        "axes",
        "placement",
        "processor",
        "processors",
        "collective",
        "collectives",
    ];
    // What they share, beside the rooms.
    let shared = [
        "descent.rs",
        "trust.rs",
        "weight_decay.rs",
        "optimizer.rs",
        "adafactor/",
        "wrappers/",
        "muon/",
        "matrices.rs",
        "roots.rs",
    ];
    let mut rooms = 0;
    for (path, code) in production("mesh_optimize/src") {
        if code.contains("Optimizer for") || shared.iter().any(|name| path.contains(name)) {
            let other_names = ["mesh_core", "mesh_ops", "Mesh TensorFlow"];
            let code = other_names.iter().fold(code, |code, name| code.replace(name, ""));
            let stray = words(&code).into_iter().find(|word| strangers.contains(&word.as_str()));
            assert_eq!(stray, None, "{path}: an optimizer says nothing of where tensors lie");
            rooms += 1;
        }
    }
    assert!(rooms >= 30, "{rooms} rooms of optimizers");
}

/// Its formula, options and examples aside; `config.rs` beside it says their names.
#[test]
fn muon_is_a_short_room() {
    const MOST: usize = 120;
    let [(_, code)] = &production("mesh_optimize/src/muon/mod.rs")[..] else { panic!("one file") };
    let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= MOST, "{lines} lines");
}

#[test]
fn names_know_nobody() {
    for (path, code) in production("mesh_core/src/names") {
        let used = rooms(&code);
        assert!(used.iter().all(|used| used == "names"), "{path} uses {used:?}");
    }
}

#[test]
fn core_knows_no_mathematical_op() {
    let ops = [
        "einsum",
        "matmul",
        "relu",
        "gelu",
        "tanh",
        "sigmoid",
        "softmax",
        "softplus",
        "swish",
        "conv2d",
        "concat",
        "onehot",
        "embedding",
        "attention",
        "norm",
        "dropout",
        "cumsum",
        "transformer",
        "dense",
    ];
    for room in ["graph", "split", "lower", "passes"] {
        for (path, code) in production(&format!("mesh_core/src/{room}")) {
            let words = words(&code);
            let named = ops.iter().find(|op| words.iter().any(|word| word == *op));
            assert_eq!(named, None, "{path} names an op");
        }
    }
}

#[test]
fn unsafe_code_lives_in_the_executor() {
    for crate_ in ["mesh_core", "mesh_ops", "mesh_optimize", "examples"] {
        for (path, code) in production(&format!("{crate_}/src")) {
            let names = words(&code).iter().any(|word| word == "unsafe");
            let lifts = code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code");
            let inside = path.starts_with("mesh_core/src/exec/");
            assert!(inside || !(names || lifts), "{path} has unsafe code");
        }
    }
}

#[test]
fn one_room_calls_plugins() {
    let room = "mesh_core/src/exec/xla/ffi";
    for (path, code) in production("mesh_core/src") {
        let calls = code.contains("libloading") || code.contains("PJRT_");
        let lifts = code.contains("unsafe") && path.starts_with("mesh_core/src/exec/xla/");
        assert!(path.starts_with(room) || !(calls || lifts), "{path} reaches into plugins");
    }
}

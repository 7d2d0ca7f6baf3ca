//! `mnist` and `lm` on the ranks of an MPI job write the same bytes as on threads.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{run, scratch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const MNIST: &str = "--mesh b1:2;b2:2 --layout row_blocks:b1;col_blocks:b2 --batch 40 --steps 4 \
                     --optimizer adam";
const MNIST_ROWS: &str = "--model mlp --mesh data:4 --layout batch:data;slots/*:data --batch 40 \
                          --steps 6 --optimizer adam";
const LM: &str = "--mesh data:2;model:2 --layout batch:data;heads:model;d_ff:model;vocab:model \
                  --steps 4 --sequence 32 --batch 4 --width 32 --depth 2 --sample 0";

/// Tests run one at a time, as ranks share the cores.
static TURN: Mutex<()> = Mutex::new(());

/// The reason why no ranks can be started, if there is one.
fn missing() -> Option<&'static str> {
    let starts =
        || Command::new("mpirun").arg("--version").output().is_ok_and(|o| o.status.success());
    if !cfg!(feature = "mpi") {
        Some("built without `--features mpi`")
    } else if !starts() {
        Some("mpirun cannot be started")
    } else {
        None
    }
}

/// The metrics and the tensors of the checkpoint that a run wrote.
fn written(folder: &Path, ranks: Option<usize>, program: &str, line: &str) -> [Vec<u8>; 2] {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    let (metrics, checkpoints) = (folder.join("metrics"), folder.join("checkpoints"));
    let mut arguments: Vec<&str> = line.split_whitespace().collect();
    arguments.extend(["--metrics", metrics.to_str().unwrap()]);
    arguments.extend(["--checkpoints", checkpoints.to_str().unwrap()]);
    match ranks {
        None => drop(run(program, &arguments).well()),
        Some(ranks) => {
            let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let ranks = ranks.to_string();
            let before = ["--oversubscribe", "--allow-run-as-root", "-n", &ranks, program];
            run("mpirun", &[&before, &arguments[..]].concat()).well();
        }
    }
    let newest = fs::read_dir(&checkpoints).unwrap().map(|entry| entry.unwrap().path()).max();
    let tensors = newest.unwrap().join("variables.safetensors");
    [metrics, tensors].map(|file| fs::read(file).unwrap())
}

#[track_caller]
fn the_same(test: &str, ranks: &[usize], program: &str, line: &str) {
    let folder = scratch(test);
    let threads = written(&folder, None, program, line);
    for &ranks in ranks {
        let [metrics, tensors] = written(&folder, Some(ranks), program, line);
        let as_text = |metrics: &[u8]| String::from_utf8_lossy(metrics).into_owned();
        assert_eq!(as_text(&metrics), as_text(&threads[0]), "{ranks} ranks, {line}");
        assert!(tensors == threads[1], "{ranks} ranks, {line}: other variables");
    }
}

#[test]
fn ranks_write_what_threads_write() {
    if let Some(reason) = missing() {
        tests::skip("mpi", reason);
        return;
    }
    let [mnist, lm] = [env!("CARGO_BIN_EXE_mnist"), env!("CARGO_BIN_EXE_lm")];
    the_same("ranks-mnist", &[2, 4], mnist, MNIST);
    the_same("ranks-mnist-rows", &[2, 4], mnist, MNIST_ROWS);
    the_same("ranks-lm", &[2, 4], lm, LM);
    the_same("ranks-couriers", &[2], lm, &format!("{LM} --couriers on"));
}

#[test]
fn ranks_train_on_real_digits() {
    if let Some(reason) = missing() {
        tests::skip("mpi", reason);
        return;
    }
    let data: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/mnist");
    if !data.is_dir() {
        tests::skip("data", &format!("there are no MNIST files in {}", data.display()));
        return;
    }
    let line = format!("{MNIST} --data {}", data.display());
    the_same("ranks-real", &[4], env!("CARGO_BIN_EXE_mnist"), &line);
}

//! Checkpoints are restored bit for bit from any mesh and layout into any other; damaged ones never
//! are.

mod damage;
mod layouts;
mod model;
mod partial;
mod python;
mod resume;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use mesh_ops::prelude::*;

/// A folder of the test's own, which is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("checkpoints-{}-{count}", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A session of a graph.
fn session(g: &Graph, (mesh, layout): (&str, &str), seed: u64) -> Session {
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, seed).unwrap();
    session.set_replica_check(true).unwrap();
    session
}

/// The bytes of an array, row-major, so that different NaNs differ.
fn bytes(array: &Array) -> Vec<u8> {
    match array {
        Array::F32(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::F64(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::BF16(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::I32(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::Bool(array) => array.iter().map(|&x| u8::from(x)).collect(),
    }
}

/// Every variable's name, shape and bytes.
fn content(session: &Session) -> Vec<(String, Vec<usize>, Vec<u8>)> {
    let one = |name: &str| {
        let array = session.read(name).unwrap();
        (name.to_owned(), array.shape().to_vec(), bytes(&array))
    };
    session.variables().map(one).collect()
}

//! Python's safetensors reads checkpoints.

use std::path::Path;
use std::process::Command;

use mesh_core::session::checkpoint::{Checkpoints, State};
use mesh_ops::prelude::*;
use serde_json::Value;
use tests::python::python;

use super::model::{adam, every_dtype, model, scramble};
use super::{Scratch, bytes, session};

/// Python reads from a checkpoint what the session holds.
fn read(python: &str, session: &Session) {
    let scratch = Scratch::new();
    let state: State = [("note".to_owned(), "größe \"1\"\n".to_owned())].into();
    let path =
        Checkpoints::new(&*scratch).save(1200, &session.snapshot().unwrap(), &state).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/read_checkpoint.py");
    let output = Command::new(python).arg(script).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["step"], 1200);
    assert_eq!(found["seed"], session.seed());
    assert_eq!(found["state"]["note"], state["note"]);
    let tensors = found["tensors"].as_object().unwrap();
    assert_eq!(tensors.len(), session.variables().count());
    for name in session.variables() {
        let array = session.read(name).unwrap();
        let hex: String = bytes(&array).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(tensors[name]["bytes"], hex, "{name}");
        assert_eq!(tensors[name]["shape"], serde_json::json!(array.shape()), "{name}");
        let dtype = array.dtype().to_string().to_uppercase();
        assert_eq!(tensors[name]["dtype"], dtype, "{name}");
    }
}

#[test]
fn python_reads_what_was_saved() {
    let Some(python) = python("numpy, safetensors.numpy") else { return };
    let mut every = session(&every_dtype(), ("a:2;b:2", "h:a;params/*:b"), u64::MAX);
    scramble(&mut every, 3);
    read(&python, &every);
    // The model has no bf16, which numpy lacks.
    let model = model(&adam());
    let mut trained = session(&model.graph, ("d:2", "batch:d;params/*:d;slots/*:d"), 4);
    model.step(&mut trained, 0);
    read(&python, &trained);
}

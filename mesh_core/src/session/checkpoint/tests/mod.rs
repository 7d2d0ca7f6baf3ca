mod hostile;
mod kept;
mod killed;
mod left;
mod together;
mod writing;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ndarray::{arr0, arr1, arr2};

use super::lock::LOCK;
use super::snapshot::tests::{session as of_variables, variable};
use super::*;
use crate::names::{DType, Mesh, Placement, dim};
use crate::session::Session;

/// A folder of the test's own, which is removed at the end of the test.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mesh-checkpoint-{}-{count}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// The names in the folder, hidden ones included, without the lock.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != LOCK);
        names.sort();
        names
    }
}

impl std::ops::Deref for Scratch {
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

/// A session with the variables `w` (f32, split), `flags` (bool) and `step` (i32), all computed
/// from `number`.
pub(super) fn session(mesh: &str, number: i32) -> Session {
    let mesh: Mesh = mesh.parse().unwrap();
    let axes: Vec<_> = mesh.axes().collect();
    let (x, y) = (dim("x", 4), dim("y", 3));
    let mut w = variable("w", DType::F32, &[x, y]);
    w.placement = Placement::replicated().split(x.name, &axes);
    let mut step = variable("step", DType::I32, &[]);
    step.trainable = false;
    let variables = vec![step, variable("flags", DType::Bool, &[y]), w];
    let mut session = of_variables(&mesh, variables, number as u64);
    session.write("step", &arr0(number)).unwrap();
    session.write("flags", &arr1(&[number % 2 == 0, true, number % 3 == 0])).unwrap();
    let row = |i: i32| [0, 1, 2].map(|j| (number * (3 * i + j)) as f32);
    session.write("w", &arr2(&[row(0), row(1), row(2), row(3)])).unwrap();
    session
}

pub(super) fn values(session: &Session) -> Vec<crate::array::Array> {
    session.variables().map(|name| session.read(name).unwrap()).collect()
}

/// The number that [`session`] computed the checkpoint's variables from.
pub(super) fn number(checkpoint: &Checkpoint) -> i32 {
    let mut restored = session("a:4", 0);
    restored.restore(checkpoint, &Restore::all()).unwrap();
    let number = restored.read("step").unwrap().item().unwrap() as i32;
    assert_eq!(values(&restored), values(&session("", number)));
    assert_eq!((restored.seed(), checkpoint.seed()), (number as u64, number as u64));
    number
}

#[test]
fn files_are_the_same_whatever_the_mesh() {
    let state = State::from([("epoch".to_owned(), "3".to_owned())]);
    let files = ["", "a:2", "a:2;b:2"].map(|mesh| {
        let scratch = Scratch::new();
        let path = Checkpoints::new(&*scratch)
            .save(12, &session(mesh, 5).snapshot().unwrap(), &state)
            .unwrap();
        assert_eq!(path, scratch.join("step-0000000012"));
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert_eq!((checkpoint.step(), checkpoint.state(), number(&checkpoint)), (12, &state, 5));
        assert_eq!(checkpoint.signature(), session("a:4", 0).signature());
        ["variables.safetensors", "manifest.json"].map(|name| fs::read(path.join(name)).unwrap())
    });
    assert_eq!(files[0], files[1]);
    assert_eq!(files[0], files[2]);
    // The data are aligned.
    let length = u64::from_le_bytes(files[0][0][..8].try_into().unwrap());
    assert!(length.is_multiple_of(8));
    let header = r#"{"w":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]},"step":{"dtype":"I32","shape":[],"data_offsets":[48,52]},"flags":{"dtype":"BOOL","shape":[3],"data_offsets":[52,55]}}"#;
    let found = String::from_utf8_lossy(&files[0][0][8..][..length as usize]);
    assert_eq!(found.trim_end(), header);
    insta::assert_snapshot!(String::from_utf8_lossy(&files[0][1]), @r#"
    {
      "format": "mesh checkpoint",
      "version": 1,
      "step": 12,
      "seed": 5,
      "signature": "c3a48238f673da11",
      "file": {
        "bytes": 239,
        "header_crc32c": "961c3057"
      },
      "tensors": {
        "flags": {
          "dims": [
            "y"
          ],
          "trainable": true,
          "crc32c": "73c63b0d"
        },
        "step": {
          "dims": [],
          "trainable": false,
          "crc32c": "ee00d08c"
        },
        "w": {
          "dims": [
            "x",
            "y"
          ],
          "trainable": true,
          "crc32c": "a7715e96"
        }
      },
      "state": {
        "epoch": "3"
      },
      "crc32c": "b07b48f3"
    }
    "#);
}

#[test]
fn signatures_know_names_types_shapes_and_what_is_trainable() {
    let mesh = Mesh::single();
    let (x, y) = (dim("x", 4), dim("y", 3));
    let signature = |variables: &[crate::lower::VariableSpec]| {
        of_variables(&mesh, variables.to_vec(), 0).signature()
    };
    let [a, b] = ["a", "b"].map(|name| variable(name, DType::F32, &[x, y]));
    let first = signature(&[a.clone(), b.clone()]);
    assert_eq!(signature(&[b.clone(), a.clone()]), first);
    // FNV-1a of the lines `"a" f32[4, 3] true` and so on, computed by another program.
    assert_eq!(first, "597fe710b027d1c0");
    let frozen = crate::lower::VariableSpec { trainable: false, ..a.clone() };
    let others = [
        vec![a.clone()],
        vec![frozen, b.clone()],
        vec![variable("a", DType::I32, &[x, y]), b.clone()],
        vec![variable("a", DType::F32, &[y, x]), b.clone()],
        vec![variable("c", DType::F32, &[x, y]), b],
    ];
    assert!(others.iter().all(|other| signature(other) != first));
}

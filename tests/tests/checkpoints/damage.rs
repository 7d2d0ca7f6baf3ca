//! Damaged files are refused, and the checkpoint before them is used.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use mesh_core::session::checkpoint::{Checkpoint, Checkpoints, Restore, State};
use mesh_ops::prelude::*;
use mesh_ops::testing::Random;

use super::model::{every_dtype, scramble};
use super::{Scratch, content, session};

const FILES: [&str; 2] = ["variables.safetensors", "manifest.json"];

type Content = Vec<(String, Vec<usize>, Vec<u8>)>;

/// Two checkpoints, at steps 10 and 20, and the content of the first.
struct Two {
    scratch: Scratch,
    checkpoints: Checkpoints,
    graph: Graph,
    first: Content,
}

impl Two {
    fn new() -> Self {
        let (scratch, graph) = (Scratch::new(), every_dtype());
        let checkpoints = Checkpoints::new(&*scratch);
        let mut saved = session(&graph, ("d:2", "h:d"), 1);
        let state: State = [("epoch".to_owned(), "1".to_owned())].into();
        scramble(&mut saved, 1);
        checkpoints.save(10, &saved.snapshot().unwrap(), &state).unwrap();
        let first = content(&saved);
        scramble(&mut saved, 2);
        checkpoints.save(20, &saved.snapshot().unwrap(), &state).unwrap();
        Self { scratch, checkpoints, graph, first }
    }

    /// The newer checkpoint.
    fn newer(&self) -> PathBuf {
        self.scratch.join("step-0000000020")
    }

    /// After damage to the newer checkpoint the older one is found.
    fn older_is_used(&self, restored: &mut Session, what: &str) {
        assert!(Checkpoint::open(self.newer()).is_err(), "{what}");
        let found = self.checkpoints.latest().unwrap();
        let paths: Vec<_> = found.refused.iter().map(|refused| refused.path.clone()).collect();
        assert_eq!(paths, [self.newer()], "{what}");
        let checkpoint = found.checkpoint.unwrap();
        assert_eq!((checkpoint.step(), &*checkpoint.state()["epoch"]), (10, "1"));
        restored.restore(&checkpoint, &Restore::all()).unwrap();
        assert_eq!(content(restored), self.first, "{what}");
    }
}

/// Damages bytes at random and says how.
fn damage(random: &mut Random, bytes: &mut Vec<u8>) -> String {
    let mut below = |count: usize| random.below(count);
    let at = below(bytes.len());
    match below(7) {
        0 | 1 => {
            let bit = below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        2 => {
            bytes[at] ^= 1 + below(255) as u8;
            format!("byte {at} changed")
        }
        3 => {
            bytes.truncate(at);
            format!("cut off at {at}")
        }
        4 => {
            bytes.insert(at, below(256) as u8);
            format!("a byte more at {at}")
        }
        5 => {
            bytes.remove(at);
            format!("byte {at} lost")
        }
        _ => {
            let end = (at + 1 + below(64)).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|byte| *byte = !*byte);
            format!("bytes {at} to {end} turned over")
        }
    }
}

#[test]
fn two_hundred_kinds_of_damage() {
    let two = Two::new();
    let mut restored = session(&two.graph, ("d:2", "params/*:d"), 3);
    let mut random = Random::new("damage");
    for case in 0..200 {
        let path = two.newer().join(FILES[case % 2]);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let what = damage(&mut random, &mut bytes);
        assert!(bytes != whole, "{what}");
        fs::write(&path, bytes).unwrap();
        two.older_is_used(&mut restored, &format!("{case}: {}: {what}", path.display()));
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(two.checkpoints.latest().unwrap().checkpoint.unwrap().step(), 20);
}

/// A change of any byte of either file, or of its length, is noticed.
#[test]
fn every_byte_counts() {
    let g = mesh_ops::graph();
    g.variable("w", [dim("x", 5)], F32, Initializer::ONES);
    g.state("flags", [dim("x", 5)], Bool, Initializer::ONES);
    g.function("nothing", [], [], []);
    let scratch = Scratch::new();
    let saved = session(&g, ("", ""), 1).snapshot().unwrap();
    let folder = Checkpoints::new(&*scratch).save(1, &saved, &State::new()).unwrap();
    for name in FILES {
        let path = folder.join(name);
        let whole = fs::read(&path).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let set = |at: usize, byte: u8| {
            (&file).seek(SeekFrom::Start(at as u64)).unwrap();
            (&file).write_all(&[byte]).unwrap();
        };
        for (at, &byte) in whole.iter().enumerate() {
            set(at, byte ^ 1 << (at % 8));
            assert!(Checkpoint::open(&folder).is_err(), "{name}: byte {at}");
            set(at, byte);
        }
        for length in (0..=whole.len() as u64 + 1).rev() {
            file.set_len(length).unwrap();
            let opened = Checkpoint::open(&folder);
            let as_written = length == whole.len() as u64;
            assert_eq!(opened.is_ok(), as_written, "{name}: cut to {length}");
        }
        fs::write(&path, whole).unwrap();
    }
    Checkpoint::open(&folder).unwrap();
}

/// Files of different checkpoints, each of which is whole.
#[test]
fn files_that_do_not_belong_together() {
    let two = Two::new();
    let mut restored = session(&two.graph, ("", ""), 3);
    let older = two.scratch.join("step-0000000010");
    for name in FILES {
        let whole = fs::read(two.newer().join(name)).unwrap();
        fs::copy(older.join(name), two.newer().join(name)).unwrap();
        two.older_is_used(&mut restored, name);
        fs::remove_file(two.newer().join(name)).unwrap();
        two.older_is_used(&mut restored, name);
        fs::write(two.newer().join(name), whole).unwrap();
    }
}

/// A file that changes after it was opened.
#[test]
fn damage_between_opening_and_restoring_changes_nothing() {
    let two = Two::new();
    let checkpoint = Checkpoint::open(two.newer()).unwrap();
    let mut restored = session(&two.graph, ("d:2", "h:d"), 3);
    scramble(&mut restored, 9);
    let before = content(&restored);
    let path = two.newer().join(FILES[0]);
    let mut bytes = fs::read(&path).unwrap();
    // The byte belongs to the last variable in the file.
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = restored.restore(&checkpoint, &Restore::all()).unwrap_err().to_string();
    assert!(error.contains("are not those that were written"), "{error}");
    assert_eq!((content(&restored), restored.seed()), (before, 3));
}

//! Checkpoints from any layout into any other.

use std::fs;

use mesh_core::session::checkpoint::{Checkpoint, Checkpoints, Restore, State};
use mesh_ops::prelude::*;
use proptest::prelude::*;

use super::model::{LAYOUTS, adafactor, adam, every_dtype, model, scramble};
use super::{Scratch, content, session};

/// The contents of a checkpoint's files.
fn files(path: &std::path::Path) -> [Vec<u8>; 2] {
    ["variables.safetensors", "manifest.json"].map(|name| fs::read(path.join(name)).unwrap())
}

/// Saves under every layout: the files are equal. Restores under every layout: the variables are
/// those that were saved. Together these hold for any two layouts.
fn between_all(g: &Graph, layouts: &[(&str, &str)]) {
    let mut first = session(g, layouts[0], 1);
    scramble(&mut first, 5);
    let expected = content(&first);
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch);
    let path = checkpoints.save(3, &first.snapshot().unwrap(), &State::new()).unwrap();
    let written = files(&path);
    for &layout in layouts {
        let checkpoint = Checkpoint::open(&path).unwrap();
        let mut other = session(g, layout, 2);
        let restored = other.restore(&checkpoint, &Restore::all()).unwrap();
        assert_eq!(content(&other), expected, "{layout:?}");
        assert_eq!((restored.loaded.len(), other.seed()), (expected.len(), 1));
        assert!(restored.kept.is_empty() && restored.left.is_empty() && restored.seed);
        let again = checkpoints.save(3, &other.snapshot().unwrap(), &State::new()).unwrap();
        assert!(files(&again) == written, "{layout:?}");
    }
}

#[test]
fn every_dtype_between_all_layouts() {
    let more = [
        ("m:4", "h:m"),
        ("a:2;b:2", "h:a;params/*:b"),
        ("a:2;b:2", "params/*:a+b"),
        ("a:2;b:2", "h:a;params/*:b@each"),
        ("a:8", "h:a"),
        ("a:3", "params/*:a"),
        ("a:3", "u:a"),
    ];
    between_all(&every_dtype(), &[&LAYOUTS[..1], &more].concat());
}

#[test]
fn optimizers_and_scans_between_all_layouts() {
    between_all(&model(&adam()).graph, &LAYOUTS);
    between_all(&model(&adafactor()).graph, &LAYOUTS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shapes_between_any_two_layouts(
        variables in prop::collection::vec(
            (prop::sample::subsequence(vec![0, 1, 2], 0..=3).prop_shuffle(), 0..5_usize), 1..4),
        sizes in prop::array::uniform3(1..4_usize),
        rules in prop::array::uniform2((prop::array::uniform3(0..3_usize), 0..5_usize)),
        state in any::<u64>(),
    ) {
        let names = ["p", "q", "r"];
        let dtypes = [F32, F64, BF16, I32, Bool];
        let g = mesh_ops::graph();
        for (number, (dims, dtype)) in variables.iter().enumerate() {
            // Every dim can be split over both axes.
            let dims = dims.iter().map(|&d: &usize| dim(names[d], 4 * sizes[d]));
            g.variable(&format!("v{number}"), dims, dtypes[*dtype], Initializer::ZEROS);
        }
        g.function("nothing", [], [], []);
        let layout = |(axes, params): ([usize; 3], usize)| {
            let mut taken = [false; 3];
            let mut rules: Vec<String> = Vec::new();
            for (name, axis) in names.into_iter().zip(axes) {
                if axis > 0 && !std::mem::replace(&mut taken[axis], true) {
                    rules.push(format!("{name}:{}", ["", "a", "b"][axis]));
                }
            }
            rules.extend(["", "params/*:a", "params/*:b@1", "params/*:a@each", "params/*:b"]
                .get(params).filter(|rule| !rule.is_empty()).map(|rule| (*rule).to_owned()));
            rules.join(";")
        };
        let [from, to] = rules.map(layout);
        let mut saved = session(&g, ("a:2;b:2", &from), 1);
        scramble(&mut saved, state);
        let scratch = Scratch::new();
        let path = Checkpoints::new(&*scratch).save(0, &saved.snapshot().unwrap(), &State::new()).unwrap();
        let mut restored = session(&g, ("a:2;b:2", &to), 2);
        restored.restore(&Checkpoint::open(path).unwrap(), &Restore::all()).unwrap();
        prop_assert_eq!(content(&restored), content(&saved), "{} to {}", from, to);
    }
}

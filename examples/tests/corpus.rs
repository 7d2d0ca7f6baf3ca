//! Runs the fuzzer's seeds, and the inputs on which it failed, through the fuzz targets.

#[allow(unreachable_pub, reason = "a crate of its own for the fuzzer")]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_file_of_the_corpus_is_taken_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let entries = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let folders: BTreeSet<_> = entries(&corpus).collect();
    let expected = targets::TARGETS.iter().map(|(name, _)| corpus.join(name)).collect();
    assert_eq!(folders, expected, "a folder for each target");
    let mut size = 0;
    for (name, target) in targets::TARGETS {
        let program = corpus.join(format!("../fuzz_targets/{name}.rs"));
        let program = fs::read_to_string(program).unwrap();
        assert!(program.contains(&format!("mesh_fuzz::{name}(")), "{program}");
        let files: Vec<_> = entries(&corpus.join(name)).collect();
        assert!(!files.is_empty(), "no seeds for {name}");
        for file in files {
            // A failing test shows the name of its file last.
            eprintln!("{}", file.display());
            let bytes = fs::read(&file).unwrap();
            size += bytes.len();
            target(&bytes);
        }
    }
    // The values that the target puts into a manifest are still those that the reader checks.
    let whole = fs::read(corpus.join("checkpoint/whole")).unwrap();
    assert_eq!(targets::opened(&whole).unwrap().unwrap().step(), 7);
    // A run can still resume from a state.
    let begun = fs::read(corpus.join("resumed/begun")).unwrap();
    let (state, _, metrics) = targets::gone_on(&begun).unwrap();
    assert_eq!((state.position.step, metrics.iter().filter(|c| **c == b'\n').count()), (2, 1 + 4));
    assert!(size <= 100_000, "seeds are small on purpose: {size} bytes");
}

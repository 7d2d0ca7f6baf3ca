//! Which checkpoints are kept.

use super::*;

/// The steps of the checkpoints that are there after saves at the given steps.
fn steps(checkpoints: &Checkpoints, scratch: &Scratch, saved: &[u64]) -> Vec<u64> {
    for &step in saved {
        checkpoints
            .save(step, &session("", step as i32).snapshot().unwrap(), &State::new())
            .unwrap();
    }
    scratch
        .names()
        .iter()
        .map(|name| name.strip_prefix("step-").unwrap().parse().unwrap())
        .collect()
}

#[test]
fn the_newest_are_kept_and_each_so_many() {
    type Policy = fn(Checkpoints) -> Checkpoints;
    let table: [(Policy, &[u64], &[u64]); 7] = [
        (|c| c, &[10, 20, 30, 40, 50], &[30, 40, 50]),
        (|c| c.keep_last(1), &[10, 20, 30], &[30]),
        (|c| c.keep_last(0), &[10, 20, 30], &[30]),
        (|c| c.keep_last(9), &[10, 20, 30], &[10, 20, 30]),
        (|c| c.keep_last(2).keep_every(20), &[10, 20, 30, 40, 50, 60, 70], &[20, 40, 60, 70]),
        (|c| c.keep_last(1).keep_every(0), &[10, 20, 30], &[30]),
        // The run goes back: newer checkpoints are neither counted nor removed.
        (|c| c.keep_last(2), &[10, 20, 90, 30, 40], &[30, 40, 90]),
    ];
    for (policy, saved, kept) in table {
        let scratch = Scratch::new();
        assert_eq!(steps(&policy(Checkpoints::new(&*scratch)), &scratch, saved), kept, "{saved:?}");
    }
}

#[test]
fn what_is_not_whole_does_not_count() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch).keep_last(2);
    steps(&checkpoints, &scratch, &[10, 20]);
    fs::write(scratch.join("step-0000000020/manifest.json"), "{}").unwrap();
    // Checkpoint 20 is damaged, so 10 and 30 are the last two.
    assert_eq!(steps(&checkpoints, &scratch, &[30]), [10, 20, 30]);
    assert_eq!(steps(&checkpoints, &scratch, &[40]), [30, 40]);
}

#[test]
fn the_newest_whole_one_is_found_and_the_others_told() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch).keep_last(9);
    let nothing = checkpoints.latest().unwrap();
    assert!(nothing.checkpoint.is_none() && nothing.refused.is_empty());
    steps(&checkpoints, &scratch, &[10, 20, 30, 40]);
    let manifest = |step| scratch.join(format!("step-{step:010}/manifest.json"));
    fs::remove_file(manifest(40)).unwrap();
    fs::remove_dir_all(scratch.join("step-0000000030")).unwrap();
    fs::write(scratch.join("step-0000000030"), "a file").unwrap();
    fs::write(scratch.join("notes.txt"), "not ours").unwrap();
    fs::create_dir(scratch.join("step-zero")).unwrap();
    let found = checkpoints.latest().unwrap();
    assert_eq!(number(&found.checkpoint.unwrap()), 20);
    let refused: Vec<_> = found.refused.iter().map(|refused| &refused.path).collect();
    assert_eq!(refused, [&scratch.join("step-0000000040"), &scratch.join("step-0000000030")]);
    let error = found.refused[0].error.to_string();
    assert!(error.starts_with("cannot read") && error.contains("step-0000000040"), "{error}");
    // A folder without a whole checkpoint and an empty folder are different.
    fs::write(manifest(20), "").unwrap();
    fs::write(manifest(10), "").unwrap();
    let found = checkpoints.latest().unwrap();
    assert!(found.checkpoint.is_none());
    assert_eq!(found.refused.len(), 4);
    // A save replaces whatever has the checkpoint's name.
    checkpoints.save(30, &session("", 8).snapshot().unwrap(), &State::new()).unwrap();
    assert_eq!(number(&checkpoints.latest().unwrap().checkpoint.unwrap()), 8);
    assert!(scratch.names().contains(&"notes.txt".to_owned()));
}

#[test]
fn a_folder_that_cannot_be_is_an_error() {
    let scratch = Scratch::new();
    fs::create_dir_all(&*scratch).unwrap();
    let file = scratch.join("file");
    fs::write(&file, "").unwrap();
    let checkpoints = Checkpoints::new(&file);
    let error =
        checkpoints.save(1, &session("", 1).snapshot().unwrap(), &State::new()).unwrap_err();
    assert!(error.to_string().starts_with("cannot create"), "{error}");
    assert!(checkpoints.latest().is_err());
}

//! Saves that are killed at any operation.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::*;

/// A writer that is killed after so many operations on the disk.
fn killed(checkpoints: &Checkpoints, after: usize) -> Checkpoints {
    let mut checkpoints = checkpoints.clone();
    checkpoints.disk.left = Some(Arc::new(AtomicUsize::new(after)));
    checkpoints
}

/// Kills the save of `number` at `step` after every possible number of operations. Each time a
/// whole checkpoint must be found, the newest from before or the new one. Returns the number of
/// deaths.
fn each_death(keep: usize, earlier: &[(u64, i32)], (step, new): (u64, i32), newest: i32) -> usize {
    for after in 0.. {
        let scratch = Scratch::new();
        let checkpoints = Checkpoints::new(&*scratch).keep_last(keep);
        for &(step, number) in earlier {
            checkpoints
                .save(step, &session("a:2", number).snapshot().unwrap(), &State::new())
                .unwrap();
        }
        let saved = killed(&checkpoints, after).save(
            step,
            &session("", new).snapshot().unwrap(),
            &State::new(),
        );
        let found = checkpoints.latest().unwrap();
        assert!(found.refused.is_empty(), "after {after}: {:?}", found.refused);
        match &found.checkpoint {
            None => assert!(saved.is_err() && earlier.is_empty()),
            Some(checkpoint) => {
                let number = number(checkpoint);
                assert!(
                    number == new || saved.is_err() && number == newest,
                    "after {after}: {number}"
                );
            }
        }
        // The next save cleans up and succeeds.
        let last =
            checkpoints.save(step, &session("", new).snapshot().unwrap(), &State::new()).unwrap();
        assert_eq!(number(&checkpoints.latest().unwrap().checkpoint.unwrap()), new);
        let names = scratch.names();
        assert!(
            names.iter().all(|name| name.starts_with("step-") && name.len() == 15),
            "{names:?}"
        );
        assert!(names.len() <= keep, "{names:?}");
        if let Ok(path) = saved {
            assert_eq!(path, last);
            return after;
        }
    }
    0
}

#[test]
fn the_first_checkpoint_is_there_or_not() {
    // The operations: make the folder of checkpoints and this one's; make, write and sync two
    // files; sync the folder, rename it, and sync the folder of checkpoints.
    assert!(each_death(3, &[], (1, 7), 0) >= 11);
}

#[test]
fn the_one_before_is_found() {
    each_death(3, &[(1, 5), (2, 6)], (3, 7), 6);
}

#[test]
fn what_is_pruned_is_never_the_newest() {
    each_death(1, &[(1, 6)], (2, 7), 6);
    each_death(2, &[(1, 5), (2, 6)], (3, 7), 6);
}

#[test]
fn a_checkpoint_that_is_replaced_is_there_as_it_was_or_will_be() {
    each_death(1, &[(1, 6)], (1, 7), 6);
    each_death(3, &[(1, 5), (2, 6)], (2, 7), 6);
}

#[test]
fn a_full_disk_loses_nothing() {
    // The disk is full, but the writer lives on and removes what it left.
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch);
    checkpoints.save(1, &session("", 6).snapshot().unwrap(), &State::new()).unwrap();
    let mut odd = session("", 7).snapshot().unwrap();
    odd.tensors[2].slices.clear();
    let error = checkpoints.save(2, &odd, &State::new()).unwrap_err().to_string();
    assert_eq!(error, "variable `w` cannot be saved: a part of it is not here");
    assert_eq!(scratch.names(), ["step-0000000001"]);
}

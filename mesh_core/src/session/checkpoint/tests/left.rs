//! A folder that another process saves to, or in which something cannot be removed.

use super::*;
use std::thread;

fn save(checkpoints: &Checkpoints, step: u64) -> Result<PathBuf> {
    checkpoints.save(step, &session("", step as i32).snapshot().unwrap(), &State::new())
}

#[test]
fn one_at_a_time_saves_to_a_folder() {
    let scratch = Scratch::new();
    let [first, second] = [(); 2].map(|()| Checkpoints::new(&*scratch));
    save(&first, 1).unwrap();
    // The other process is this one with another value, which holds the lock.
    for refused in [second.lock(), save(&second, 2).map(drop)] {
        let error = refused.unwrap_err().to_string();
        let named = format!("process {}", std::process::id());
        assert!(error.starts_with(&named) && error.contains("name another folder"), "{error}");
    }
    // Reading takes no lock. Clones share the lock.
    assert_eq!(number(&second.latest().unwrap().checkpoint.unwrap()), 1);
    let clone = first.clone();
    drop(first);
    save(&clone, 3).unwrap();
    drop(clone);
    second.lock().unwrap();
    save(&second, 4).unwrap();
    assert!(second.problems().is_empty());
}

#[test]
fn the_text_of_a_lock_does_not_matter() {
    // At once, since each waits until patience ends.
    thread::scope(|scope| {
        for text in [&b""[..], b"\xff\x00", b"process", &[b'x'; 100_000]] {
            scope.spawn(move || {
                let scratch = Scratch::new();
                fs::create_dir_all(&*scratch).unwrap();
                fs::write(scratch.join(LOCK), text).unwrap();
                let checkpoints = Checkpoints::new(&*scratch);
                checkpoints.lock().unwrap();
                assert!(fs::read_to_string(scratch.join(LOCK)).unwrap().starts_with("process "));
                // A lock file that names no process.
                fs::write(scratch.join(LOCK), text).unwrap();
                let error = Checkpoints::new(&*scratch).lock().unwrap_err().to_string();
                assert!(error.starts_with("another process saves") && error.len() < 400, "{error}");
            });
        }
    });
}

/// A folder of checkpoints on a disk that cannot remove entries of this name.
fn stuck(scratch: &Scratch, name: &'static str) -> Checkpoints {
    let mut checkpoints = Checkpoints::new(&**scratch).keep_last(1);
    checkpoints.disk.stuck = Some(name);
    checkpoints
}

#[test]
fn what_cannot_be_removed_is_told_once_and_keeps_nothing_from_being_saved() {
    for name in [".step-0000000007.tmp-1-2-3", "step-0000000001", "step-0000000002.replaced"] {
        let scratch = Scratch::new();
        save(&Checkpoints::new(&*scratch), 1).unwrap();
        fs::create_dir_all(scratch.join(name)).unwrap();
        let checkpoints = stuck(&scratch, name);
        let mut told = Vec::new();
        for step in 2..6 {
            save(&checkpoints, step).unwrap();
            assert_eq!(number(&checkpoints.latest().unwrap().checkpoint.unwrap()), step as i32);
            told.extend(checkpoints.problems().iter().map(ToString::to_string));
        }
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(name), "{told:?}");
        let names = scratch.names();
        assert_eq!(names.len(), 2, "{names:?}");
        // When it can be removed again, the next save removes it.
        drop(checkpoints);
        save(&Checkpoints::new(&*scratch).keep_last(1), 6).unwrap();
        assert_eq!(scratch.names(), ["step-0000000006"]);
    }
}

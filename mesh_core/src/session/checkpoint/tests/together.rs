//! Saves by several ranks, each with its part of a snapshot. Here ranks are threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::super::snapshot::tests::parts;
use super::*;
use crate::exec::Processes;

/// How long the ranks wait for a dead one.
const DEADLINE: Duration = Duration::from_millis(400);

/// A job of so many ranks, all of which live.
fn job(ranks: usize) -> Processes {
    Processes { deadline: Duration::from_secs(60), ..mortal(ranks) }
}

/// A job of so many ranks, of which one may die.
fn mortal(ranks: usize) -> Processes {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let id = COUNT.fetch_add(1, Ordering::Relaxed);
    Processes { id, rank: 0, ranks, deadline: DEADLINE }
}

/// Each rank saves its part; `disk` makes the folder of checkpoints of each. Returns each rank's
/// result.
fn save_by(
    checkpoints: &Checkpoints,
    step: u64,
    parts: &[Snapshot],
    disk: impl Fn(usize, &mut Checkpoints) + Sync,
) -> Vec<Result<PathBuf>> {
    let state = State::from([("epoch".to_owned(), "3".to_owned())]);
    let save = |(rank, part): (usize, &Snapshot)| {
        let mut own = checkpoints.clone();
        disk(rank, &mut own);
        own.save(step, part, &state)
    };
    thread::scope(|scope| {
        let ranks = parts.iter().enumerate();
        let ranks: Vec<_> = ranks.map(|part| scope.spawn(move || save(part))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Variables of every kind of placement on a mesh `a:2;b:2`, computed from `number`. One is longer
/// than a buffer.
fn session_of_all(number: i32) -> Session {
    let mesh: Mesh = "a:2;b:2".parse().unwrap();
    let [a, b] = ["a", "b"].map(|name| mesh.axis(name).unwrap());
    let (x, y) = (dim("x", 600), dim("y", 500));
    let replicated = Placement::replicated;
    let placements = [
        ("whole", replicated()),
        ("rows", replicated().split(x.name, &[a, b])),
        ("columns", replicated().split(y.name, &[b])),
        ("both", replicated().split(x.name, &[b]).split(y.name, &[a])),
        ("owned", replicated().with_owner(b, 1)),
    ];
    let spec = |(name, placement): (&str, Placement)| crate::lower::VariableSpec {
        placement,
        ..variable(name, DType::F32, &[x, y])
    };
    let names: Vec<_> = placements.iter().map(|(name, _)| *name).collect();
    let mut session = of_variables(&mesh, placements.map(spec).into(), 7);
    for (i, name) in names.iter().enumerate() {
        let value = |(r, c)| (number as usize * (r * 500 + c) + i) as f32;
        session.write(name, &ndarray::Array2::from_shape_fn((600, 500), value)).unwrap();
    }
    session
}

#[test]
fn ranks_write_the_files_that_threads_write() {
    let scratch = Scratch::new();
    let saved = session_of_all(3);
    let state = State::from([("epoch".to_owned(), "3".to_owned())]);
    let alone = Checkpoints::new(scratch.join("alone"))
        .save(5, &saved.snapshot().unwrap(), &state)
        .unwrap();
    for ranks in [2, 3, 4] {
        let folder = scratch.join(format!("{ranks}"));
        let checkpoints = Checkpoints::new(&folder);
        let parts = parts(&saved, job(ranks));
        assert_eq!(
            parts.iter().map(Snapshot::bytes).sum::<usize>(),
            saved.snapshot().unwrap().bytes(),
            "each slice is with one rank"
        );
        let told = save_by(&checkpoints, 5, &parts, |_, _| {});
        let path = folder.join("step-0000000005");
        assert!(told.iter().all(|told| told.as_ref().is_ok_and(|p| *p == path)), "{told:?}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "a checkpoint and the lock");
        assert!(files(&path) == files(&alone), "{ranks} ranks");
    }
}

/// Kills rank `dying` after some number of operations. Then the old checkpoint or the whole new one
/// must be found, and the next attempt must succeed. Returns whether the rank finished before it
/// would have been killed.
fn death(dying: usize, after: usize) -> bool {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch).keep_last(2);
    checkpoints.save(1, &session("", 6).snapshot().unwrap(), &State::new()).unwrap();
    let killed = parts(&session("a:4", 7), mortal(3));
    let told = save_by(&checkpoints, 2, &killed, |rank, checkpoints| {
        let left = (rank == dying).then(|| Arc::new(AtomicUsize::new(after)));
        checkpoints.disk.left = left;
    });
    let found = checkpoints.latest().unwrap();
    assert!(found.refused.is_empty(), "after {after}: {:?}", found.refused);
    let number_found = number(&found.checkpoint.unwrap());
    let committed = number_found == 7;
    assert!(committed || number_found == 6);
    for (rank, told) in told.iter().enumerate().filter(|(rank, _)| *rank != dying) {
        assert_eq!(told.is_ok(), committed, "rank {rank} after {after}: {told:?}");
        if let Err(error) = told {
            let error = error.to_string();
            assert!(error.starts_with(&format!("rank {dying}: ")), "{after}: {error}");
        }
    }
    let again = save_by(&checkpoints, 2, &parts(&session("a:4", 8), job(3)), |_, _| {});
    assert!(again.iter().all(Result::is_ok), "after {after}: {again:?}");
    assert_eq!(number(&checkpoints.latest().unwrap().checkpoint.unwrap()), 8);
    assert_eq!(scratch.names(), ["step-0000000001", "step-0000000002"]);
    told[dying].is_ok()
}

/// Kills a rank after every possible number of operations. Returns the number of deaths.
fn deaths(dying: usize) -> usize {
    let ended_well: Vec<_> = thread::scope(|scope| {
        let deaths: Vec<_> = (0..24).map(|n| scope.spawn(move || death(dying, n))).collect();
        deaths.into_iter().map(|death| death.join().unwrap()).collect()
    });
    ended_well.iter().position(|well| *well).unwrap()
}

#[test]
fn a_rank_may_die_anywhere() {
    // The operations: write the rank's parts of two variables, sync the file; make, write and
    // rename the marker.
    assert_eq!(deaths(1), 6);
    // The operations of a single process, and those with markers.
    assert!(deaths(0) >= 13);
}

#[test]
fn what_goes_wrong_on_one_rank_is_told_on_all() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch);
    let saved = session("a:4", 7);
    for (full, file) in [(2, "variables.safetensors"), (0, "manifest.json")] {
        let told = save_by(&checkpoints, 2, &parts(&saved, job(3)), |rank, checkpoints| {
            checkpoints.disk.full = (rank == full).then_some(file);
        });
        for (rank, told) in told.into_iter().enumerate() {
            let error = told.unwrap_err().to_string();
            let at = if rank == full { "" } else { &format!("rank {full}: ") };
            assert!(error.starts_with(&format!("{at}cannot ")), "rank {rank}: {error}");
            assert!(error.contains(file) && error.ends_with("no storage space"), "{error}");
        }
        // The tensors are removed at once, the rest by the next save.
        let hidden = scratch.join(&scratch.names()[0]);
        assert!(files(&hidden).iter().all(|(name, bytes)| name != file && bytes.len() < 500));
    }
    let told = save_by(&checkpoints, 2, &parts(&saved, job(3)), |_, _| {});
    assert!(told.iter().all(Result::is_ok), "{told:?}");
    assert_eq!(scratch.names(), ["step-0000000002"]);
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch);
    let absent = |missing: usize| {
        let (checkpoints, parts) = (&checkpoints, parts(&session("a:4", 7), mortal(3)));
        let save = |part: &Snapshot| checkpoints.save(2, part, &State::new()).unwrap_err();
        let present = parts.iter().enumerate().filter(|(rank, _)| *rank != missing);
        thread::scope(|scope| {
            let present: Vec<_> =
                present.map(|(_, part)| scope.spawn(move || save(part))).collect();
            present.into_iter().map(|rank| rank.join().unwrap().to_string()).collect::<Vec<_>>()
        })
    };
    let text = "rank 2: its part is not there after 0.4 s in which nothing was written";
    assert_eq!(absent(2), [text, text]);
    let text = "rank 0: it has not begun the checkpoint after 0.4 s in which nothing was written";
    assert_eq!(absent(0), [text, text]);
    assert!(checkpoints.latest().unwrap().checkpoint.is_none());
}

#[test]
fn parts_that_are_not_the_whole_are_refused() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch);
    let mut parts = parts(&session("a:4", 7), job(2));
    parts[1].tensors[2].slices.pop();
    let told = save_by(&checkpoints, 2, &parts, |_, _| {});
    let problem = "variable `w` cannot be saved: a part of it is not here";
    assert_eq!(told[0].as_ref().unwrap_err().to_string(), problem);
    assert_eq!(told[1].as_ref().unwrap_err().to_string(), format!("rank 0: {problem}"));
    assert!(checkpoints.latest().unwrap().checkpoint.is_none());
}

#[test]
fn what_a_killed_job_left_is_not_taken() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch);
    // A complete checkpoint that rank 0 died before renaming.
    let earlier = parts(&session("a:4", 6), mortal(2));
    let told = save_by(&checkpoints, 2, &earlier, |rank, checkpoints| {
        let left = (rank == 0).then(|| Arc::new(AtomicUsize::new(7)));
        checkpoints.disk.left = left;
    });
    assert!(told.iter().all(Result::is_err));
    assert_eq!(scratch.names().len(), 1);
    // Its folder is removed. Still, one rank of the new job is missing.
    let new = parts(&session("a:4", 7), mortal(2));
    let error = checkpoints.save(2, &new[0], &State::new()).unwrap_err().to_string();
    assert!(error.starts_with("rank 1: its part is not there"), "{error}");
    let told = save_by(&checkpoints, 2, &new, |_, _| {});
    assert!(told.iter().all(|told| told.is_err()), "attempts are counted by each rank: {told:?}");
    let told = save_by(&checkpoints, 2, &parts(&session("a:4", 8), job(2)), |_, _| {});
    assert!(told.iter().all(Result::is_ok), "{told:?}");
    assert_eq!(number(&checkpoints.latest().unwrap().checkpoint.unwrap()), 8);
}

#[test]
fn a_slow_rank_is_waited_for_while_somebody_writes() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch);
    let saved = session_of_all(2);
    let parts = parts(&saved, mortal(2));
    let state = State::new();
    let told = thread::scope(|scope| {
        let leads = scope.spawn(|| checkpoints.save(2, &parts[0], &state));
        // The save takes longer than the deadline in all, but no pause is as long.
        let hidden = loop {
            let names = fs::read_dir(&*scratch).map_or(Vec::new(), |_| scratch.names());
            match names.first() {
                Some(name) => break scratch.join(name).join("variables.safetensors"),
                None => thread::yield_now(),
            }
        };
        for _ in 0..6 {
            thread::sleep(DEADLINE / 4);
            let file = fs::File::options().write(true).open(&hidden).unwrap();
            file.set_modified(std::time::SystemTime::now()).unwrap();
        }
        let follows = checkpoints.save(2, &parts[1], &state);
        [leads.join().unwrap(), follows]
    });
    assert!(told.iter().all(Result::is_ok), "{told:?}");
}

#[test]
fn files_that_cannot_be_brought_to_the_disk_are_told_everywhere() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch);
    let parts = parts(&session("a:4", 7), job(2));
    let save = |rank: usize| {
        let synced = move || match rank {
            1 => Err(CheckpointError::Writer { problem: "no".to_owned() }),
            _ => Ok(()),
        };
        let saved = checkpoints.save_after(synced, 3, &parts[rank], &State::new());
        saved.unwrap_err().to_string()
    };
    let told = thread::scope(|scope| {
        let leads = scope.spawn(|| save(0));
        let follows = save(1);
        [leads.join().unwrap(), follows]
    });
    let own = "checkpoints cannot be written beside training: no";
    assert_eq!(told, [format!("rank 1: {own}"), own.to_owned()]);
}

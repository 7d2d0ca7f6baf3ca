//! Every op of `mesh_ops` under the legal layouts, against the reference: the cases that stand in the
//! rooms, those of layers, and what else is known of ops whose dims are split.
//!
//! The committed tables beside this file hold, for each case, the roles of its dims (each *whole*
//! with its reason), how many layouts are legal on each mesh, how many of these are left out, and which
//! functions the case calls. A layout lost or won shows up as a difference. There is a table for each room;
//! `ROOM=elu` checks the rooms of that name alone, and `MESH_LAYOUTS=all` leaves nothing out.

mod attention;
mod beams;
mod calls;
mod conv;
mod core;
mod index;
mod layers;
mod losses;
mod meanings;
mod metrics;
mod mixtures;
mod recurrent;
mod routed;
mod state_space;
mod transformers;
mod variables;

use mesh_core::lower::Module;
use mesh_core::session::Session;
use mesh_ops::testing::{Case, Room, rooms};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Of the sizes that are tried one after the other, one in so many: all.
const EVERY: usize = 1;

/// How far whole numbers may be off, if they are divided.
const ROUNDING: f64 = 0.0;

fn started(module: &Module) -> Session {
    Session::threads(module, 0).unwrap()
}

/// What each case's check found, or its fault.
type Found = Vec<Result<String, String>>;

/// Checks a case and says what was found.
fn checked(case: &Case) -> Result<String, String> {
    let report = case.check()?;
    let calls: Vec<_> = calls::calls(case).into_iter().collect();
    Ok(format!("{report}\n    calls: {}", calls.join(", ")))
}

/// Refuses faults, of whatever table.
fn refuse<'a>(found: impl Iterator<Item = &'a Result<String, String>>) {
    let faults: Vec<_> = found.filter_map(|result| result.as_ref().err()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Compares what was found with the committed table.
fn keep(table: &str, found: Found) {
    let reports: Vec<_> = found.into_iter().flatten().collect();
    let path = "../snapshots/conformance";
    insta::with_settings!({
        snapshot_path => path, prepend_module_to_snapshot => false, omit_expression => true
    }, {
        insta::assert_snapshot!(table, reports.join("\n"));
    });
}

/// Checks the cases of a table and keeps their reports.
fn conform(table: &str, cases: Vec<Case>) {
    let found: Found = cases.iter().map(checked).collect();
    refuse(found.iter());
    keep(table, found);
}

#[test]
fn every_room() {
    let only = std::env::var("ROOM").unwrap_or_default();
    let rooms: Vec<_> = rooms().filter(|room| room.name().contains(&only)).collect();
    assert!(!rooms.is_empty(), "there is no room {only}");
    let cases = |(i, room): (usize, &&Room)| (0..room.cases().len()).map(move |case| (i, case));
    let todo: Vec<_> = rooms.iter().enumerate().flat_map(cases).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(&(room, case)) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.push(((room, case), checked(&rooms[room].cases()[case])));
        }
        found
    };
    // A worker often waits for the processors of its case.
    let workers = 2 * thread::available_parallelism().map_or(1, usize::from);
    let mut found = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    refuse(found.iter().map(|(_, found)| found));
    found.sort_by_key(|(at, _)| *at);
    for of_one in found.chunk_by(|(a, _), (b, _)| a.0 == b.0) {
        let table = rooms[of_one[0].0.0].name().replace("::", "_");
        keep(&table, of_one.iter().map(|(_, found)| found.clone()).collect());
    }
}

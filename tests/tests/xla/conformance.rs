//! Every op and layer on devices: the cases of the conformance suite, forward and backward, each under some of its
//! legal layouts. The cases that stand in no room are in the suite's files, which call [`conform`] here.

use mesh_core::session::Plugin;
use mesh_ops::prelude::*;
use mesh_ops::testing::{Case, all_layouts, rooms};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tests::{fast, plugin};

/// The mesh of devices that are no CPUs, which are as many as there are.
fn named() -> Option<String> {
    std::env::var("MESH_DEVICES_MESH").ok()
}

pub(crate) fn on_cpus() -> bool {
    named().is_none()
}

/// Eight CPUs; a dim may be split over either axis, or over both. Other devices are those of `MESH_DEVICES_MESH`.
pub(crate) fn mesh() -> Mesh {
    named().as_deref().unwrap_or("a:2;b:4").parse().unwrap()
}

/// Layouts under which the cases of a room are run together, and each of them under one at least, unless all are asked
/// for: compiling takes most of the time.
const LAYOUTS: usize = 2;

/// Checks cases; says under how many layouts, and the faults, which are printed as they are found.
fn checked(plugin: &Plugin, cases: &[Case]) -> (usize, Vec<String>) {
    let most = if all_layouts() { usize::MAX } else { LAYOUTS.div_ceil(cases.len().max(1)) };
    let (mesh, mut ran, mut faults) = (mesh(), 0, Vec::new());
    for case in cases {
        let start = |module: &Module| Session::xla_with(module, 0, &fast(plugin));
        match case.check_on(&mesh, most, start) {
            Ok(count) => ran += count,
            Err(fault) => {
                eprintln!("fault: {fault}");
                faults.push(fault);
            }
        }
    }
    (ran, faults)
}

pub(crate) fn conform(_: &str, cases: Vec<Case>) {
    let Some(plugin) = plugin() else { return };
    let (_, faults) = checked(&plugin, &cases);
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

#[test]
fn every_room() {
    let Some(plugin) = plugin() else { return };
    let only = std::env::var("ROOM").unwrap_or_default();
    let rooms: Vec<_> = rooms().filter(|room| room.name().contains(&only)).collect();
    let (next, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut faults = Vec::new();
        while let Some(room) = rooms.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (count, more) = checked(&plugin, &room.cases());
            ran.fetch_add(count, Ordering::Relaxed);
            faults.extend(more.into_iter().map(|fault| format!("{}: {fault}", room.name())));
        }
        faults
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let faults = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    println!("{} layouts of the cases of {} rooms", ran.into_inner(), rooms.len());
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

//! What ranks do before the first step.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

use super::super::backend::Processes;
use super::super::comm::{Group, Stopped};
use super::super::sync::Arc;
use super::super::threads::Process;
use super::comm::RankComm;
use super::last::LastStep;
use super::messages::Messages;
use super::world::World;
use super::{Ranks, same};
use crate::names::{Mesh, ProcessMap};
use crate::passes::Executable;

/// This rank's processors of a mesh.
pub(super) fn process(world: &World, mesh: &Mesh, ranks: &Ranks) -> Result<Arc<Process>, String> {
    if let Some(started) = ranks.started.filter(|started| *started != world.size) {
        return Err(format!(
            "{started} ranks were started, but MPI knows of {}: the launcher is of another MPI than \
             this program was built with",
            world.size
        ));
    }
    let map = ProcessMap::new(mesh, world.size).map_err(|error| error.to_string())?;
    let each = map.each();
    if RankComm::largest_tag(each) > world.largest_tag as usize {
        return Err(format!(
            "{each} processors are too many for one rank with this MPI, whose tags end at {}: start \
             more ranks",
            world.largest_tag
        ));
    }
    Ok(Process::new(map, world.rank, world.cores, ranks.couriers))
}

/// Ends the job because something between calls failed.
pub(super) fn fail(ranks: &mut Messages, doing: &str) -> ! {
    let problem = ranks.wire.problem.take().unwrap_or_default();
    let world = ranks.wire.world;
    world.fail(&format!("rank {}, {doing}: {problem}", world.rank))
}

/// Makes sure that all ranks are about to do the same.
pub(super) fn compare(
    ranks: &mut Messages,
    everybody: Group,
    executable: &Executable,
    seed: u64,
) -> Result<(), String> {
    let text = same::description(executable, seed);
    match same::compare(ranks, everybody, &text) {
        Ok(compared) => compared,
        Err(Stopped) => fail(ranks, "before the first step"),
    }
}

/// All ranks, with a number that the first of them draws.
pub(super) fn processes(own: &mut Messages, everybody: Group, ranks: &Ranks) -> Processes {
    let (rank, count) = (own.wire.world.rank, own.wire.world.size);
    let drawn = RandomState::new().hash_one(rank);
    match same::gather(own, everybody, [drawn, 0]) {
        Ok(all) => Processes { id: all[0][0], rank, ranks: count, deadline: ranks.deadline },
        Err(Stopped) => fail(own, "before the first step"),
    }
}

/// Tells what an earlier run left behind, and begins this rank's file.
pub(super) fn last_step(
    ranks: &mut Messages,
    everybody: Group,
    folder: Option<&Path>,
) -> Result<Option<LastStep>, String> {
    let Some(folder) = folder else { return Ok(None) };
    let rank = ranks.wire.world.rank;
    if rank == 0 {
        let (left, mut text) = (LastStep::left(folder), String::new());
        for (rank, what) in &left {
            text += &format!("  rank {rank}: {what}\n");
        }
        if !left.is_empty() {
            // If it cannot be written, the run goes on all the same.
            let _ = write!(io::stderr(), "an earlier run did not end well:\n{text}");
        }
        LastStep::clear(folder, left.into_iter().map(|(rank, _)| rank));
    }
    if ranks.ask(everybody, true).is_err() {
        fail(ranks, "before the first step");
    }
    LastStep::new(folder, rank).map(Some)
}

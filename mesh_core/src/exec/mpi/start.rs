//! What ranks do before the first step.

use std::hash::{BuildHasher, RandomState};

use super::super::border::Border;
use super::super::comm::{Comm, Group, Stopped};
use super::super::executor::Executor;
use super::super::machine::Processes;
use super::comm::RankComm;
use super::last::LastStep;
use super::world::World;
use super::{Ranks, same};
use crate::names::Mesh;
use crate::program::{Compiled, Slot, VariableType};

/// A fetch of which this rank has a part only.
pub(super) struct Delivery {
    /// Which of the call's arrays.
    pub(super) fetch: usize,
    /// Those that have the other parts.
    pub(super) group: Group,
    /// This rank's part.
    pub(super) value: *const u8,
    pub(super) bytes: usize,
    /// Where each member's part lies in the array.
    pub(super) borders: Vec<Border>,
}

/// Ends the job because something between calls failed.
pub(super) fn fail(world: &World, comm: &mut RankComm, doing: &str) -> ! {
    let problem = comm.wire.problem.take().unwrap_or_default();
    world.fail(&format!("rank {}, {doing}: {problem}", world.rank))
}

/// Meets all ranks, and makes sure that they are about to do the same.
pub(super) fn meet(
    world: &World,
    comm: &mut RankComm,
    mesh: &Mesh,
    variables: &[VariableType],
    functions: &[Compiled],
    seed: u64,
) -> Result<Group, String> {
    // Before it is known that they agree on who is who.
    let line = comm.in_order()?;
    let text = same::description(mesh, variables, functions, seed);
    match same::compare(comm, line, &text) {
        Ok(compared) => compared?,
        Err(Stopped) => fail(world, comm, "before the first step"),
    }
    let axes: Vec<_> = mesh.axes().collect();
    Ok(comm.group(&axes))
}

/// All ranks, with a number that the first in the group draws.
pub(super) fn processes(
    world: &World,
    comm: &mut RankComm,
    everybody: Group,
    ranks: &Ranks,
) -> Processes {
    let drawn = RandomState::new().hash_one(world.rank);
    match same::gather(comm, everybody, [drawn, 0]) {
        Ok(all) => {
            let (rank, ranks, deadline) = (world.rank, world.size, ranks.deadline);
            Processes { id: all[0][0], rank, ranks, deadline }
        }
        Err(Stopped) => fail(world, comm, "before the first step"),
    }
}

/// Tells what an earlier run left behind, and begins this rank's file.
pub(super) fn last_step(
    world: &World,
    comm: &mut RankComm,
    everybody: Group,
    ranks: &Ranks,
) -> Result<Option<LastStep>, String> {
    let Some(folder) = &ranks.last_step else { return Ok(None) };
    if world.rank == 0 {
        let left = LastStep::left(folder);
        if !left.is_empty() {
            eprintln!("an earlier run did not end well:");
        }
        for (rank, what) in &left {
            eprintln!("  rank {rank}: {what}");
        }
        LastStep::clear(folder, left.into_iter().map(|(rank, _)| rank));
    }
    if comm.meet(everybody, true).is_err() {
        fail(world, comm, "before the first step");
    }
    LastStep::new(folder, world.rank).map(Some)
}

/// The fetches of a function that are split.
pub(super) fn deliveries(
    Compiled { program, .. }: &Compiled,
    executor: &Executor,
    mesh: &Mesh,
    comm: &mut RankComm,
) -> Vec<Delivery> {
    let delivery = |(fetch, slot): (usize, &Slot)| {
        let axes: Vec<_> = slot.split.iter().flatten().copied().collect();
        let group = comm.group(&axes);
        let own = executor.fetches.iter().find(|crossing| crossing.index == fetch)?;
        let value = program.value(slot.value);
        let members = mesh.group(comm.processor, &axes);
        let border = |&member: &usize| Border::of_slot(slot, value, mesh, member);
        let borders = members.iter().map(border).collect();
        let delivery =
            Delivery { fetch, group, value: own.value.cast_const(), bytes: value.bytes(), borders };
        (group.size > 1).then_some(delivery)
    };
    program.fetches.iter().enumerate().filter_map(delivery).collect()
}

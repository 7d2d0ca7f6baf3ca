//! Communicators: the ranks that meet along a set of axes.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::time::Duration;

use mpi::ffi;

use super::super::sync::{Arc, lock};
use super::channel::{AxisSet, Channel, Communicator, check};
use super::world::{World, in_time};
use crate::names::{Axis, ProcessMap};
use crate::program::Block;

fn axis_set(axes: &[Axis]) -> AxisSet {
    axes.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Adds the axes along which steps of a block meet, bodies of loops included.
pub(super) fn add_axis_sets(block: &Block, sets: &mut BTreeSet<AxisSet>) {
    sets.extend(block.steps.iter().filter_map(|step| step.axes().map(|axes| axis_set(axes))));
    block.loops().for_each(|(_, form)| add_axis_sets(&form.body, sets));
}

/// A number for each process: the same for those that groups along `axes` tie together.
fn components(map: &ProcessMap, axes: &[Axis]) -> Vec<usize> {
    let mut components: Vec<_> = (0..map.processes()).collect();
    for members in map.mesh().groups(axes) {
        let tied: Vec<_> = members.iter().map(|&m| components[map.place(m).0]).collect();
        let first = tied.iter().min().copied().unwrap_or(0);
        let joined = components.iter_mut().filter(|component| tied.contains(component));
        joined.for_each(|component| *component = first);
    }
    components
}

/// One communicator for each set of axes along which processors of several ranks meet.
pub(super) struct Communicators {
    everybody: Arc<Communicator>,
    by_axes: Vec<(AxisSet, Arc<Communicator>)>,
}

impl Communicators {
    /// For groups along these sets of axes. All ranks ask for the same together; what they have asked
    /// for before, they have.
    pub(super) fn new(
        world: &World,
        map: &ProcessMap,
        sets: BTreeSet<AxisSet>,
        deadline: Duration,
    ) -> Result<Self, String> {
        let (channel, ranks) = (world.everybody, (0..world.size).collect());
        let everybody = Arc::new(Communicator { channel, ranks });
        let make = |axes: AxisSet| {
            let components = components(map, &axes);
            if components.iter().enumerate().all(|(process, component)| process == *component) {
                return Ok(None);
            }
            let (mut known, whose) = (lock(&world.communicators), (map.clone(), axes.clone()));
            if let Some((_, communicator)) = known.iter().find(|(known, _)| *known == whose) {
                return Ok(Some((axes, Arc::clone(communicator))));
            }
            let made = Communicator::new(world, map, &axes, &components)?.map(Arc::new);
            let made = made.unwrap_or_else(|| Arc::clone(&everybody));
            known.push((whose, Arc::clone(&made)));
            Ok(Some((axes, made)))
        };
        let make = || {
            let _guard = world.guard();
            sets.into_iter().filter_map(|axes| make(axes).transpose()).collect()
        };
        let by_axes: Result<_, String> = in_time(deadline, "making communicators", make);
        by_axes.map(|by_axes| Self { everybody, by_axes })
    }

    /// That of the ranks that meet along these axes.
    pub(super) fn along(&self, axes: &[Axis]) -> &Communicator {
        let axes = axis_set(axes);
        let known = self.by_axes.iter().find(|(known, _)| *known == axes);
        known.map_or(&self.everybody, |(_, communicator)| communicator)
    }
}

impl Communicator {
    /// That of this rank's component, if it is in one. All ranks call this.
    fn new(
        world: &World,
        map: &ProcessMap,
        axes: &[Axis],
        components: &[usize],
    ) -> Result<Option<Self>, String> {
        let own = components.get(world.rank).copied();
        let colour = own.map_or(ffi::MPI_UNDEFINED as c_int, |component| component as c_int);
        // SAFETY: a constant.
        let mut channel = Channel(unsafe { ffi::RSMPI_COMM_NULL });
        let (everybody, key) = (world.everybody.0, world.rank as c_int);
        // SAFETY: all ranks call this, with a communicator of theirs; the new one is kept.
        check(unsafe { ffi::MPI_Comm_split(everybody, colour, key, &mut channel.0) })?;
        if own.is_none() {
            return Ok(None);
        }
        let names: Vec<_> = axes.iter().map(|&axis| map.mesh().name(axis)).collect();
        channel.entitle(&format!("mesh:{}", names.join(",")))?;
        let ranks = components.iter().enumerate().filter(|(_, component)| Some(**component) == own);
        Ok(Some(Self { channel, ranks: ranks.map(|(rank, _)| rank).collect() }))
    }

    /// What it calls one of its ranks.
    pub(super) fn number(&self, rank: usize) -> usize {
        self.ranks.partition_point(|&other| other < rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Mesh;

    #[test]
    fn ranks_are_tied_together_by_groups() {
        let plain: Mesh = "a:4;b:2".parse().unwrap();
        let crossed = plain.clone().with_order(vec![0, 2, 1, 4, 3, 6, 5, 7]).unwrap();
        let table: [(&Mesh, usize, &[&str], &[usize]); 8] = [
            (&plain, 8, &["a"], &[0, 1, 0, 1, 0, 1, 0, 1]),
            (&plain, 8, &["b"], &[0, 0, 2, 2, 4, 4, 6, 6]),
            (&plain, 8, &["b", "a"], &[0; 8]),
            (&plain, 4, &["a"], &[0; 4]),
            (&plain, 4, &["b"], &[0, 1, 2, 3]),
            (&plain, 1, &["a", "b"], &[0]),
            (&crossed, 4, &["b"], &[0, 0, 0, 0]),
            (&plain, 4, &[], &[0, 1, 2, 3]),
        ];
        for (mesh, processes, names, expected) in table {
            let axes: Vec<_> = names.iter().map(|name| mesh.axis(name).unwrap()).collect();
            let map = ProcessMap::new(mesh, processes).unwrap();
            assert_eq!(components(&map, &axes), expected, "{names:?} on {map}");
        }
    }
}

//! Communicators: the ranks that meet along a set of axes, and the memory that they share on a host.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use mpi::ffi;

use super::super::comm::Lane;
use super::super::threads::{Mailboxes, lock};
use super::world::{Channel, World, check, in_time};
use crate::names::{Axis, ProcessMap};
use crate::program::Block;

/// The size of a mailbox between processes. Up to so much, meeting and reading everybody's mailbox takes
/// half the time of messages, or less.
pub(super) const MAILBOX: usize = 64 << 10;

/// What a processor shows those of other processes, at one of its lanes.
#[repr(C, align(128))]
pub(super) struct Post {
    /// How often it has come to meet them; it wraps.
    pub(super) arrived: AtomicU32,
    pub(super) mailboxes: Mailboxes<MAILBOX>,
}

/// Some ranks, or all.
pub(super) struct Communicator {
    pub(super) channel: Channel,
    /// Which of all they are, ascending.
    ranks: Vec<usize>,
    /// Where each of them has its posts, if they have memory in common.
    posts: Option<Vec<&'static [Post]>>,
}

/// A set of axes, ascending.
type AxisSet = Vec<Axis>;

/// What a communicator was made for.
pub(super) type Known = Vec<((ProcessMap, AxisSet), Arc<Communicator>)>;

fn axis_set(axes: &[Axis]) -> AxisSet {
    axes.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
}

/// The axes along which steps of blocks meet, bodies of loops included, each set once.
pub(super) fn axis_sets<'p>(blocks: impl IntoIterator<Item = &'p Block>) -> BTreeSet<AxisSet> {
    let mut sets = BTreeSet::new();
    for block in blocks {
        sets.extend(block.steps.iter().filter_map(|step| step.axes().map(|axes| axis_set(axes))));
        sets.extend(axis_sets(block.loops().map(|(_, form)| &*form.body)));
    }
    sets
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
        let everybody = Arc::new(Communicator { channel, ranks, posts: None });
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
        // SAFETY: the result is kept.
        check(unsafe { ffi::MPI_Comm_split(everybody, colour, key, &mut channel.0) })?;
        if own.is_none() {
            return Ok(None);
        }
        let names: Vec<_> = axes.iter().map(|&axis| map.mesh().name(axis)).collect();
        channel.entitle(&format!("mesh:{}", names.join(",")))?;
        let ranks = components.iter().enumerate().filter(|(_, component)| Some(**component) == own);
        let ranks: Vec<_> = ranks.map(|(rank, _)| rank).collect();
        let posts = if ranks.len() > 1 { posts(channel, ranks.len(), map.each())? } else { None };
        Ok(Some(Self { channel, ranks, posts }))
    }

    /// What it calls one of its ranks.
    pub(super) fn number(&self, rank: usize) -> usize {
        self.ranks.partition_point(|&other| other < rank)
    }

    /// What a rank's processor, which stands at `index` there, has to show at a lane.
    pub(super) fn post(&self, rank: usize, index: usize, lane: Lane) -> Option<&'static Post> {
        let posts = self.posts.as_ref()?[self.number(rank)];
        posts.get(2 * index + usize::from(lane == Lane::Courier))
    }
}

/// Each rank's posts, for both lanes of each of its processors; none unless all ranks of the
/// communicator, which call this, have memory in common.
fn posts(
    channel: Channel,
    ranks: usize,
    each: usize,
) -> Result<Option<Vec<&'static [Post]>>, String> {
    let (mut host, here) = channel.on_host()?;
    // SAFETY: it was made for this.
    check(unsafe { ffi::MPI_Comm_free(&mut host.0) })?;
    if here != ranks {
        return Ok(None);
    }
    let bases = window(channel, ranks, 2 * each);
    // Processes see it at different addresses, but aligned alike, as pages are.
    let mut pads = vec![0; ranks];
    if let Ok(bases) = &bases {
        pads = bases.iter().map(|base| base.align_offset(align_of::<Post>()) as u8).collect();
    }
    let (mut first, mut all) = (pads.clone(), 0_u8);
    // SAFETY: constants.
    let (kind, least) = unsafe { (ffi::RSMPI_UINT8_T, ffi::RSMPI_MIN) };
    // SAFETY: as many bytes as ranks, which all say how the first of them is to be aligned.
    check(unsafe {
        ffi::MPI_Bcast(first.as_mut_ptr().cast(), ranks as c_int, kind, 0, channel.0)
    })?;
    // Where a system has no memory for it there are messages; but all have to do the same.
    let own = u8::from(bases.is_ok() && first == pads);
    // SAFETY: a byte each.
    check(unsafe {
        let (from, to) = ((&raw const own).cast(), (&raw mut all).cast());
        ffi::MPI_Allreduce(from, to, 1, kind, least, channel.0)
    })?;
    // SAFETY: there is room for so many, of atomics and cells, which zeros are.
    let posts = |base| unsafe { &*ptr::slice_from_raw_parts(aligned(base), 2 * each) };
    let bases = bases.ok().filter(|_| all == 1);
    Ok(bases.map(|bases| bases.into_iter().map(posts).collect()))
}

/// The first post in memory.
fn aligned(base: *mut u8) -> *mut Post {
    base.wrapping_add(base.align_offset(align_of::<Post>())).cast()
}

/// Zeros of each rank for so many posts, once [`aligned`], seen by all; where each rank's are. They live
/// as long as the process, and what is read and written there needs no synchronisation by MPI but that of
/// atomics.
fn window(channel: Channel, ranks: usize, posts: usize) -> Result<Vec<*mut u8>, String> {
    let (mut own, bytes) = (ptr::null_mut::<u8>(), posts * size_of::<Post>() + align_of::<Post>());
    // SAFETY: a constant.
    let mut window = unsafe { ffi::RSMPI_WIN_NULL };
    // SAFETY: all ranks of the communicator call this; the results are this function's.
    check(unsafe {
        let (info, size, to) = (ffi::RSMPI_INFO_NULL, bytes as ffi::MPI_Aint, &raw mut own);
        ffi::MPI_Win_allocate_shared(size, 1, info, channel.0, to.cast(), &mut window)
    })?;
    // SAFETY: this rank's memory, which nobody uses before all have agreed about it. Writing to all of it
    // takes it from the system while there are other ways.
    unsafe { own.write_bytes(0, bytes) };
    let of = |rank: usize| {
        let (mut at, mut size, mut unit) = (ptr::null_mut::<u8>(), 0, 0);
        // SAFETY: the results are this function's.
        check(unsafe {
            let at = (&raw mut at).cast();
            ffi::MPI_Win_shared_query(window, rank as c_int, &mut size, &mut unit, at)
        })?;
        let known = size as usize >= bytes && !at.is_null();
        if known { Ok(at) } else { Err("MPI: shared memory that is too small".to_owned()) }
    };
    (0..ranks).map(of).collect()
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

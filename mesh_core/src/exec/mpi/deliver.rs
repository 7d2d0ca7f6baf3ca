//! Slices of fetches on their way to the ranks that lack them.

use super::super::border::{Border, Global};
use super::super::comm::Stopped;
use super::super::threads::Crew;
use super::messages::Messages;
use super::staging::Staging;
use crate::program::ALIGNMENT;

/// A slice of a fetch that this rank sends to another, or is sent.
pub(super) struct Delivery {
    /// Which of the call's arrays.
    fetch: usize,
    /// Where it lies in the array.
    border: Border,
    bytes: usize,
    /// The other rank.
    rank: usize,
    /// Where it is here, if it is.
    own: Option<*const u8>,
}

// SAFETY: `own` leads to memory of the crew, which the machine owns as it does this; it is read where the
// machine is borrowed.
unsafe impl Send for Delivery {}

/// What a function's fetches are to be sent about, the same order on all ranks: each slice to
/// every rank that has none of its holders, by one of those that have, in turn.
pub(super) fn deliveries(crew: &Crew, function: usize) -> Vec<Delivery> {
    let map = &crew.process.map;
    let (mesh, here) = (map.mesh(), crew.process.rank);
    let program = &crew.functions()[function].program;
    let mut deliveries = Vec::new();
    for (fetch, (slot, value)) in program.left().enumerate() {
        let axes: Vec<_> = slot.split.iter().flatten().copied().collect();
        let value = program.value(value);
        // By slice: each rank that has it, with the processor that does.
        let mut holders = vec![Vec::<(usize, usize)>::new(); mesh.group_size(&axes)];
        for rank in 0..map.processes() {
            for &processor in map.of(rank) {
                let holders = &mut holders[mesh.group_index(processor, &axes)];
                if holders.last().is_none_or(|(last, _)| *last != rank) {
                    holders.push((rank, processor));
                }
            }
        }
        for holders in holders.iter().filter(|holders| holders.len() < map.processes()) {
            let lacks = |rank: &usize| holders.iter().all(|(holder, _)| holder != rank);
            for taker in (0..map.processes()).filter(lacks) {
                let (giver, processor) = holders[taker % holders.len()];
                if giver == here || taker == here {
                    let rank = if giver == here { taker } else { giver };
                    let own = crew.fetched_slice(processor, function, fetch).ok().flatten();
                    let own = own.map(<[u8]>::as_ptr);
                    let border = Border::of_slot(slot, value, mesh, processor);
                    let bytes = value.bytes();
                    deliveries.push(Delivery { fetch, border, bytes, rank, own });
                }
            }
        }
    }
    deliveries
}

/// Sends slices, and puts into the arrays what arrives.
///
/// # Safety
///
/// The arrays fit the function's fetches, and nobody else touches them; no call is running.
pub(super) unsafe fn deliver(
    deliveries: &[Delivery],
    ranks: &mut Messages,
    landing: &mut Staging,
    arrays: &[Global],
) -> Result<(), Stopped> {
    let taken = || deliveries.iter().filter(|delivery| delivery.own.is_none());
    let stride = |delivery: &Delivery| delivery.bytes.next_multiple_of(ALIGNMENT);
    let room = landing.of(taken().map(stride).sum());
    let room = room.map_err(|problem| ranks.give_up(problem))?;
    let mut arrival = room;
    for delivery in deliveries {
        let Delivery { bytes, rank, own, .. } = *delivery;
        let address = ranks.rank(rank);
        // SAFETY: the value is that large and lies still; there is room for all that arrive.
        unsafe {
            match own {
                Some(own) => ranks.wire.send(address, own, bytes),
                None => {
                    ranks.wire.receive(address, arrival, bytes);
                    arrival = arrival.add(stride(delivery));
                }
            }
        }
    }
    ranks.wire.finish()?;
    let mut arrival = room;
    for delivery in taken() {
        // SAFETY: it has arrived whole, and has its place in the array.
        unsafe {
            delivery.border.paste(arrival, &arrays[delivery.fetch]);
            arrival = arrival.add(stride(delivery));
        }
    }
    Ok(())
}

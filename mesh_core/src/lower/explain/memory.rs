//! What the memory of a function's values is for.

use crate::program::{Block, Compiled, Place, Step};
use indexmap::IndexMap;

/// Bytes of the arena that values take which the forward pass has made and the gradient still reads, when
/// most bytes are in use.
pub(super) fn kept(Compiled { program, plan }: &Compiled) -> usize {
    let block = &program.block;
    let steps = &block.steps;
    // Times: 0 for feeds, `i + 1` for step `i`, one more than the last step's for results.
    let mut made = vec![0; block.values.len()];
    let mut last = vec![0; block.values.len()];
    for (time, step) in (1..).zip(steps) {
        step.outs.iter().for_each(|out| made[out.index()] = time);
        step.values().for_each(|value| last[value.index()] = time);
    }
    block.results.iter().for_each(|result| last[result.index()] = steps.len() + 1);
    let held: Vec<_> = (plan.places.iter().enumerate())
        .filter_map(|(value, place)| match place {
            Place::Arena(at) => Some((value, *at..*at + block.values[value].bytes())),
            _ => None,
        })
        .collect();
    let mut change = vec![0_isize; steps.len() + 3];
    for (value, bytes) in &held {
        change[made[*value]] += bytes.len() as isize;
        change[last[*value] + 1] -= bytes.len() as isize;
    }
    let live = change.iter().scan(0, |live, change| {
        *live += change;
        Some(*live)
    });
    let peak = live.enumerate().max_by_key(|&(time, live)| (live, std::cmp::Reverse(time)));
    let peak = peak.map_or(0, |(time, _)| time);
    let is_gradient =
        |time: usize| time.checked_sub(1).and_then(|i| steps.get(i)).is_some_and(of_gradient);
    let is_kept = |value: usize| {
        made[value] < peak
            && last[value] >= peak
            && !is_gradient(made[value])
            && is_gradient(last[value])
    };
    let mut kept: Vec<_> = held.into_iter().filter(|(value, _)| is_kept(*value)).collect();
    kept.sort_by_key(|(_, bytes)| bytes.start);
    let mut end = 0;
    let covered = kept.iter().map(|(_, bytes)| {
        let own = bytes.end.saturating_sub(bytes.start.max(end));
        end = end.max(bytes.end);
        own
    });
    covered.sum()
}

/// Whether the gradient asked for a step.
fn of_gradient(step: &Step) -> bool {
    step.origin.operations().iter().any(|origin| origin.note.starts_with("gradient"))
}

/// Operations that loops do again for their gradients, with how often in a call.
pub(super) fn again(block: &Block) -> Vec<(String, u64)> {
    let mut found = IndexMap::new();
    count(block, 1, &mut found);
    found.into_iter().collect()
}

fn count(block: &Block, times: u64, found: &mut IndexMap<String, u64>) {
    for step in &block.steps {
        let again = step.origin.operations().iter().filter(|origin| origin.again);
        again.for_each(|origin| *found.entry(origin.name.clone()).or_default() += times);
    }
    for (_, form) in block.loops() {
        count(&form.body, times * form.expected() as u64, found);
    }
}

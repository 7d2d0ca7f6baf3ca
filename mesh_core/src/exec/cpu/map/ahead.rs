//! The next tile is asked for while this one is computed: a tile's instructions work in the first
//! cache, and memory would be idle meanwhile.

use super::code::Op;
use super::place::Place;
use crate::exec::cpu::cache;
use crate::exec::cpu::fetch::{self, LINE};
use crate::exec::cpu::strided::Nest;

/// Bytes a map has to meet for this to pay; less is in a second cache of 2 MiB anyway.
const LARGE: usize = 7 << 18;
/// Bytes from which fewer instructions than [`MANY`] wait for memory alone, which is read faster without
/// being asked: a sigmoid times its operand takes 0.54 of the time.
const FAR: usize = 4 << 20;
const MANY: usize = 3;
/// Arrays up to which a near third cache answers in time by itself. An optimizer's map meets nine: not asking for them
/// ahead makes a step of `mlp_b128` 1.03 times as long.
const FEW: usize = 4;

/// Lines of memory, one behind the other.
struct Lines {
    place: usize,
    /// Bytes from where the place's tile begins.
    from: isize,
    count: usize,
}

/// What is asked for beside each instruction of a tile.
#[derive(Default)]
pub(super) struct Ahead {
    parts: Vec<Vec<Lines>>,
}

impl Ahead {
    /// In a map of so many elements, `turns` of the cut loop a tile. The first places are inputs.
    pub(super) fn new(
        (places, inputs): (&[Place], usize),
        [elements, turns]: [usize; 2],
        ops: &[Op],
    ) -> Self {
        let bytes: usize = places.iter().map(|place| place.size * elements).sum();
        let applied = ops.iter().filter(|op| matches!(op, Op::Apply { .. })).count();
        let near = if places.len() <= FEW { cache::near() } else { 0 };
        if bytes < LARGE.max(near) || bytes >= FAR && applied < MANY {
            return Self::default();
        }
        let mut parts: Vec<Vec<Lines>> = (0..ops.len()).map(|_| Vec::new()).collect();
        let moving = places.iter().enumerate().take(64).filter(|(_, place)| place.step != 0);
        for (k, place) in moving {
            let Some((rows, step, len)) = runs(&place.pattern, usize::from(k >= inputs)) else {
                continue;
            };
            let count = (len * place.size).div_ceil(LINE);
            if len * place.size < LINE {
                continue;
            }
            let row = |row: usize| {
                let elements = row as isize * step;
                let from = turns as isize * place.step + elements * place.size as isize;
                Lines { place: k, from, count }
            };
            share((0..rows).map(row), rows * count, &mut parts);
        }
        Self { parts }
    }

    /// The places of which something is asked for, one bit each, but those that share memory with one
    /// before.
    pub(super) fn places(&self, at: &[*mut u8]) -> u64 {
        let all = self.parts.iter().flatten().map(|lines| lines.place);
        let found = all.fold(0u64, |bits, k| bits | 1 << k);
        let repeats = |k: usize| (0..k).any(|l| found >> l & 1 == 1 && at[l] == at[k]);
        let repeated = (0..at.len().min(64)).filter(|&k| repeats(k));
        repeated.fold(found, |bits, k| bits & !(1 << k))
    }

    /// Asks for a part of the next tile, which is a whole one, at the places of `streams`; `at` says where
    /// the tile of each place begins.
    #[inline]
    pub(super) fn ask(&self, part: usize, streams: u64, at: &[*mut u8]) {
        for lines in self.parts.get(part).into_iter().flatten() {
            if streams >> lines.place & 1 == 0 {
                continue;
            }
            let from = at[lines.place].wrapping_offset(lines.from);
            fetch::run(from, lines.count * LINE, fetch::to_first);
        }
    }
}

/// The rows of a pattern, if each is one run in memory: how many, elements between them, elements of one.
fn runs(pattern: &Nest, memory: usize) -> Option<(usize, isize, usize)> {
    let (run, rows) = pattern.loops.split_last()?;
    let one = (run.strides[memory] == 1).then_some(run.extent)?;
    match rows {
        [] => Some((1, 0, one)),
        [rows] => Some((rows.extent, rows.strides[memory], one)),
        _ => None,
    }
}

/// Gives every part nearly as many lines.
fn share(all: impl Iterator<Item = Lines>, total: usize, parts: &mut [Vec<Lines>]) {
    let (mut given, mut part, count_of) = (0, 0, parts.len());
    for Lines { place, mut from, mut count } in all {
        while count > 0 {
            let room = total * (part + 1) / count_of - given;
            let now = count.min(room);
            if now > 0 {
                parts[part].push(Lines { place, from, count: now });
            }
            from += (now * LINE) as isize;
            (given, count) = (given + now, count - now);
            part += usize::from(now == room);
        }
    }
}

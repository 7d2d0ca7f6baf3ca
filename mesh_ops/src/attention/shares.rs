//! How many blocks each processor computes, where it is known in what order positions lie.

use super::Attention;
use super::frame::Cut;
use super::mask::{Order, Rules};
use crate::room::*;
use mesh_core::lower::{PlacedCx, Shares};
use mesh_core::names::AxisList;

/// The least and the greatest position of a block.
type Block = [i64; 2];

impl Order {
    /// The position that lies at a place of so many.
    fn position(self, place: usize, size: usize) -> usize {
        let Self::Zigzag(pieces) = self else { return place };
        let piece = size / pieces;
        let (number, within) = (place / piece, place % piece);
        let dealt = if number.is_multiple_of(2) { number / 2 } else { pieces - 1 - number / 2 };
        dealt * piece + within
    }

    /// The blocks of each of the equal parts of a dim, which are cut like one of them.
    fn blocks(self, size: usize, cut: Cut) -> Vec<Vec<Block>> {
        let (own, rows) = (cut.whole.size, cut.rows.size);
        let block = |begin: usize, end: usize| {
            let places = begin..(begin + rows).min(end);
            let positions = places.map(|place| self.position(place, size) as i64);
            positions.fold([i64::MAX, i64::MIN], |[least, most], x| [least.min(x), most.max(x)])
        };
        let part = |begin: usize| {
            let end = begin + own;
            (begin..end).step_by(rows).map(|at| block(at, end)).collect()
        };
        (0..size).step_by(own).map(part).collect()
    }
}

/// Blocks of a memory by their bounds.
struct Bounds {
    least: Vec<i64>,
    greatest: Vec<i64>,
}

impl Bounds {
    fn new(blocks: &[Block]) -> Self {
        let sorted = |bound: usize| {
            let mut all: Vec<_> = blocks.iter().map(|block| block[bound]).collect();
            all.sort_unstable();
            all
        };
        Self { least: sorted(0), greatest: sorted(1) }
    }

    /// How many of them a block of queries may meet, as [`Rules::blocks`] has it: those that lie neither
    /// wholly behind nor wholly before what it sees.
    fn met(&self, rules: Rules, [first, last]: Block) -> usize {
        let width = rules.window.map(|width| i64::try_from(width).unwrap_or(i64::MAX));
        let to = match width {
            _ if rules.causal => last,
            Some(width) => last.saturating_add(width).saturating_sub(1),
            None => i64::MAX,
        };
        let from = width.map_or(i64::MIN, |width| first.saturating_sub(width));
        let behind = self.least.len() - self.least.partition_point(|&least| least <= to);
        let before = self.greatest.partition_point(|&greatest| greatest <= from);
        self.least.len().saturating_sub(behind + before)
    }
}

/// An attention's blocks under a layout.
struct Cuts {
    rules: Rules,
    /// Positions of queries and of the memory, of all processors.
    sizes: [usize; 2],
    /// How one processor's queries, and what it has of the memory at once, are cut.
    queries: Cut,
    memory: Cut,
    /// Whether a processor meets all of the memory.
    whole: bool,
}

impl Cuts {
    /// The blocks that each processor computes: those with the first queries first, of these those with the
    /// first part of the memory.
    fn work(&self, order: Order) -> Vec<u64> {
        let queries = order.blocks(self.sizes[0], self.queries);
        let memory = order.blocks(self.sizes[1], self.memory);
        let memory = if self.whole { vec![memory.concat()] } else { memory };
        let memory: Vec<_> = memory.iter().map(|blocks| Bounds::new(blocks)).collect();
        let met = |queries: &[Block], memory: &Bounds| {
            queries.iter().map(|&block| memory.met(self.rules, block) as u64).sum()
        };
        queries.iter().flat_map(|queries| memory.iter().map(|m| met(queries, m))).collect()
    }
}

impl Attention {
    /// The blocks that processors with different queries, or different parts of the memory, compute. Unknown
    /// where positions or segments are.
    pub(super) fn shared(&self, cx: &PlacedCx<'_>) -> Option<Shares> {
        if self.order == Order::Unknown || !self.rules.needs_positions() || self.rules.segments {
            return None;
        }
        let parts = self.inputs();
        let labels = parts.iter().zip(cx.signature().inputs).filter(|(part, _)| part.is_position());
        // Positions of one dim of queries and one of the memory, which are cut into blocks.
        for ((_, ty), name) in labels.zip([self.length, self.memory]) {
            if !ty.shape.names().eq([name]) {
                return None;
            }
        }
        let (cuts, axes) = self.cuts(cx)?;
        let work = cuts.work(self.order);
        let processors = cx.processors(&axes);
        let remedy = self.remedy(&cuts, processors, &work);
        let but = if self.rules.prefix { " beside the prefix" } else { "" };
        Some(Shares { axes, work, unit: format!("blocks of attention{but}"), remedy })
    }

    /// How blocks are cut, and the axes along which processors have different ones.
    fn cuts(&self, cx: &PlacedCx<'_>) -> Option<(Cuts, AxisList)> {
        let of_memory = if self.to_itself { self.length } else { self.memory };
        let inputs = cx.signature().inputs;
        let queries = inputs.first()?.shape.get(self.length)?;
        let memory = inputs.get(1)?.shape.get(of_memory)?;
        let mut axes = AxisList::from_slice(cx.input_axes(0, self.length));
        let split = cx.input_axes(1, of_memory);
        let own = memory.size / cx.processors(split);
        let goes_round = self.to_itself && own < memory.size;
        let most = self.blocks.of(self.rules, own, goes_round);
        let cut = |dim: Dimension, size, most| Cut::new(dim.resized(size), most, &[]);
        let cuts = Cuts {
            rules: self.rules,
            sizes: [queries.size, memory.size],
            queries: cut(queries, queries.size / cx.processors(&axes), most.queries),
            memory: cut(memory, own, most.memory),
            whole: self.to_itself || own == memory.size,
        };
        if !cuts.whole {
            axes.extend_from_slice(split);
        }
        Some((cuts, axes))
    }

    /// What makes so many processors' work less uneven.
    fn remedy(&self, cuts: &Cuts, processors: usize, work: &[u64]) -> String {
        let (length, pieces) = (self.length, 2 * processors);
        if self.order == Order::Zigzag(pieces) {
            return String::new();
        }
        if cuts.sizes.iter().any(|size| !size.is_multiple_of(pieces)) {
            return format!(
                "`zigzag` would deal positions evenly if {pieces} divided their number"
            );
        }
        let dealt = cuts.work(Order::Zigzag(pieces));
        if dealt.iter().max() >= work.iter().max() {
            return String::new();
        }
        format!(
            "deal positions with `zigzag(x, {length}, {pieces})`, and the mask's with `Mask::in_zigzag`"
        )
    }
}

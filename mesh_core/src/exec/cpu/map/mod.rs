//! `Map`: the body is interpreted tile by tile, so that a chain of operations costs one pass over
//! memory. A tile's registers lie in scratch and stay in the first-level cache.

mod ahead;
mod code;
pub(super) mod instr;
mod pairs;
mod plan;
mod prepare;
pub(super) mod tile;

use crate::exec::cpu::strided::{Loop, Nest, copy, copy_run};
use crate::exec::cpu::{Kernel, Memory};
use crate::program::ValueId;
use code::{Arg, Code, Op, SLOT, Source, Varies};
pub(super) use prepare::{Operands, prepare};
use tile::Tile;

/// An input or out at run time.
struct Place {
    value: ValueId,
    size: usize,
    /// Gathers (or for outs, scatters) a tile.
    pattern: Nest,
    /// Bytes between rows of a tile that lies in rows.
    step: isize,
}

pub(super) struct Map {
    places: Vec<Place>,
    inputs: usize,
    code: Code,
    /// Per out and input, whether the out may be made where the input lies.
    reads_before: Vec<bool>,
    /// Loops over tiles' starts.
    outer: Nest,
    /// The loop that is cut into tiles.
    cut: Loop,
    /// Turns of `cut` per tile.
    chunk: usize,
    /// Elements per turn of `cut`.
    inner: usize,
    /// Whether turns are rows; else a tile is one row.
    has_rows: bool,
    /// Places whose next tile is asked for ahead.
    streams: u64,
}

/// One run of a map: where things lie.
struct Frame<'a> {
    map: &'a Map,
    memory: &'a Memory,
    offsets: &'a mut [isize],
    pool: *mut u8,
    slots: *mut u8,
    /// Bit `k`: out `k` lies where an input lies that is read too late.
    in_place: u64,
    streams: u64,
    first: bool,
}

impl Map {
    fn offset_bytes(&self) -> usize {
        (self.places.len() * 8).next_multiple_of(64)
    }

    fn pool_bytes(&self) -> usize {
        (self.code.pool.len() * 8).next_multiple_of(64)
    }
}

impl Kernel for Map {
    fn scratch_bytes(&self) -> usize {
        self.offset_bytes() + self.pool_bytes() + self.code.slots * SLOT
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.run_from(memory, scratch, |_| 0) };
    }
}

impl Map {
    /// Does the map where operand `k` begins `start(k)` elements behind its value.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`], of the elements that are met.
    pub(super) unsafe fn run_from(
        &self,
        memory: &Memory,
        scratch: *mut u8,
        start: impl Fn(usize) -> isize,
    ) {
        let mut in_place = 0;
        for (k, out) in self.places[self.inputs..].iter().enumerate() {
            let pointer = memory.pointer(out.value);
            let inputs = self.places[..self.inputs].iter().enumerate();
            let mut shared = inputs.filter(|(_, p)| memory.pointer(p.value) == pointer);
            if shared.any(|(input, _)| !self.reads_before[k * self.inputs + input]) {
                in_place |= 1 << k.min(63);
            }
        }
        // SAFETY: scratch has room for the offsets, the pool and the slots, in that order.
        let (offsets, pool, slots) = unsafe {
            let offsets = scratch.cast::<isize>();
            (0..self.places.len()).for_each(|k| offsets.add(k).write(start(k)));
            let pool = scratch.add(self.offset_bytes());
            let numbers = self.code.pool.as_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(numbers, pool, self.code.pool.len() * 8);
            let offsets = std::slice::from_raw_parts_mut(offsets, self.places.len());
            (offsets, pool, pool.add(self.pool_bytes()))
        };
        let streams = ahead::apart(self.streams, &self.places, memory);
        let first = true;
        let mut frame = Frame { map: self, memory, offsets, pool, slots, in_place, streams, first };
        // SAFETY: the caller's promise.
        unsafe { frame.walk(&self.outer.loops) };
    }
}

impl Frame<'_> {
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn walk(&mut self, loops: &[Loop]) {
        if let Some((outer, rest)) = loops.split_first() {
            for _ in 0..outer.extent {
                // SAFETY: the caller's promise.
                unsafe { self.walk(rest) };
                self.advance(outer, 1);
            }
            self.advance(outer, -(outer.extent as isize));
            return;
        }
        let map = self.map;
        let mut done = 0;
        while done < map.cut.extent {
            let turns = map.chunk.min(map.cut.extent - done);
            let next = map.chunk.min(map.cut.extent - done - turns);
            // SAFETY: the tile lies within the operands.
            unsafe { self.tile(turns, next) };
            self.first = false;
            self.advance(&map.cut, turns as isize);
            done += turns;
        }
        self.advance(&map.cut, -(done as isize));
    }

    #[inline]
    fn advance(&mut self, by: &Loop, turns: isize) {
        for (offset, stride) in self.offsets.iter_mut().zip(&by.strides) {
            *offset += stride * turns;
        }
    }

    fn is_in_place(&self, out: usize) -> bool {
        self.in_place >> out.min(63) & 1 == 1
    }

    /// Where place `k` of the operands begins in this tile.
    #[inline]
    fn place(&self, k: usize) -> *mut u8 {
        let place = &self.map.places[k];
        let bytes = self.offsets[k] * place.size as isize;
        self.memory.pointer(place.value).wrapping_offset(bytes)
    }

    #[inline]
    fn address(&self, source: Source) -> *mut u8 {
        match source {
            Source::Input(input) => self.place(input),
            Source::Out { out, .. } if !self.is_in_place(out) => self.place(self.map.inputs + out),
            Source::Slot(slot) | Source::Pinned(slot) | Source::Out { slot, .. } => {
                self.slots.wrapping_add(slot * SLOT)
            }
            Source::Pool(index) => self.pool.wrapping_add(index * 8),
        }
    }

    /// Bytes between rows of an argument of an instruction on rows.
    #[inline]
    fn step(&self, arg: Arg, size: usize) -> isize {
        match (arg.source, arg.varies) {
            (_, Varies { rows: false, .. }) => 0,
            (Source::Input(input), _) => self.map.places[input].step,
            (_, Varies { columns: false, .. }) => size as isize,
            (source, _) => self.row_step(source, size),
        }
    }

    /// Bytes between rows of a whole tile.
    #[inline]
    fn row_step(&self, source: Source, size: usize) -> isize {
        match source {
            Source::Out { out, .. } if !self.is_in_place(out) => {
                self.map.places[self.map.inputs + out].step
            }
            _ => (self.map.inner * size) as isize,
        }
    }

    /// The tile of an instruction, if tiles are of so many turns.
    #[inline]
    fn operands(
        &self,
        turns: usize,
        [to, a, b, c]: [usize; 4],
        (args, out): ([Arg; 3], Source),
        varies: Varies,
    ) -> Tile {
        let inner = self.map.inner;
        let pointers = args.map(|arg| self.address(arg.source).cast_const());
        let mut tile = Tile::row(turns * inner, self.address(out), pointers);
        match varies {
            _ if varies == Varies::NOWHERE => tile.len = 1,
            Varies { columns: false, .. } => tile.len = turns,
            Varies { rows: false, .. } => tile.len = inner,
            _ if !self.map.has_rows => {}
            _ => {
                let sizes = [a, b, c];
                let steps = [0, 1, 2].map(|k| self.step(args[k], sizes[k]));
                let out = self.row_step(out, to);
                let packed = |k: usize| {
                    steps[k] == (inner * sizes[k]) as isize || args[k].varies == Varies::NOWHERE
                };
                if out != (inner * to) as isize || !(0..3).all(packed) {
                    (tile.rows, tile.len) = (turns, inner);
                    tile.steps = [out, steps[0], steps[1], steps[2]];
                }
            }
        }
        tile
    }

    /// # Safety
    ///
    /// As [`Kernel::run`]; `turns` of the cut loop from here on lie within the operands. The next
    /// tile of this loop is of `next` turns.
    unsafe fn tile(&mut self, turns: usize, next: usize) {
        let map = self.map;
        let len = turns * map.inner;
        // The pattern's first loop is of `chunk` turns, or holds them.
        let cut =
            |pattern: &Nest| pattern.loops.first().map_or(1, |l| l.extent / map.chunk * turns);
        for (part, op) in map.code.ops.iter().enumerate() {
            self.ask_ahead(len, next * map.inner, [part, map.code.ops.len()]);
            // SAFETY: registers have room for a tile, memory has been promised, and nothing that
            // is written overlaps what the same instruction reads.
            unsafe {
                match *op {
                    Op::Apply { run, args, to, varies, sizes } => {
                        run(self.operands(turns, sizes, (args, to), varies));
                    }
                    Op::Gather { once: true, .. } if !self.first => {}
                    Op::Gather { input, to, .. } => {
                        let Place { pattern, size, .. } = &map.places[input];
                        let first = cut(pattern);
                        copy(&pattern.loops, first, *size, self.place(input), self.address(to));
                    }
                    Op::Spread { from, to, size } => {
                        let (step, to) = (self.step(from, size), self.address(to));
                        let (from, varies) = (self.address(from.source), from.varies);
                        let (rows, row) = if map.has_rows { (turns, map.inner) } else { (1, len) };
                        for i in 0..rows {
                            let from = from.wrapping_offset(i as isize * step);
                            let to = to.wrapping_add(i * row * size);
                            let along = isize::from(varies.columns);
                            copy_run(row, size, (from, along), (to, 1));
                        }
                    }
                    Op::Store { from: Source::Out { out: from, .. }, out, .. }
                        if from == out && !self.is_in_place(out) => {}
                    Op::Store { from, uniform: true, out } => {
                        let place = map.inputs + out;
                        let to = (self.place(place), 1);
                        copy_run(len, map.places[place].size, (self.address(from), 0), to);
                    }
                    Op::Store { from, out, .. } => {
                        let Place { pattern, size, .. } = &map.places[map.inputs + out];
                        let (from, to) = (self.address(from), self.place(map.inputs + out));
                        // An input that is its own result may be there already.
                        if from != to {
                            copy(&pattern.loops, cut(pattern), *size, from, to);
                        }
                    }
                }
            }
        }
    }
}

//! One run of a map, tile by tile.

use super::code::{Arg, At, Op, Varies};
use super::compiled::Map;
use super::fold::{Both, OPERANDS, RowsTo};
use super::place::Place;
use super::tile::{ARGS, Tile};
use crate::exec::cpu::Coming;
use crate::exec::cpu::strided::{Loop, Nest, copy, copy_run};
use std::array::from_fn;
use std::ptr;

/// Where things lie.
pub(super) struct Frame<'a> {
    pub(super) map: &'a Map,
    /// Where the tile of each place begins, then where each out's is made, then the registers.
    pub(super) at: &'a mut [*mut u8],
    /// Bit `k`: out `k` lies where an input lies that is read too late, and is made in a register.
    pub(super) is_aside: u64,
    /// Places that are asked for ahead, one bit each.
    pub(super) streams: u64,
    /// What is asked for beside.
    pub(super) coming: &'a Coming,
    pub(super) first: bool,
}

impl Frame<'_> {
    /// # Safety
    ///
    /// As [`Kernel::run`](crate::exec::cpu::Kernel::run).
    pub(super) unsafe fn walk(&mut self, loops: &[Loop]) {
        if let Some((outer, rest)) = loops.split_first() {
            for _ in 0..outer.extent {
                // SAFETY: the places are valid for all turns of the outer loop, by one of which
                // they have been advanced.
                unsafe { self.walk(rest) };
                self.advance(outer, 1);
            }
            self.advance(outer, -(outer.extent as isize));
            return;
        }
        let map = self.map;
        let is_whole = map.may_be_whole && self.is_aside == 0;
        let chunk = if is_whole { map.cut.extent } else { map.chunk };
        let mut done = 0;
        while done < map.cut.extent {
            let turns = chunk.min(map.cut.extent - done);
            let is_followed = map.cut.extent - done >= 2 * chunk;
            // SAFETY: the tile lies within the operands.
            unsafe { self.tile(turns, is_followed) };
            self.first = false;
            self.advance(&map.cut, turns as isize);
            done += turns;
        }
        self.advance(&map.cut, -(done as isize));
    }

    #[inline]
    fn advance(&mut self, by: &Loop, turns: isize) {
        let Map { places, inputs, .. } = self.map;
        for ((at, place), stride) in self.at.iter_mut().zip(places).zip(&by.strides) {
            *at = at.wrapping_offset(stride * turns * place.size as isize);
        }
        for out in 0..places.len() - inputs {
            if !self.is_aside(out) {
                self.at[places.len() + out] = self.at[inputs + out];
            }
        }
    }

    #[inline]
    fn is_aside(&self, out: usize) -> bool {
        self.is_aside >> out.min(63) & 1 == 1
    }

    #[inline]
    fn address(&self, at: At) -> *mut u8 {
        self.at[at.address].wrapping_add(at.bytes)
    }

    /// Bytes between rows of an argument of an instruction on rows.
    #[inline]
    fn step(&self, arg: Arg<At>, size: usize) -> isize {
        match arg.varies {
            Varies { rows: false, .. } => 0,
            Varies { columns: false, .. } if arg.source.address >= self.map.inputs => size as isize,
            _ => self.row_step(arg.source, size),
        }
    }

    /// Bytes between rows of a whole tile.
    #[inline]
    fn row_step(&self, at: At, size: usize) -> isize {
        let Map { places, inputs, inner, .. } = self.map;
        let out = at.address.wrapping_sub(places.len());
        match at.address {
            input if input < *inputs => places[input].step,
            _ if out < places.len() - inputs && !self.is_aside(out) => places[inputs + out].step,
            _ => (inner * size) as isize,
        }
    }

    /// The tile of an instruction, if tiles are of so many turns.
    #[inline]
    fn operands(
        &self,
        turns: usize,
        [to, sizes @ ..]: [usize; ARGS + 1],
        (args, out): ([Arg<At>; ARGS], At),
        varies: Varies,
    ) -> Tile {
        let inner = self.map.inner;
        let pointers = args.map(|arg| self.address(arg.source).cast_const());
        let mut tile = Tile::row(turns * inner, self.address(out), pointers);
        match varies {
            _ if varies == Varies::NOWHERE => tile.len = 1,
            _ if !self.map.has_rows => {}
            Varies { columns: false, .. } => tile.len = turns,
            Varies { rows: false, .. } => tile.len = inner,
            _ => {
                let steps = from_fn(|k| self.step(args[k], sizes[k]));
                let out = self.row_step(out, to);
                let packed = |k: usize| {
                    steps[k] == (inner * sizes[k]) as isize || args[k].varies == Varies::NOWHERE
                };
                if out != (inner * to) as isize || !(0..ARGS).all(packed) {
                    (tile.rows, tile.len) = (turns, inner);
                    let [a, b, c, d]: [isize; ARGS] = steps;
                    tile.steps = [out, a, b, c, d];
                }
            }
        }
        tile
    }

    /// The rows of a sum, if tiles are of so many turns.
    #[inline]
    fn sum(&self, turns: usize, rows: RowsTo, args: &[Arg<At>], to: *mut u8) -> Both {
        let RowsTo { by_turn, step, along } = rows;
        let (rows, len) = if by_turn { (turns, self.map.inner) } else { (1, turns) };
        let (mut from, mut steps) = ([ptr::null(); OPERANDS], [0; OPERANDS]);
        // A loop: closures are called, for each tile.
        for (k, arg) in args.iter().enumerate() {
            from[k] = self.address(arg.source).cast_const();
            if rows > 1 {
                steps[k] = self.step(*arg, size_of::<f32>());
            }
        }
        Both { from, to, rows, len, steps, to_step: step, along }
    }

    /// # Safety
    ///
    /// As [`Kernel::run`](crate::exec::cpu::Kernel::run); `turns` of the cut loop from here on lie within
    /// the operands. A whole tile of this loop may follow.
    unsafe fn tile(&mut self, turns: usize, is_followed: bool) {
        let map = self.map;
        let len = turns * map.inner;
        // The pattern's first loop is of `chunk` turns, or holds them.
        let cut =
            |pattern: &Nest| pattern.loops.first().map_or(1, |l| l.extent / map.chunk * turns);
        for (part, op) in map.ops.iter().enumerate() {
            if is_followed {
                map.ahead.ask(part, self.streams, self.at);
            }
            self.coming.ask(len);
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
                        copy(&pattern.loops, cut(pattern), *size, self.at[input], self.address(to));
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
                    Op::Store { from, uniform: true, out } => {
                        let place = map.inputs + out;
                        let to = (self.at[place], 1);
                        copy_run(len, map.places[place].size, (self.address(from), 0), to);
                    }
                    Op::Fold { from, out } => {
                        let Place { pattern, .. } = &map.places[map.inputs + out];
                        let (from, to) = (self.address(from), self.at[map.inputs + out]);
                        if let Some(fold) = &map.fold {
                            fold.tile.onto(&pattern.loops, cut(pattern), from, to);
                        }
                    }
                    Op::Sum { run, ref args, count, out } => {
                        let args = &args[..count];
                        if let Some(rows) = map.fold.as_ref().and_then(|fold| fold.rows) {
                            run.run(&self.sum(turns, rows, args, self.at[map.inputs + out]));
                        }
                    }
                    Op::Store { from, out, .. } => {
                        let Place { pattern, size, .. } = &map.places[map.inputs + out];
                        let (from, to) = (self.address(from), self.at[map.inputs + out]);
                        // It may have been made there.
                        if from != to {
                            copy(&pattern.loops, cut(pattern), *size, from, to);
                        }
                    }
                }
            }
        }
    }
}

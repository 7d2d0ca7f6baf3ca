//! `Map`: the body is interpreted tile by tile, so that a chain of operations costs one pass over
//! memory. A tile's registers lie in scratch and stay in the first-level cache.

mod ahead;
mod code;
pub(super) mod instr;
mod pairs;
mod plan;
pub(super) mod tile;

use crate::exec::cpu::strided::{Labels, Loop, Nest, Strides, copy, copy_run};
use crate::exec::cpu::{Kernel, Memory};
use crate::program::{Body, Operand, Program, ValueId};
use code::{Arg, Code, Op, Port, PortShape, SLOT, Source, Varies};
use plan::plan;
use tile::{Kind, Tile};

/// An input or out at run time.
struct Place {
    value: ValueId,
    size: usize,
    /// Gathers (or for outs, scatters) a tile.
    pattern: Nest,
    /// Bytes between rows of a tile that lies in rows.
    step: isize,
}

struct Map {
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

/// Elements of a row below which a tile is one row: short rows are not worth a loop of their own.
const SHORT: usize = 32;

pub(super) fn prepare(
    program: &Program,
    body: &Body,
    inputs: &[Operand],
    outs: &[ValueId],
) -> Result<Box<dyn Kernel>, String> {
    let first = *outs.first().ok_or("a map without outs")?;
    let operands: Vec<_> = inputs.iter().collect();
    let labels = Labels::new(program, &operands, first);
    let rank = program.value(first).extents.len();
    if labels.extents.len() != rank {
        return Err("an input of a map has a dim that the outs lack".to_owned());
    }
    let mut strides: Vec<Vec<isize>> = labels.strides[..inputs.len()].to_vec();
    for &out in outs {
        strides.push(program.value(out).strides().iter().map(|&s| s as isize).collect());
    }
    let views: Vec<_> = strides.iter().map(Vec::as_slice).collect();
    let mut nest = Nest::new(&labels.extents, &views);
    nest.sort_by(inputs.len());
    let mut outer = nest.collapse();
    if outer.loops.is_empty() {
        let strides = Strides::from_elem(1, outer.operands);
        outer.loops.push(Loop { extent: 1, strides });
    }
    let widest = body.code.iter().map(|(_, dtype)| Kind::of(*dtype).size()).max();
    let tile = SLOT / widest.unwrap_or(8);
    let mut rest: Vec<Loop> = Vec::new();
    let mut inner = 1;
    while outer.loops.len() > 1 && outer.loops.last().is_some_and(|l| l.extent * inner <= tile) {
        if let Some(whole) = outer.loops.pop() {
            inner *= whole.extent;
            rest.insert(0, whole);
        }
    }
    let Some(cut) = outer.loops.pop() else { return Err("a map without loops".to_owned()) };
    let chunk = (tile / inner).clamp(1, cut.extent);
    let values: Vec<ValueId> = inputs.iter().map(|i| i.value).chain(outs.iter().copied()).collect();
    let has_rows = rest.len() == 1 && inner >= SHORT && chunk > 1;
    let mut ports = Vec::new();
    let mut places = Vec::new();
    for (k, &value) in values.iter().enumerate() {
        let dtype = program.value(value).dtype;
        let (shape, pattern) = tile_shape(&outer, &cut, &rest, chunk, k, k < inputs.len());
        let rows = rest.first().filter(|_| has_rows);
        let shape = rows.and_then(|row| row_shape(&cut, row, k, &shape)).unwrap_or(shape);
        ports.push(Port { dtype, shape });
        let step = cut.strides[k] * dtype.size() as isize;
        places.push(Place { value, size: dtype.size(), pattern, step });
    }
    let code = plan(body, &ports[..inputs.len()], &ports[inputs.len()..])?;
    let pairs = (0..outs.len()).flat_map(|out| (0..inputs.len()).map(move |input| (input, out)));
    let reads_before = pairs.map(|(input, out)| code.reads_before(input, out)).collect();
    let streams = ahead::streams(&places, labels.extents.iter().product());
    Ok(Box::new(Map {
        reads_before,
        streams,
        places,
        inputs: inputs.len(),
        code,
        outer,
        cut,
        chunk,
        inner,
        has_rows,
    }))
}

/// How tiles of rows lie in memory, where that is better known than as a pattern.
fn row_shape(cut: &Loop, row: &Loop, k: usize, shape: &PortShape) -> Option<PortShape> {
    if !matches!(shape, PortShape::Strided { .. }) {
        return None;
    }
    match (cut.strides[k], row.strides[k]) {
        (1, 0) => Some(PortShape::PerRow),
        (0, 1) => Some(PortShape::PerColumn),
        (_, 1) => Some(PortShape::Rows),
        _ => None,
    }
}

/// How the tiles of operand `k` lie in memory, and the nest that copies one: from memory to a
/// packed tile for inputs, back for outs.
fn tile_shape(
    outer: &Nest,
    cut: &Loop,
    rest: &[Loop],
    chunk: usize,
    k: usize,
    is_input: bool,
) -> (PortShape, Nest) {
    let mut step = 1;
    let mut pattern = Nest { operands: 2, ..Nest::default() };
    for (extent, stride) in
        rest.iter().rev().map(|l| (l.extent, l.strides[k])).chain([(chunk, cut.strides[k])])
    {
        let pair = if is_input { [stride, step] } else { [step, stride] };
        pattern.loops.insert(0, Loop { extent, strides: Strides::from_slice(&pair) });
        step *= extent as isize;
    }
    let memory = usize::from(!is_input);
    let pattern = pattern.collapse();
    let uniform = pattern.loops.iter().all(|l| l.strides[memory] == 0);
    let packed = pattern.loops.iter().all(|l| l.strides[0] == l.strides[1]);
    let once = cut.strides[k] == 0 && outer.loops.iter().all(|l| l.strides[k] == 0);
    let shape = match () {
        () if packed => PortShape::Packed,
        () if uniform => PortShape::Uniform,
        () => PortShape::Strided { once },
    };
    (shape, pattern)
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
            offsets.write_bytes(0, self.places.len());
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

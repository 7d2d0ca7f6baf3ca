//! Which loops of a map are a tile, and how its operands lie in one.

use super::ahead::Ahead;
use super::code::{Code, Port, PortShape, Reads, SLOT};
use super::compiled::Map;
use super::fold::{Fold, RowsTo};
use super::place::Place;
use super::plan::plan;
use super::tile::Kind;
use crate::exec::cpu::strided::{Labels, Loop, Nest, Strides};
use crate::exec::cpu::{Kernel, moves};
use crate::names::{DType, ReduceKind};
use crate::program::{Block, Body, Offset, Operand, ValueId, forms};

/// What a map reads, then what it makes.
pub(in crate::exec::cpu) struct Operands {
    pub(in crate::exec::cpu) values: Vec<(ValueId, DType)>,
    /// How many are read.
    pub(in crate::exec::cpu) inputs: usize,
    /// Of the outs.
    extents: Vec<usize>,
    /// Of each operand along the dims of the outs.
    strides: Vec<Vec<isize>>,
    /// Elements from where each operand lies to what is read of it first.
    offsets: Vec<usize>,
    /// How what is made is folded onto the out, if it is.
    fold: Option<Fold>,
}

impl Operands {
    pub(in crate::exec::cpu) fn new(
        block: &Block,
        form: &forms::Map,
        inputs: &[Operand],
        outs: &[ValueId],
        at: &dyn Fn(&Offset) -> usize,
    ) -> Result<Self, String> {
        let first = *outs.first().ok_or("a map without outs")?;
        let operands: Vec<_> = inputs.iter().collect();
        let labels = Labels::new(block, &operands, first);
        if labels.extents.len() != block.value(first).extents.len() {
            return Err("an input of a map has a dim that the outs lack".to_owned());
        }
        let mut strides: Vec<Vec<isize>> = labels.strides[..inputs.len()].to_vec();
        for &out in outs {
            strides.push(block.value(out).strides().iter().map(|&s| s as isize).collect());
        }
        let values = inputs.iter().map(|input| input.value).chain(outs.iter().copied());
        let values: Vec<_> = values.map(|value| (value, block.value(value).dtype)).collect();
        let mut offsets = vec![0; values.len()];
        for (i, input) in inputs.iter().enumerate() {
            let begin = form.begin(i).into_iter().flatten();
            let steps = begin.zip(block.value(input.value).strides());
            offsets[i] = steps.map(|(begin, step)| at(begin) * step).sum();
        }
        let (inputs, extents) = (inputs.len(), labels.extents);
        Ok(Self { values, inputs, extents, strides, offsets, fold: None })
    }

    /// Of a fold of an expression.
    fn folded(
        block: &Block,
        kind: ReduceKind,
        inputs: &[Operand],
        out: ValueId,
    ) -> Result<Self, String> {
        let Labels { extents, strides, .. } =
            Labels::new(block, &inputs.iter().collect::<Vec<_>>(), out);
        let values = inputs.iter().map(|input| input.value).chain([out]);
        let values: Vec<_> = values.map(|value| (value, block.value(value).dtype)).collect();
        let (offsets, fold) = (vec![0; values.len()], Fold::new(kind, out, block.value(out))?);
        Ok(Self { values, inputs: inputs.len(), extents, strides, offsets, fold: Some(fold) })
    }

    /// Loops over all dims, those with long strides of an operand outside.
    fn nest(&self, operand: usize) -> Nest {
        let strides: Vec<_> = self.strides.iter().map(Vec::as_slice).collect();
        let mut nest = Nest::new(&self.extents, &strides);
        nest.sort_by(operand);
        nest.collapse()
    }
}

pub(in crate::exec::cpu) fn prepare(
    block: &Block,
    form: &forms::Map,
    inputs: &[Operand],
    outs: &[ValueId],
    at: &dyn Fn(&Offset) -> usize,
) -> Result<Box<dyn Kernel>, String> {
    let operands = Operands::new(block, form, inputs, outs, at)?;
    let body = &form.body;
    let nest = operands.nest(operands.inputs);
    if form.begin.is_empty()
        && let [(input, from), (out, to)] = operands.values[..]
        && body.is_identity()
        && from == to
    {
        return Ok(moves::prepare_view(input, out, nest, to.size()));
    }
    Ok(Box::new(Map::new(body, operands, nest)?))
}

/// A fold of an expression.
pub(in crate::exec::cpu) fn prepare_fold(
    block: &Block,
    (kind, body): (ReduceKind, &Body),
    inputs: &[Operand],
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let operands = Operands::folded(block, kind, inputs, out)?;
    let largest = (0..inputs.len()).max_by_key(|&i| block.value(inputs[i].value).len());
    let nest = operands.nest(largest.unwrap_or_default());
    Ok(Box::new(Map::new(body, operands, nest)?))
}

/// Elements of a row below which a tile is one row: short rows are not worth a loop of their own.
const SHORT: usize = 32;
/// Registers whose size a tile may have of which none holds a whole one.
const WIDE: usize = 4;

/// The loops of a map, outermost first: those over tiles, that which is cut into tiles, those within a turn of it.
struct Loops {
    outer: Nest,
    cut: Loop,
    rest: Vec<Loop>,
    /// Elements per turn of `cut`.
    inner: usize,
}

/// A body planned for tiles of so many turns.
struct Planned {
    chunk: usize,
    has_rows: bool,
    places: Vec<Place>,
    code: Code,
}

impl Loops {
    /// So that a turn of the loop that is cut has at most so many elements.
    fn new(mut outer: Nest, tile: usize) -> Result<Self, String> {
        if outer.loops.is_empty() {
            let strides = Strides::from_elem(1, outer.operands);
            outer.loops.push(Loop { extent: 1, strides });
        }
        let mut rest: Vec<Loop> = Vec::new();
        let mut inner = 1;
        while outer.loops.len() > 1 && outer.loops.last().is_some_and(|l| l.extent * inner <= tile)
        {
            if let Some(whole) = outer.loops.pop() {
                inner *= whole.extent;
                rest.insert(0, whole);
            }
        }
        let Some(cut) = outer.loops.pop() else { return Err("a map without loops".to_owned()) };
        Ok(Self { outer, cut, rest, inner })
    }

    /// Turns of a tile of so many elements.
    fn turns(&self, tile: usize) -> usize {
        (tile / self.inner).clamp(1, self.cut.extent)
    }

    /// How rows of a tile lie to what they are folded to, operand `out`, if they all do so.
    fn rows_to(&self, has_rows: bool, chunk: usize, out: usize) -> Option<RowsTo> {
        let along_cut = self.cut.strides[out];
        match &self.rest[..] {
            [] => Some(RowsTo { by_turn: false, step: 0, along: along_cut }),
            [row] if has_rows || chunk == 1 => {
                Some(RowsTo { by_turn: true, step: along_cut, along: row.strides[out] })
            }
            _ => None,
        }
    }

    /// Plans a body for tiles of `chunk` turns.
    fn plan(&self, body: &Body, operands: &mut Operands, chunk: usize) -> Result<Planned, String> {
        let Self { outer, cut, rest, inner } = self;
        let inputs = operands.inputs;
        let has_rows = rest.len() == 1 && *inner >= SHORT && chunk > 1;
        let rows_to = self.rows_to(has_rows, chunk, inputs);
        let terms = operands.fold.as_mut().is_some_and(|fold| fold.by_rows(rows_to));
        let (mut ports, mut places) = (Vec::new(), Vec::new());
        for (k, &(value, dtype)) in operands.values.iter().enumerate() {
            let (shape, pattern) = tile_shape(outer, cut, rest, chunk, k, k < inputs);
            let rows = rest.first().filter(|_| has_rows);
            let shape = rows.and_then(|row| row_shape(cut, row, k, &shape)).unwrap_or(shape);
            let folds = k >= inputs && operands.fold.is_some();
            let shape = if folds { PortShape::Folded { terms } } else { shape };
            ports.push(Port { dtype, shape });
            let step = cut.strides[k] * dtype.size() as isize;
            let (size, offset) = (dtype.size(), operands.offsets[k] * dtype.size());
            places.push(Place { value, offset, size, pattern, step });
        }
        let code = plan(body, &ports[..inputs], &ports[inputs..])?;
        Ok(Planned { chunk, has_rows, places, code })
    }
}

impl Map {
    /// A body over collapsed loops of its operands.
    pub(in crate::exec::cpu) fn new(
        body: &Body,
        mut operands: Operands,
        nest: Nest,
    ) -> Result<Self, String> {
        let elements = nest.len();
        let widest = body.code.iter().map(|(_, dtype)| Kind::of(*dtype).size()).max();
        let tile = SLOT / widest.unwrap_or(8);
        let loops = Loops::new(nest, tile)?;
        let turns = [loops.turns(WIDE * tile), loops.turns(tile)];
        // A sum of terms that are made of what is read needs no registers of tiles.
        let mut planned = None;
        if operands.fold.is_some() && turns[0] > turns[1] {
            let wide = loops.plan(body, &mut operands, turns[0])?;
            let has_room = turns[0].max(loops.inner) <= tile;
            let fits = wide.code.slots == 0 || has_room && wide.code.holds_no_tile();
            planned = fits.then_some(wide);
        }
        let planned = match planned {
            Some(planned) => planned,
            None => loops.plan(body, &mut operands, turns[1])?,
        };
        let Planned { chunk, has_rows, places, code } = planned;
        let Loops { outer, cut, rest, inner } = loops;
        let (inputs, outs) = (operands.inputs, places.len() - operands.inputs);
        let pairs = (0..outs).flat_map(|out| (0..inputs).map(move |input| (input, out)));
        let alike = |input: usize, out: usize| {
            let mut loops = outer.loops.iter().chain([&cut]).chain(&rest);
            loops.all(|l| l.strides[input] == l.strides[inputs + out])
        };
        let may_take = pairs.map(|(input, out)| match code.reads(input, out) {
            Reads::Before => true,
            Reads::With => alike(input, out),
            Reads::Late => false,
        });
        Ok(Self {
            // A tile of one turn says nothing of how turns lie.
            may_be_whole: chunk > 1 && code.is_alone(),
            may_take: may_take.collect(),
            fold: operands.fold,
            ahead: Ahead::new((&places, inputs), [elements, chunk], &code.ops),
            ops: code.located(inputs, outs),
            aside: code.aside(outs),
            pool: code.pool,
            slots: code.slots,
            places,
            inputs,
            outer,
            cut,
            chunk,
            inner,
            has_rows,
        })
    }
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

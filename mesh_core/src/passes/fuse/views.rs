//! Reads through maps whose results are not worth keeping.
//!
//! * *Views* only turn dims around or repeat elements.
//! * *Numbers* are one everywhere.
//! * *Expansions* compute little on inputs much smaller than what they make: masks, one-hot vectors.
//! * *Cheap* values are made of one value as large as they are by an operation or two, only maps read them, and between
//!   those lies a fold of as many elements that no tile holds. Behind it, reading the one value is as much as reading the
//!   other, which need not be written.
//! * *Far* values are large, made of one value as large as they are by little arithmetic, and read
//!   long after, when both have to come from memory: then one of the two need not be written.
//!
//! A map that reads one of these computes it anew.

use crate::passes::Machine;
use crate::passes::uses::Uses;
use crate::passes::weave::{Weave, turned};
use crate::program::forms::Map;
use crate::program::{Block, Form, Generator, Operand, Reg, Scalar, Step, Value, ValueId};
use std::ops::Range;

/// An expansion's inputs are together so much smaller than what it makes.
const SMALLER: usize = 8;
/// The most operations an expansion takes for an element.
const FEW: usize = 8;
/// The most operations a cheap value takes for an element.
const CHEAP: usize = 2;
/// The most operations a far value takes for an element: an exponential and something around it.
const SOME: usize = 16;
/// Steps between a far value and who reads it.
const LONG: usize = 64;

pub(super) fn run(block: &mut Block, machine: &Machine) {
    let mut known: Vec<Option<Seen>> = vec![None; block.values.len()];
    let needs = Needs::new(block, machine);
    let values = &block.values;
    for (position, step) in block.steps.iter_mut().enumerate() {
        see_through(values, step, position, &known);
        if let Some((value, seen)) = seen(values, step, position, &needs, machine) {
            known[value.index()] = Some(seen);
        }
    }
    super::super::dead::run(block);
}

/// What a value is by another name.
#[derive(Clone)]
enum Seen {
    /// An operand whose labels are the value's dims.
    View(Operand),
    Number(Scalar),
    /// A map to be done by who reads the value at these positions.
    Anew {
        map: Map,
        inputs: Vec<Operand>,
        readers: Range<usize>,
    },
}

/// What says whether a cheap value is made again.
struct Needs {
    /// Per value, whether nobody but maps needs it.
    only_maps: Vec<bool>,
    /// Folds that no tile holds, in order: where they stand, and how many elements they fold. A tile meets half of the
    /// cache, what is folded and what that is made of.
    folds: Vec<(usize, usize)>,
}

impl Needs {
    fn new(block: &Block, machine: &Machine) -> Self {
        let uses = Uses::new(block);
        let is_map = |user: &usize| matches!(block.steps[*user].form, Form::Map(_));
        let values = uses.users.iter().zip(&uses.fetched);
        let only_maps =
            values.map(|(users, fetched)| !fetched && users.iter().all(is_map)).collect();
        let fold = |(position, step): (usize, &Step)| {
            let Form::Reduce(_) = step.form else { return None };
            let input = step.inputs.iter().max_by_key(|input| input.dims.len())?;
            let kept = block.value(step.outs[0]).extents.len();
            let value = block.value(input.value);
            let outer = value.extents.iter().zip(&input.dims);
            let outer = outer.take_while(|(_, label)| usize::from(**label) < kept);
            let tiles: usize = outer.map(|(extent, _)| extent).product();
            (value.bytes() / tiles > machine.caches.own_bytes / 4)
                .then_some((position, value.len()))
        };
        let folds = block.steps.iter().enumerate().filter_map(fold).collect();
        Self { only_maps, folds }
    }

    /// The first fold of so many elements behind a position.
    fn fold_behind(&self, position: usize, len: usize) -> Option<usize> {
        let mut behind = self.folds.iter().filter(|fold| fold.0 > position && fold.1 == len);
        behind.next().map(|fold| fold.0)
    }
}

fn seen(
    values: &[Value],
    step: &Step,
    position: usize,
    needs: &Needs,
    machine: &Machine,
) -> Option<(ValueId, Seen)> {
    let [out] = step.outs[..] else { return None };
    let (map, inputs) = match &step.form {
        Form::Generate(form) => match form.generator {
            Generator::Fill(scalar) => return Some((out, Seen::Number(scalar))),
            _ => return None,
        },
        Form::Map(map) if map.reads_all() => (map, &step.inputs[..]),
        _ => return None,
    };
    let body = &map.body;
    if let [input] = inputs
        && body.is_identity()
    {
        return Some((out, Seen::View(input.clone())));
    }
    let made = &values[out.index()];
    let bytes = |input: &Operand| values[input.value.index()].bytes();
    let (large, small): (Vec<_>, Vec<_>) =
        inputs.iter().partition(|input| values[input.value.index()].len() == made.len());
    let rest: usize = small.into_iter().map(bytes).sum();
    let little = rest * SMALLER <= made.bytes();
    let readers = match large.len() {
        0 if little && body.flops() <= FEW => position..usize::MAX,
        1 if little => {
            let is_cheap = body.flops() <= CHEAP && needs.only_maps[out.index()];
            let cheap = needs.fold_behind(position, made.len()).filter(|_| is_cheap);
            let is_far = body.flops() <= SOME && made.bytes() >= machine.caches.far_bytes;
            cheap.or(is_far.then_some(position + LONG))?..usize::MAX
        }
        _ => return None,
    };
    Some((out, Seen::Anew { map: map.clone(), inputs: inputs.to_vec(), readers }))
}

/// Replaces operands. One that repeats elements tells no extent, so only a map, whose outs have all
/// labels, can do without it.
fn see_through(values: &[Value], step: &mut Step, position: usize, known: &[Option<Seen>]) {
    let view = |operand: &mut Operand, repeats: bool| {
        let Some(Seen::View(view)) = &known[operand.value.index()] else { return };
        if repeats || view.dims.len() == operand.dims.len() {
            *operand = turned(view, operand);
        }
    };
    match &step.form {
        Form::Map(map) if map.reads_all() => {
            step.inputs.iter_mut().for_each(|input| view(input, true));
        }
        Form::Reduce(_) | Form::Contract(_) => {
            step.inputs.iter_mut().for_each(|input| view(input, false));
        }
        _ => {}
    }
    let (Form::Map(map), inputs) = (&mut step.form, &mut step.inputs) else { return };
    let is_read = |input: &Operand| match &known[input.value.index()] {
        Some(Seen::Anew { readers, .. }) => readers.contains(&position),
        Some(Seen::Number(_)) => true,
        _ => false,
    };
    if !map.reads_all() || !inputs.iter().any(is_read) {
        return;
    }
    let mut weave = Weave::default();
    let regs: Vec<Reg> = std::mem::take(inputs)
        .into_iter()
        .map(|input| match known[input.value.index()].as_ref().filter(|_| is_read(&input)) {
            Some(Seen::Number(scalar)) => weave.constant(*scalar),
            Some(Seen::Anew { map, inputs, .. }) => {
                let inner = inputs.iter().map(|inner| turned(inner, &input));
                let regs: Vec<_> = inner.map(|inner| weave.input(values, inner)).collect();
                let made = weave.append(&map.body, &regs);
                weave.stored(made[0])
            }
            _ => weave.input(values, input),
        })
        .collect();
    let results = weave.append(&map.body, &regs);
    let woven = weave.finish(&results);
    (map.body, *inputs) = (woven.0, woven.1.into());
}

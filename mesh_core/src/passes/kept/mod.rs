//! What one loop keeps for another is what costs least to have there.
//!
//! The gradient of a loop reads values of the loop's iterations, which that loop stacks. A value costs its bytes twice
//! to keep, written and read. One that elementwise steps make of others may be made again where it is read, if these
//! are there; that costs its arithmetic, and its bytes in a cache if more than maps read it. What the first loop was
//! given is there for the second: it costs nothing if it is a variable's or that is given it anyway, else its bytes
//! once. Which values are kept and which are made again is the cheapest cut between what the first loop has and what
//! the second reads, so it is the best of all choices by these prices. The same steps make them again of the same
//! bits; sums of them may be over other tiles.
//!
//! Where all that is kept fits in caches, nothing changes.

mod again;
mod cut;

use super::uses::Uses;
use super::{Machine, dead};
use crate::program::forms::Loop;
use crate::program::{Block, Form, Generator, Step, ValueId};
use again::Again;
use cut::{NEVER, Network};

/// How many times as long as in a product an operation takes in a map, which multiplies and adds one after the other
/// and interprets its instructions.
const SLOWER: f64 = 16.0;
/// How many times as fast as memory a cache is that holds what was just made.
const NEARER: f64 = 3.0;

pub(super) fn run(block: &mut Block, machine: &Machine) {
    run_within(block, machine, machine.caches.far_bytes);
}

/// As [`run`], wherever more than so many bytes are kept.
pub(super) fn run_within(block: &mut Block, machine: &Machine, near: usize) {
    let mut changed = false;
    let mut uses = Uses::new(block);
    for reader in 0..block.steps.len() {
        for writer in writers(&block.steps[reader], &uses) {
            let pair = Pair::new(block, &uses, writer, reader);
            if let Some(again) = pair.and_then(|pair| pair.best(machine, near)) {
                again.write(block, [writer, reader]);
                uses = Uses::new(block);
                changed = true;
            }
        }
    }
    if changed {
        dead::run(block);
    }
}

/// The steps that make what a loop slices, in order.
fn writers(reader: &Step, uses: &Uses) -> Vec<usize> {
    let Form::Loop(form) = &reader.form else { return Vec::new() };
    let maker = |slice: usize| uses.maker[reader.inputs[slice].value.index()];
    let mut writers: Vec<usize> = form.slices().filter_map(maker).collect();
    writers.sort_unstable();
    writers.dedup();
    writers
}

/// Two loops of which the second slices what the first stacks.
struct Pair<'p> {
    block: &'p Block,
    uses: &'p Uses,
    /// The first loop: the step, its form, and who makes what in its body.
    step: &'p Step,
    form: &'p Loop,
    inner: Uses,
    /// The second, and where it stands.
    reading: &'p Loop,
    at: usize,
    /// Values of the first body, with the second's parameters that they are, for whom alone they are stacked.
    wanted: Vec<(ValueId, ValueId)>,
    /// Values of the first body that are stacked for others as well.
    stacked: Vec<ValueId>,
}

impl<'p> Pair<'p> {
    fn new(block: &'p Block, uses: &'p Uses, writer: usize, at: usize) -> Option<Self> {
        let (step, reader) = (&block.steps[writer], &block.steps[at]);
        let (Form::Loop(form), Form::Loop(reading)) = (&step.form, &reader.form) else {
            return None;
        };
        let alike = form.count == reading.count && !form.conditional && !reading.conditional;
        if !alike || form.count == 1 || step.owners != reader.owners {
            return None;
        }
        let (mut wanted, mut stacked) = (Vec::new(), Vec::new());
        for i in form.stacks() {
            let (out, result) = (step.outs[i], form.body.results[i]);
            let slices = reading.slices().filter(|&slice| reader.inputs[slice].value == out);
            let params: Vec<_> = slices.map(|slice| reading.body.params[slice]).collect();
            let read = reader.reads().filter(|&input| input == out).count();
            let whole = |param: &ValueId| reading.body.value(*param) == form.body.value(result);
            if !params.iter().all(whole) || params.len() != read || !uses.has_one_reader(out) {
                stacked.push(result);
            } else {
                wanted.extend(params.into_iter().map(|param| (result, param)));
            }
        }
        (!wanted.is_empty()).then_some(Self {
            block,
            uses,
            step,
            form,
            inner: Uses::new(&form.body),
            reading,
            at,
            wanted,
            stacked,
        })
    }

    /// What is cheapest to keep and to make again, if that is not what is kept now.
    fn best(&self, machine: &Machine, near: usize) -> Option<Again> {
        let body = &*self.form.body;
        let kept: usize = self.wanted.iter().map(|(value, _)| body.value(*value).bytes()).sum();
        if kept * self.form.count <= near {
            return None;
        }
        // A value is had where its first node is on the side of the source, and kept if its second is not.
        let count = body.values.len();
        let (source, sink) = (2 * count, 2 * count + 1);
        let mut network = Network::new(2 * count + 2);
        for (index, _) in body.values.iter().enumerate() {
            let value = ValueId(index as u32);
            network.edge(2 * index, 2 * index + 1, self.keeping(value, machine));
            let Some(step) = self.maker(value) else {
                network.edge(source, 2 * index, NEVER);
                continue;
            };
            network.edge(source, 2 * index, self.repeating(step, value, machine));
            step.reads().for_each(|input| network.edge(2 * input.index() + 1, 2 * index, NEVER));
        }
        for (value, _) in &self.wanted {
            network.edge(2 * value.index() + 1, sink, NEVER);
        }
        let has = network.cut(source, sink);
        let mut again = Again::new(count, self.wanted.clone());
        let mut ahead: Vec<_> = self.wanted.iter().map(|(value, _)| *value).collect();
        while let Some(value) = ahead.pop() {
            match self.maker(value) {
                Some(step) if !has[2 * value.index()] => {
                    if again.repeat(value, step) {
                        ahead.extend(step.reads());
                    }
                }
                _ => again.keep(value),
            }
        }
        self.wanted.iter().any(|(value, _)| again.is_repeated(*value)).then_some(again)
    }

    /// The step that makes a value, if it can be made again to the bit by little.
    fn maker(&self, value: ValueId) -> Option<&'p Step> {
        let step = &self.form.body.steps[self.inner.maker[value.index()]?];
        let elementwise = match &step.form {
            Form::Map(_) | Form::Reshape(_) => true,
            Form::Generate(form) => {
                matches!(form.generator, Generator::Fill(_) | Generator::Iota(_))
            }
            _ => false,
        };
        (elementwise && step.owners.is_empty()).then_some(step)
    }

    /// What it costs to have a value of the first loop in the second, in picoseconds.
    fn keeping(&self, value: ValueId, machine: &Machine) -> u64 {
        let (form, bytes) = (self.form, self.form.body.value(value).bytes());
        let bytes = match form.body.params.iter().position(|param| *param == value) {
            Some(i) if i + 1 == form.body.params.len() => 0,
            // It is there, and perhaps read for this alone.
            Some(i) if i >= form.carried => {
                let outer = self.step.inputs[i].value;
                let maker = self.uses.maker[outer.index()].map(|maker| &self.block.steps[maker]);
                let read = maker.is_some_and(|step| matches!(step.form, Form::Read(_)));
                if read || self.uses.last(outer) >= self.at { 0 } else { bytes }
            }
            _ if self.stacked.contains(&value) => bytes,
            _ => 2 * bytes,
        };
        picoseconds(bytes as f64 / machine.memory)
    }

    /// What it costs to make a value again where it is read, in picoseconds.
    fn repeating(&self, step: &Step, value: ValueId, machine: &Machine) -> u64 {
        let made = self.form.body.value(value);
        let flops = match &step.form {
            Form::Map(map) => map.body.flops() * made.len(),
            _ => 0,
        };
        let copies = match &step.form {
            Form::Map(map) => map.body.is_identity() && map.reads_all(),
            form => form.renames(),
        };
        let joins = |step: &&Step| matches!(step.form, Form::Map(_));
        let params = self.wanted.iter().filter(|(wanted, _)| *wanted == value);
        let mut readers = params.flat_map(|(_, param)| {
            self.reading.body.steps.iter().filter(|step| step.has_input(*param))
        });
        let moved = if copies || readers.all(|step| joins(&step)) { 0 } else { 2 * made.bytes() };
        let arithmetic = flops as f64 * SLOWER / machine.rate(made.dtype);
        picoseconds(arithmetic + moved as f64 / (NEARER * machine.memory))
    }
}

/// Whole numbers, so that a cut is cheapest exactly.
fn picoseconds(seconds: f64) -> u64 {
    (seconds * 1e12) as u64
}

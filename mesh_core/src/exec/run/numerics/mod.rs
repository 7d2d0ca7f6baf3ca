//! Looks at every number that steps write, and stops at the first that is no finite one.
//!
//! NaN always counts. An infinity counts where it is *made*: by a step whose inputs have none. What
//! somebody wrote is meant, and so is what comes of it: feeds, variables at the call's start,
//! constants, literals in a map's body, what a move is filled with, the first of an exclusive running
//! maximum. So `-inf` in a mask passes, `log(0)` and an overflow do not. Of a sum over processors the
//! inputs of all members count, which they tell each other beforehand.
//!
//! What is known of a value is noted when it is written: a step in place has no inputs left when it
//! is done.
#![allow(unsafe_code, reason = "reads the processor's memory")]

mod found;

use std::slice;

pub(crate) use found::digits;
pub use found::{GivenTo, InIteration, NonFinite, Summary};

use crate::exec::action::Action;
use crate::exec::comm::fold::Fold;
use crate::exec::comm::{Collective, Comm, Part, Stopped};
use crate::exec::cpu::Memory;
use crate::names::{DType, Mesh, ReduceKind};
use crate::program::forms::{Generate, Loop, Move, Scan, Scatter};
use crate::program::{
    Block, Body, FoldOrder, Form, Generator, Instr, Origin, Program, Slot, Step, Value, ValueId,
    owns,
};

/// How much is shown on each side of a bad number.
const BESIDE: usize = 3;

/// What a processor knows of the values of a program in this call.
#[derive(Default)]
pub(in crate::exec) struct Known {
    /// By value.
    values: Vec<Summary>,
    /// The steps before have been looked at.
    next: usize,
    /// In the body of a loop: the iteration's position.
    position: usize,
    /// By step: the bodies of loops.
    bodies: Vec<Option<Known>>,
}

impl Known {
    /// Room for a call.
    pub(in crate::exec) fn of(block: &Block) -> Self {
        let body = |step: &Step| match &step.form {
            Form::Loop(form) => Some(Self::of(&form.body)),
            _ => None,
        };
        Self {
            values: vec![Summary::default(); block.values.len()],
            bodies: block.steps.iter().map(body).collect(),
            ..Self::default()
        }
    }
}

/// A member's word on whether its input has an infinity, where the others can read it.
#[repr(C, align(64))]
struct Word(i32);

/// Looks at what the steps of one program write.
pub(in crate::exec) struct Inspector<'t> {
    pub(in crate::exec) mesh: &'t Mesh,
    pub(in crate::exec) processor: usize,
    pub(in crate::exec) program: &'t Program,
    /// The program's, or the body of one of its loops.
    pub(in crate::exec) block: &'t Block,
    pub(in crate::exec) known: &'t mut Known,
    pub(in crate::exec) found: &'t mut Option<Box<NonFinite>>,
    /// The loop whose body the block is.
    pub(in crate::exec) of_loop: Option<&'t Loop>,
}

impl Inspector<'_> {
    /// Looks at what was fed; the call begins.
    ///
    /// # Safety
    ///
    /// Of all unsafe methods: values that have been written by the call so far lie, initialised,
    /// where `memory` says.
    pub(super) unsafe fn feeds(&mut self, memory: &Memory) -> Result<(), Stopped> {
        self.known.next = 0;
        for (slot, value) in self.program.fed() {
            // SAFETY: feeds have been written.
            let numbers = unsafe { self.look(value, memory) };
            if numbers.nan > 0 {
                let (name, at) = (slot.name.clone(), slot.at.clone());
                let origin = Origin { op: "feed".to_owned(), name, at, ..Origin::default() };
                let line = format!("{value:?} = {}: {}", slot.name, self.block.value(value));
                // SAFETY: the value was written before the call: feeds have been copied.
                return unsafe { self.stop(value, Some(slot), origin, line, &[], memory) };
            }
        }
        Ok(())
    }

    /// An iteration of a loop begins, whose body this is.
    ///
    /// # Safety
    ///
    /// As [`feeds`](Self::feeds).
    pub(super) unsafe fn iteration(&mut self, position: usize, memory: &Memory) {
        (self.known.position, self.known.next) = (position, 0);
        let Some(of_loop) = self.of_loop else { return };
        for &param in self.block.params.iter().take(of_loop.slices().end) {
            // SAFETY: the loop has put it there.
            unsafe { self.look(param, memory) };
        }
    }

    /// Looks at a loop's body.
    pub(super) fn body(&mut self, step: usize) -> Option<Inspector<'_>> {
        let Self { mesh, processor, program, block, ref mut known, ref mut found, .. } = *self;
        let step_of = &block.steps[step];
        let Form::Loop(form) = &step_of.form else { return None };
        let inner = known.bodies.get_mut(step)?.as_mut()?;
        let captured = form.inputs(step_of).captured.iter();
        for (outer, param) in captured.zip(form.body.params.iter().skip(form.slices().end)) {
            inner.values[param.index()] = known.values[outer.value.index()];
        }
        let (block, of_loop) = (&*form.body, Some(form));
        Some(Inspector { mesh, processor, program, block, known: inner, found, of_loop })
    }

    /// A loop's body has stopped: notes in which iteration.
    pub(super) fn stopped(&mut self, step: usize) {
        let step_of = &self.block.steps[step];
        let (Form::Loop(form), Some(Some(body)), Some(found)) =
            (&step_of.form, self.known.bodies.get(step), &mut self.found)
        else {
            return;
        };
        let name = step_of.origin.name.clone();
        let iteration = InIteration { name, position: body.position, count: form.count };
        found.iterations.insert(0, iteration);
    }

    /// A step is about to run. Looks at variables that are read where they are, for which nothing
    /// runs; says whether some member's input of a sum over processors has an infinity.
    ///
    /// # Safety
    ///
    /// As [`feeds`](Self::feeds), and as [`Comm`]'s methods.
    pub(super) unsafe fn before(
        &mut self,
        step: usize,
        action: &Action,
        comm: &mut impl Comm,
        memory: &Memory,
    ) -> Result<bool, Stopped> {
        for earlier in self.known.next..step {
            if let Form::Read(_) = &self.block.steps[earlier].form {
                // SAFETY: a variable is initialised.
                unsafe { self.after(earlier, memory, true)? };
            }
        }
        let (group, collective) = match action {
            Action::Meet { group, collective } => (*group, collective),
            _ => return Ok(false),
        };
        if !collective.folds() {
            return Ok(false);
        }
        let Some(fold) = Fold::new(ReduceKind::Max, DType::I32) else { return Ok(true) };
        let mut word = Word(i32::from(self.is_given_infinity(&self.block.steps[step])));
        let at: *mut u8 = (&raw mut word).cast();
        let part = Part { input: at, out: at, elements: 1 };
        let (order, parts) = (FoldOrder::Group, [part].into());
        // SAFETY: the word is aligned, and outlives the call; all members of the group run this step.
        unsafe { comm.meet(group, &Collective::AllReduce { fold, order, parts })? };
        // SAFETY: the members have left it.
        Ok(unsafe { (&raw const word).read_volatile() }.0 != 0)
    }

    /// A step has run; `met` says whether its peers brought infinities.
    ///
    /// # Safety
    ///
    /// As [`feeds`](Self::feeds).
    pub(super) unsafe fn after(
        &mut self,
        step: usize,
        memory: &Memory,
        met: bool,
    ) -> Result<(), Stopped> {
        self.known.next = step + 1;
        let block = self.block;
        let step = &block.steps[step];
        if !owns(self.mesh, self.processor, &step.owners) || !self.receives(step) {
            return Ok(());
        }
        for &out in &step.outs {
            // SAFETY: the step has written it.
            let numbers = unsafe { self.look(out, memory) };
            let made = numbers.infinite > 0 && !met && !self.may_be_infinite(step);
            if block.value(out).dtype.is_float() && (numbers.nan > 0 || made) {
                let slot = block.tensors.iter().find(|(value, _)| *value == out);
                let slot = slot.map(|(_, slot)| slot);
                let origin = Origin::clone(&step.origin);
                let line = block.display_step(step, self.mesh).to_string();
                let inputs: Vec<_> = step.reads().collect();
                // SAFETY: the step has written its outs, and what it read is noted.
                return unsafe { self.stop(out, slot, origin, line, &inputs, memory) };
            }
        }
        Ok(())
    }

    /// Whether this processor gets what a step makes.
    fn receives(&self, step: &Step) -> bool {
        match &step.form {
            Form::ReduceTo(form) => self.mesh.group_index(self.processor, &form.axes) == form.root,
            _ => true,
        }
    }

    fn is_given_infinity(&self, step: &Step) -> bool {
        step.reads().any(|input| self.known.values[input.index()].infinite > 0)
    }

    /// Whether infinities are none that the step has made.
    fn may_be_infinite(&self, step: &Step) -> bool {
        let infinite = |instr: &Instr| matches!(instr, Instr::Const(c) if c.value().is_infinite());
        let written = |body: &Body| body.code.iter().any(|(instr, _)| infinite(instr));
        self.is_given_infinity(step)
            || match &step.form {
                Form::Map(form) => written(&form.body),
                Form::Reduce(form) => form.body.as_ref().is_some_and(written),
                Form::Move(Move { fill, .. }) => fill.value().is_infinite(),
                Form::Generate(Generate { generator, .. }) => {
                    matches!(generator, Generator::Fill(_) | Generator::Table(_))
                }
                Form::Scan(Scan { kind: ReduceKind::Max | ReduceKind::Min, exclusive, .. }) => {
                    *exclusive
                }
                // Where nothing comes; what only brings what was elsewhere, or was looked at in iterations.
                Form::Scatter(Scatter { kind: ReduceKind::Max | ReduceKind::Min, .. })
                | Form::Read(_)
                | Form::AllGather(_)
                | Form::AllToAll(_)
                | Form::Permute(_)
                | Form::Broadcast(_)
                | Form::Loop(_) => true,
                _ => false,
            }
    }

    /// Notes the numbers of a value.
    ///
    /// # Safety
    ///
    /// The value has been written.
    unsafe fn look(&mut self, id: ValueId, memory: &Memory) -> Summary {
        // SAFETY: a step has written the value, which lies where `memory` says.
        let numbers = unsafe { numbers(self.block.value(id), memory.pointer(id)) };
        let summary = match numbers {
            Numbers::F32(all) => Summary::of(all.iter().map(|&x| f64::from(x))),
            Numbers::F64(all) => Summary::of(all.iter().copied()),
            Numbers::BF16(all) => Summary::of(all.iter().map(|&x| f64::from(x))),
            Numbers::I32(all) => Summary::of(all.iter().map(|&x| f64::from(x))),
            Numbers::Bool(all) => Summary::of(all.iter().map(|&x| f64::from(x))),
        };
        self.known.values[id.index()] = summary;
        summary
    }

    /// Describes what is wrong with a value, and stops.
    ///
    /// # Safety
    ///
    /// The value has been written.
    unsafe fn stop(
        &mut self,
        id: ValueId,
        slot: Option<&Slot>,
        origin: Origin,
        step: String,
        inputs: &[ValueId],
        memory: &Memory,
    ) -> Result<(), Stopped> {
        let (mesh, processor, program) = (self.mesh, self.processor, self.program);
        let (value, summary) = (self.block.value(id), self.known.values[id.index()]);
        // SAFETY: a step has written the value, which lies where `memory` says.
        let numbers = unsafe { numbers(value, memory.pointer(id)) };
        let is_bad = |x: f64| if summary.nan > 0 { x.is_nan() } else { x.is_infinite() };
        let first = (0..value.len()).find(|&i| is_bad(numbers.at(i))).unwrap_or_default();
        let strides = value.strides();
        let index: Vec<_> =
            strides.iter().zip(&value.extents).map(|(stride, n)| first / stride % n).collect();
        let (last, extent, stride) = match (index.last(), value.extents.last(), strides.last()) {
            (Some(&last), Some(&extent), Some(&stride)) => (last, extent, stride),
            _ => (0, 1, 1),
        };
        let (from, to) = (last.saturating_sub(BESIDE), extent.min(last + BESIDE + 1));
        let along = |position: usize| numbers.at(first + position * stride - last * stride);
        let mut named: Vec<ValueId> = Vec::new();
        named.extend(inputs);
        named.dedup();
        let coordinate = |axis| format!("{}={}", mesh.name(axis), mesh.coordinate(processor, axis));
        *self.found = Some(Box::new(NonFinite {
            function: program.name.clone(),
            origin,
            step,
            processor,
            coordinates: mesh.axes().map(coordinate).collect::<Vec<_>>().join(", "),
            iterations: Vec::new(),
            tensor: slot.map(|slot| slot.name.clone()),
            dtype: value.dtype,
            value: numbers.at(first),
            global: slot.and_then(|slot| self.global(slot, value, &index)),
            index,
            around: (from..to).map(along).collect(),
            around_from: from,
            numbers: summary,
            inputs: named.into_iter().map(|input| self.given(input)).collect(),
        }));
        Err(Stopped)
    }

    fn given(&self, input: ValueId) -> GivenTo {
        let tensors = self.block.tensors.iter().map(|(value, slot)| (slot, *value));
        let fed = self.program.fed().filter(|_| self.of_loop.is_none());
        let slot = tensors.chain(fed).find(|(_, value)| *value == input).map(|(slot, _)| slot);
        let value = match slot.filter(|slot| !slot.name.is_empty()) {
            Some(slot) => format!("{input:?} (`{}`)", slot.name),
            None => format!("{input:?}"),
        };
        GivenTo { value, numbers: self.known.values[input.index()] }
    }

    /// The index in the tensor of an element of its slice, or of a tile of it in this iteration.
    fn global(&self, slot: &Slot, value: &Value, index: &[usize]) -> Option<Vec<usize>> {
        if slot.shape.len() != index.len() || slot.split.len() != index.len() {
            return None;
        }
        let parts = slot.split.iter().map(|axes| self.mesh.group_size(axes));
        let slice: Vec<_> =
            slot.shape.iter().zip(parts).map(|(size, parts)| size / parts).collect();
        let tiles: Vec<_> =
            slice.iter().zip(&value.extents).map(|(all, part)| all / part).collect();
        let count = if slice[..] == value.extents[..] { 1 } else { self.of_loop?.count };
        if tiles.iter().product::<usize>() != count {
            return None;
        }
        let mut tile = if count == 1 { 0 } else { self.known.position };
        let mut global = vec![0; index.len()];
        for dim in (0..index.len()).rev() {
            let part = self.mesh.group_index(self.processor, &slot.split[dim]);
            let begin = part * slice[dim] + tile % tiles[dim] * value.extents[dim];
            global[dim] = begin + index[dim];
            tile /= tiles[dim];
        }
        Some(global)
    }
}

/// The elements of a value in memory order.
enum Numbers<'m> {
    F32(&'m [f32]),
    F64(&'m [f64]),
    BF16(&'m [half::bf16]),
    I32(&'m [i32]),
    Bool(&'m [u8]),
}

impl Numbers<'_> {
    fn at(&self, i: usize) -> f64 {
        match self {
            Self::F32(all) => f64::from(all[i]),
            Self::F64(all) => all[i],
            Self::BF16(all) => f64::from(all[i]),
            Self::I32(all) => f64::from(all[i]),
            Self::Bool(all) => f64::from(all[i]),
        }
    }
}

/// # Safety
///
/// There lies the value, initialised, and nobody changes it for as long as the result is used.
unsafe fn numbers<'m>(value: &Value, at: *const u8) -> Numbers<'m> {
    let len = value.len();
    // SAFETY: `at` is good for `len` elements that a step has written; values are aligned for
    // every dtype.
    unsafe {
        match value.dtype {
            DType::F32 => Numbers::F32(slice::from_raw_parts(at.cast(), len)),
            DType::F64 => Numbers::F64(slice::from_raw_parts(at.cast(), len)),
            DType::BF16 => Numbers::BF16(slice::from_raw_parts(at.cast(), len)),
            DType::I32 => Numbers::I32(slice::from_raw_parts(at.cast(), len)),
            DType::Bool => Numbers::Bool(slice::from_raw_parts(at.cast(), len)),
        }
    }
}

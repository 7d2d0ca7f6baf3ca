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
pub use found::{GivenTo, InRound, NonFinite, Summary};

use super::comm::fold::Fold;
use super::comm::{Collective, Comm, Part, Stopped};
use super::cpu::Memory;
use super::executor::Action;
use crate::names::{DType, Mesh, ReduceKind};
use crate::program::{
    FoldOrder, Generator, Instr, Origin, Program, Rounds, Slot, Step, Value, ValueId, owns,
};

/// How much is shown on each side of a bad number.
const BESIDE: usize = 3;

/// What a processor knows of the values of a program in this call.
#[derive(Default)]
pub(super) struct Known {
    /// By value.
    values: Vec<Summary>,
    /// The steps before have been looked at.
    next: usize,
    /// In the body of a loop: the round's position.
    position: usize,
    /// By step: the bodies of loops.
    bodies: Vec<Option<Known>>,
}

impl Known {
    /// Room for a call.
    pub(super) fn of(program: &Program) -> Self {
        let body = |step: &Step| match step {
            Step::Loop(rounds) => Some(Self::of(&rounds.body)),
            _ => None,
        };
        Self {
            values: vec![Summary::default(); program.values.len()],
            bodies: program.steps.iter().map(|node| body(&node.step)).collect(),
            ..Self::default()
        }
    }
}

/// A member's word on whether its input has an infinity, where the others can read it.
#[repr(C, align(64))]
struct Word(i32);

/// Looks at what the steps of one program write.
pub(super) struct Inspector<'t> {
    pub(super) mesh: &'t Mesh,
    pub(super) processor: usize,
    pub(super) program: &'t Program,
    pub(super) known: &'t mut Known,
    pub(super) found: &'t mut Option<Box<NonFinite>>,
    /// The loop whose body the program is.
    pub(super) rounds: Option<&'t Rounds>,
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
        for slot in &self.program.feeds {
            // SAFETY: feeds have been written.
            let numbers = unsafe { self.look(slot.value, memory) };
            if numbers.nan > 0 {
                let known = self.program.origins.iter().find(|origin| origin.name == slot.name);
                let fed = || Origin { name: slot.name.clone(), ..Origin::default() };
                let known = known.map_or_else(fed, |known| Origin::clone(known));
                let origin = Origin { op: "feed".to_owned(), ..known };
                let line =
                    format!("{:?} = {}: {}", slot.value, slot.name, self.program.value(slot.value));
                // SAFETY: as above.
                return unsafe { self.stop(slot.value, Some(slot), origin, line, &[], memory) };
            }
        }
        Ok(())
    }

    /// A round of a loop begins, whose body this is.
    ///
    /// # Safety
    ///
    /// As [`feeds`](Self::feeds).
    pub(super) unsafe fn round(&mut self, position: usize, memory: &Memory) {
        (self.known.position, self.known.next) = (position, 0);
        let Some(Rounds { body, carried, sliced, .. }) = self.rounds else { return };
        for slot in body.feeds.iter().take(carried.len() + sliced.len()) {
            // SAFETY: the loop has put it there.
            unsafe { self.look(slot.value, memory) };
        }
    }

    /// Looks at a loop's body.
    pub(super) fn body(&mut self, step: usize) -> Option<Inspector<'_>> {
        let Self { mesh, processor, program, ref mut known, ref mut found, .. } = *self;
        let Step::Loop(rounds) = &program.steps[step].step else { return None };
        let inner = known.bodies.get_mut(step)?.as_mut()?;
        let given = rounds.carried.len() + rounds.sliced.len();
        for (outer, slot) in rounds.captured.iter().zip(rounds.body.feeds.iter().skip(given)) {
            inner.values[slot.value.index()] = known.values[outer.index()];
        }
        let (program, rounds) = (&rounds.body, Some(&**rounds));
        Some(Inspector { mesh, processor, program, known: inner, found, rounds })
    }

    /// A loop's body has stopped: notes in which round.
    pub(super) fn stopped(&mut self, step: usize) {
        let node = &self.program.steps[step];
        let (Step::Loop(rounds), Some(Some(body)), Some(found)) =
            (&node.step, self.known.bodies.get(step), &mut self.found)
        else {
            return;
        };
        let name = self.program.origin(node).name.clone();
        let round = InRound { name, position: body.position, rounds: rounds.count };
        found.rounds.insert(0, round);
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
            if let Step::Read { .. } = &self.program.steps[earlier].step {
                // SAFETY: a variable is initialised.
                unsafe { self.after(earlier, memory, true)? };
            }
        }
        let (group, collective) = match action {
            Action::Meet { group, collective } => (*group, collective),
            // Who looks at numbers has it carried out at once.
            Action::Begin { group, begun } => (*group, &begun.collective),
            _ => return Ok(false),
        };
        if !collective.folds() {
            return Ok(false);
        }
        let Some(fold) = Fold::new(ReduceKind::Max, DType::I32) else { return Ok(true) };
        let mut word = Word(i32::from(self.is_given_infinity(&self.program.steps[step].step)));
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
        let program = self.program;
        let node = &program.steps[step];
        if !owns(self.mesh, self.processor, &node.owners) || !self.receives(&node.step) {
            return Ok(());
        }
        for &out in node.step.outs() {
            // SAFETY: the step has written it.
            let numbers = unsafe { self.look(out, memory) };
            let made = numbers.infinite > 0 && !met && !self.may_be_infinite(&node.step);
            if program.value(out).dtype.is_float() && (numbers.nan > 0 || made) {
                let slot = program.tensors.iter().find(|slot| slot.value == out);
                let origin = Origin::clone(program.origin(node));
                let line = program.display_step(&node.step, self.mesh).to_string();
                let inputs = node.step.inputs();
                // SAFETY: as above.
                return unsafe { self.stop(out, slot, origin, line, &inputs, memory) };
            }
        }
        Ok(())
    }

    /// Whether this processor gets what a step makes.
    fn receives(&self, step: &Step) -> bool {
        match step {
            Step::ReduceTo { axes, root, .. } => {
                self.mesh.group_index(self.processor, axes) == *root
            }
            _ => true,
        }
    }

    fn is_given_infinity(&self, step: &Step) -> bool {
        step.inputs().iter().any(|input| self.known.values[input.index()].infinite > 0)
    }

    /// Whether infinities are none that the step has made.
    fn may_be_infinite(&self, step: &Step) -> bool {
        self.is_given_infinity(step)
            || match step {
                Step::Map { body, .. } => body
                    .code
                    .iter()
                    .any(|(instr, _)| matches!(instr, Instr::Const(c) if c.value().is_infinite())),
                Step::Move { fill, .. } => fill.value().is_infinite(),
                Step::Generate { generator: Generator::Fill(_) | Generator::Table(_), .. } => true,
                Step::Scan { kind: ReduceKind::Max | ReduceKind::Min, exclusive, .. } => *exclusive,
                // What only brings what was elsewhere, or was looked at in rounds.
                Step::Read { .. }
                | Step::AllGather { .. }
                | Step::AllToAll { .. }
                | Step::Permute { .. }
                | Step::Broadcast { .. }
                | Step::Loop(_) => true,
                _ => false,
            }
    }

    /// Notes the numbers of a value.
    ///
    /// # Safety
    ///
    /// The value has been written.
    unsafe fn look(&mut self, id: ValueId, memory: &Memory) -> Summary {
        // SAFETY: as stated.
        let numbers = unsafe { numbers(self.program.value(id), memory.pointer(id)) };
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
        let (value, summary) = (program.value(id), self.known.values[id.index()]);
        // SAFETY: as stated.
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
            rounds: Vec::new(),
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
        let Program { tensors, feeds, .. } = self.program;
        let slot = tensors.iter().chain(feeds).find(|slot| slot.value == input);
        let value = match slot.filter(|slot| !slot.name.is_empty()) {
            Some(slot) => format!("{input:?} (`{}`)", slot.name),
            None => format!("{input:?}"),
        };
        GivenTo { value, numbers: self.known.values[input.index()] }
    }

    /// The index in the tensor of an element of its slice, or of a tile of it in this round.
    fn global(&self, slot: &Slot, value: &Value, index: &[usize]) -> Option<Vec<usize>> {
        if slot.shape.len() != index.len() || slot.split.len() != index.len() {
            return None;
        }
        let parts = slot.split.iter().map(|axes| self.mesh.group_size(axes));
        let slice: Vec<_> =
            slot.shape.iter().zip(parts).map(|(size, parts)| size / parts).collect();
        let tiles: Vec<_> =
            slice.iter().zip(&value.extents).map(|(all, part)| all / part).collect();
        let count = if slice[..] == value.extents[..] { 1 } else { self.rounds?.count };
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
    // SAFETY: as stated; values are aligned for every dtype.
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

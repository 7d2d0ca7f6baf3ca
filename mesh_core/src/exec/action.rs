//! What a processor does in a function, with everything looked up: made by [`prepare`](super::prepare),
//! carried out by [`run`](super::run).
#![allow(unsafe_code, reason = "reads callers' arrays, moves values between iterations")]

use super::border::{Border, Global};
use super::comm::courier::Begun;
use super::comm::{Collective, Group};
use super::cpu::{Kernel, Memory};
use super::strided::Walk;
use super::sync::Arc;
use crate::program::ValueId;

/// A step with everything looked up. Pointers go into the processor's own memory.
pub(super) enum Action {
    Kernel(Box<dyn Kernel>),
    Meet {
        group: Group,
        collective: Collective,
    },
    /// A collective that is awaited later.
    Begin {
        /// Of the processors themselves.
        group: Group,
        begun: Arc<Begun>,
    },
    Await(Arc<Begun>),
    /// A read or write of a variable that the plan did not alias.
    Copy {
        walk: Walk,
        from: *const u8,
        to: *mut u8,
    },
    Loop(Box<PreparedLoop>),
}

/// A value that goes to the caller.
pub(super) struct Crossing {
    /// Which of the call's arrays.
    pub(super) index: usize,
    pub(super) border: Border,
    pub(super) value: *mut u8,
}

impl Action {
    /// The collective that is begun, if one is.
    pub(super) fn begun(&self) -> Option<&Arc<Begun>> {
        if let Self::Begin { begun, .. } = self { Some(begun) } else { None }
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        match self {
            Self::Kernel(kernel) => kernel.scratch_bytes(),
            _ => 0,
        }
    }
}

/// A feed of one processor.
pub(super) struct PreparedFeed {
    pub(super) border: Border,
    /// Where it is copied to.
    pub(super) own: *mut u8,
    /// The values that are names for it, if only kernels meet them: those look up where values lie
    /// in every call, and write to none that they are given.
    pub(super) names: Vec<ValueId>,
}

impl PreparedFeed {
    /// Makes the slice of a call's array known.
    ///
    /// # Safety
    ///
    /// The array is alive until the call ends, of the dtype and rank, and contains the slice, as does
    /// the part of it that is there; nobody writes to it. The values are this processor's.
    pub(super) unsafe fn take(&self, array: &Global, memory: &mut Memory) {
        let there = self.border.as_is(array).filter(|_| !self.names.is_empty());
        let pointer = there.unwrap_or(self.own);
        if there.is_none() {
            // SAFETY: `array` is as long as the slot's global shape, and the own value as its
            // slice, as `take` requires.
            unsafe { self.border.cut(array, self.own) };
        }
        self.names.iter().for_each(|name| memory.pointers[name.index()] = pointer);
    }
}

/// Bytes that are copied as they are.
pub(super) struct Stretch {
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
    pub(super) bytes: usize,
}

/// What is carried into the first iteration of a loop: values of the block that the loop stands in.
pub(super) struct Entry {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: usize,
}

impl Stretch {
    /// # Safety
    ///
    /// Both are good for the bytes, and apart or one.
    pub(super) unsafe fn copy(&self) {
        if self.from != self.to.cast_const() {
            // SAFETY: `from` and `to` are good for `bytes`, and apart, as `copy` requires.
            unsafe { std::ptr::copy_nonoverlapping(self.from, self.to, self.bytes) };
        }
    }
}

/// A value of the body, and what it stands for.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) value: usize,
    pub(super) bytes: usize,
    /// The value of the block around it: where that lies, the loop has it at position 0.
    pub(super) outer: usize,
    /// Bytes from one position to the next; 0 for what is no slice and is not stacked.
    pub(super) stride: usize,
}

impl Part {
    /// Where the loop has it at a position.
    pub(super) fn at(&self, outer: &Memory, position: usize) -> *mut u8 {
        outer.pointers[self.outer].wrapping_add(position * self.stride)
    }
}

/// A prepared loop. What is carried lives in the loop's outs.
///
/// A value of the body lies either where the loop has it, which for slices and stacks is another
/// place in every iteration, or in the body's own memory. So whatever copies between the two looks up
/// in every iteration where the value lies. A loop in a loop's body may be given what moves there, so it
/// looks that up in every run.
pub(super) struct PreparedLoop {
    /// With the step of the body each comes from.
    pub(super) actions: Vec<(usize, Action)>,
    pub(super) memory: Memory,
    pub(super) count: usize,
    pub(super) reverse: bool,
    /// The value of the block around it that says whether there is a first iteration, and the body's that says
    /// whether there is another: bools.
    pub(super) condition: Option<(usize, usize)>,
    pub(super) position: *mut i32,
    pub(super) first: Vec<Entry>,
    /// Values that lie where the loop has them, in the same place in all iterations of a run.
    pub(super) staying: Vec<Part>,
    /// Values that lie where the loop has them, and that is elsewhere in every iteration.
    pub(super) moving: Vec<Part>,
    /// Slices that are asked for one iteration ahead.
    pub(super) coming: Vec<Part>,
    /// What an iteration is given in the body's own memory.
    pub(super) given: Vec<Part>,
    /// What an iteration leaves elsewhere than where the loop has it: first what is stacked, then what is
    /// carried on.
    pub(super) left: Vec<Part>,
}

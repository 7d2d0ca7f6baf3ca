//! Feeds. One whose slice lies in the caller's array as the program wants it is read there; others
//! are copied.
#![allow(unsafe_code, reason = "reads callers' arrays")]

use super::border::{Border, Global};
use super::cpu::Memory;
use super::prepare::Preparing;
use crate::program::{Form, ValueId};

/// A feed of one processor.
pub(super) struct Fed {
    pub(super) border: Border,
    /// Where it is copied to.
    pub(super) own: *mut u8,
    /// The values that are names for it, if only kernels meet them: those look up where values lie
    /// in every call, and write to none that they are given.
    pub(super) names: Vec<ValueId>,
}

impl Fed {
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
            // SAFETY: the caller's promise.
            unsafe { self.border.cut(array, self.own) };
        }
        self.names.iter().for_each(|name| memory.pointers[name.index()] = pointer);
    }
}

impl Preparing<'_> {
    /// The names of a feed, if it may lie in the caller's array.
    pub(super) fn names(&self, feed: ValueId) -> Vec<ValueId> {
        let mut names = vec![feed];
        let own = self.at(feed);
        for step in &self.block.steps {
            let met: Vec<bool> = step.reads().map(|input| names.contains(&input)).collect();
            if !met.contains(&true) {
                continue;
            }
            let is_kernel = !matches!(step.form, Form::Loop(_)) && step.axes().is_none();
            if !is_kernel || step.form.has_effect() {
                return Vec::new();
            }
            if step.form.renames() {
                let made = step.outs.iter().zip(met);
                let made = made.filter(|(out, met)| *met && self.at(**out) == own);
                names.extend(made.map(|(out, _)| *out));
            }
        }
        let is_fetched = self.block.results.iter().any(|result| names.contains(result));
        if is_fetched { Vec::new() } else { names }
    }
}

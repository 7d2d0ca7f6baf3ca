//! Name scopes, and random numbers that are keyed by names.

use super::apply::Asked;
use super::data::{Graph, OpKind, Tensor};
use super::op::Op;
use std::sync::Arc;

/// A name scope, open until dropped.
#[derive(Debug)]
pub struct Scope<'g> {
    graph: &'g Graph,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.graph.data.borrow_mut().names.scopes.pop();
    }
}

impl Graph {
    /// Applies an op one of whose attributes is the hash of the operation's unique name: random
    /// numbers are keyed by it, so that no two operations share theirs, while a copy of the op
    /// repeats them.
    #[track_caller]
    pub fn apply_keyed<'g, O: Op>(
        &'g self,
        name: &str,
        op: impl FnOnce(u64) -> O,
        inputs: &[Tensor<'g>],
    ) -> Tensor<'g> {
        let full = self.data().names.next(name);
        let op = op(crate::names::stable_hash(&full));
        let op = OpKind::Open(Arc::new(op));
        self.apply_as(op, inputs, 1, Asked::default().named(full)).outputs[0]
    }

    /// What makes random numbers fresh whenever an operation runs: scalars of i32 that differ
    /// between calls that train ([`step`](Self::step)), and between the iterations of the loops that
    /// the operation stands in. Inputs of every random op.
    #[track_caller]
    pub fn iteration_salts(&self) -> Vec<Tensor<'_>> {
        let step = self.step();
        let positions = self.positions();
        std::iter::once(step).chain(positions).collect()
    }

    /// Names made while the returned scope lives begin with `name/`.
    ///
    /// A name that is used again gets a number, so that two layers never share names.
    #[must_use = "the scope ends when this value is dropped"]
    pub fn scope(&self, name: &str) -> Scope<'_> {
        let names = &mut self.data.borrow_mut().names;
        let around = names.scoped("").len();
        let own = names.unique(name).split_off(around);
        names.scopes.push(own);
        Scope { graph: self }
    }
}

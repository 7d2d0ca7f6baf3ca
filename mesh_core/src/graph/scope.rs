//! Name scopes, and random numbers that are keyed by names.

use super::apply::Asked;
use super::data::{Graph, OpKind, Tensor};
use super::op::Op;
use super::types::TensorType;
use crate::names::{DType, Shape};
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

/// A choice of what random numbers depend on, in force until dropped; see [`Graph::salted`].
#[derive(Debug)]
pub struct Salted<'g> {
    graph: &'g Graph,
}

impl Drop for Salted<'_> {
    fn drop(&mut self) {
        self.graph.data.borrow_mut().salts.pop();
    }
}

/// A choice of what counts as the step, in force until dropped; see [`Graph::stepped`].
#[derive(Debug)]
pub struct Stepped<'g> {
    graph: &'g Graph,
}

impl Drop for Stepped<'_> {
    fn drop(&mut self) {
        self.graph.data.borrow_mut().steps.pop();
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

    /// The hash of a unique name, for an op that draws random numbers among other things: what
    /// [`apply_keyed`](Self::apply_keyed) would give an op of this name. The operation has another name.
    ///
    /// ```
    /// # use mesh_core::graph::Graph;
    /// # fn doc(g: &Graph) {
    /// assert_ne!(g.random_key("random_uniform"), g.random_key("random_uniform"));
    /// # }
    /// ```
    pub fn random_key(&self, name: &str) -> u64 {
        crate::names::stable_hash(&self.data.borrow_mut().names.unique(name))
    }

    /// What makes random numbers fresh whenever an operation runs: scalars of i32 that are mixed into
    /// their keys. They are the [step](Self::step), which differs between calls that train, or what
    /// [`salted`](Self::salted) has put in its place, and the positions of the iterations of the loops
    /// that the operation stands in. Inputs of every random op.
    #[track_caller]
    pub fn iteration_salts(&self) -> Vec<Tensor<'_>> {
        let chosen = self.data().salts.clone();
        let chosen = match &chosen[..] {
            [] => vec![self.step()],
            some => some.iter().map(|&id| Tensor::new(self, id)).collect(),
        };
        chosen.into_iter().chain(self.positions()).collect()
    }

    /// Random numbers of operations that are made while the returned value lives depend on `salt`, a
    /// scalar of i32, instead of the [step](Self::step). Within another such value they depend on
    /// both.
    ///
    /// By default a call repeats the numbers of the previous call unless that call has trained. Choose
    /// something else for functions that draw and do not train:
    ///
    /// * a variable that the function increases: every call draws anew, and a checkpoint has the
    ///   variable;
    /// * an input: equal seeds give equal draws, whatever was called before;
    /// * a constant: every call draws the same, in training too;
    /// * the step and one of these, one within the other.
    ///
    /// ```
    /// # use mesh_core::{graph::{Graph, Initializer, Tensor}, names::DType};
    /// # fn doc<'g>(g: &'g Graph, noise: impl Fn() -> Tensor<'g>) {
    /// let calls = g.state("calls", [], DType::I32, Initializer::ZEROS);
    /// let drawn = {
    ///     let _salt = g.salted(calls.value());
    ///     noise()
    /// };
    /// let one = g.scalar(1.0, DType::I32);
    /// g.function("draw", [], [drawn], [calls.assign_add(one)]);
    /// # }
    /// ```
    #[must_use = "the salt counts until this value is dropped"]
    #[track_caller]
    pub fn salted<'g>(&'g self, salt: Tensor<'g>) -> Salted<'g> {
        let salt = self.counter("salted", "a salt", salt);
        self.data.borrow_mut().salts.push(salt.id());
        Salted { graph: self }
    }

    /// The [step](Self::step) is `step`, a scalar of i32, for what is made while the returned value lives:
    /// schedules count it, and random numbers depend on it.
    ///
    /// An optimizer that is not applied in every call counts so the calls in which it is.
    ///
    /// ```
    /// # use mesh_core::{graph::{Graph, Initializer}, names::DType};
    /// # fn doc<'g>(g: &'g Graph) {
    /// let applied = g.state("applied", [], DType::I32, Initializer::ZEROS);
    /// let step = {
    ///     let _step = g.stepped(applied.value());
    ///     g.step()
    /// };
    /// assert_eq!(step.id(), applied.value().id());
    /// # }
    /// ```
    #[must_use = "the step counts until this value is dropped"]
    #[track_caller]
    pub fn stepped<'g>(&'g self, step: Tensor<'g>) -> Stepped<'g> {
        let step = self.counter("stepped", "a step", step);
        self.data.borrow_mut().steps.push(step.id());
        Stepped { graph: self }
    }

    /// A scalar of i32 of this graph; anything else is recorded.
    #[track_caller]
    fn counter<'g>(&'g self, subject: &str, what: &str, given: Tensor<'g>) -> Tensor<'g> {
        let legal = TensorType::new(Shape::scalar(), DType::I32);
        let problem = if std::ptr::eq(given.graph(), self) {
            let ty = given.tensor_type();
            let fits = given.is_poisoned() || ty == legal;
            (!fits).then(|| format!("{what} is a scalar of i32, not {ty}"))
        } else {
            Some("the tensor belongs to another graph".to_owned())
        };
        match problem {
            Some(problem) => {
                self.record(subject, problem);
                self.poison()
            }
            None => given,
        }
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

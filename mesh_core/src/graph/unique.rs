//! Unique names and name scopes.

use super::{Asked, Graph, Op, Tensor};
use indexmap::IndexMap;

/// Names in use, compared without case, as in TensorFlow: a, a_1, a_2.
#[derive(Default)]
pub(super) struct Names {
    /// Lower-case name to the next suffix to try.
    used: IndexMap<String, usize>,
    scopes: Vec<String>,
}

impl Names {
    /// `name` under the current scopes, with a number if it is taken.
    pub(super) fn unique(&mut self, name: &str) -> String {
        self.unique_full(self.scoped(name))
    }

    /// `full`, whatever the scopes, with a number if it is taken.
    pub(super) fn unique_full(&mut self, full: String) -> String {
        let (number, free) = self.free(&full);
        if number > 0 {
            self.used.insert(full.to_lowercase(), number + 1);
        }
        self.used.insert(free.to_lowercase(), 1);
        free
    }

    /// `full` with the first number that makes it a new name; 0 if it needs none.
    fn free(&self, full: &str) -> (usize, String) {
        let Some(next) = self.used.get(&full.to_lowercase()).copied() else {
            return (0, full.to_owned());
        };
        (next..)
            .map(|number| (number, format!("{full}_{number}")))
            .find(|(_, candidate)| !self.used.contains_key(&candidate.to_lowercase()))
            .unwrap_or((next, full.to_owned()))
    }

    /// What [`unique`](Self::unique) will make of `name`.
    fn next(&self, name: &str) -> String {
        self.free(&self.scoped(name)).1
    }

    /// `name` under the current scopes.
    pub(super) fn scoped(&self, name: &str) -> String {
        if self.scopes.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.scopes.join("/"))
        }
    }
}

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
        self.apply_as(op, inputs, 1, Asked::default().named(full))[0]
    }

    /// What makes random numbers fresh whenever an operation runs: scalars of i32 that differ
    /// between calls that train ([`step`](Self::step)), and between the rounds of the loops that the
    /// operation stands in. Inputs of every random op.
    #[track_caller]
    pub fn rounds(&self) -> Vec<Tensor<'_>> {
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
        let full = names.unique(name);
        let own = full.rsplit('/').next().unwrap_or(name).to_owned();
        names.scopes.push(own);
        Scope { graph: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_unique_as_in_mesh_tensorflow() {
        let mut names = Names::default();
        let got: Vec<_> = ["a", "a", "a", "a_1", "A"].map(|n| names.unique(n)).to_vec();
        assert_eq!(got, ["a", "a_1", "a_2", "a_1_1", "A_3"]);
        assert_eq!([names.next("a"), names.unique("a")], ["a_4", "a_4"]);
        assert_eq!([names.next("b"), names.unique("b")], ["b", "b"]);
    }
}

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
        let lower = full.to_lowercase();
        let Some((number, numbered)) = self.free(&lower) else {
            self.used.insert(lower, 1);
            return full;
        };
        self.used.insert(numbered, 1);
        self.used.insert(lower, number + 1);
        format!("{full}_{number}")
    }

    /// The first number that makes a name new, and the name with it; none if it is new.
    fn free(&self, lower: &str) -> Option<(usize, String)> {
        let next = *self.used.get(lower)?;
        let mut numbered = (next..).map(|number| (number, format!("{lower}_{number}")));
        numbered.find(|(_, name)| !self.used.contains_key(name))
    }

    /// What [`unique`](Self::unique) will make of `name`.
    fn next(&self, name: &str) -> String {
        let full = self.scoped(name);
        let number = self.free(&full.to_lowercase());
        number.map_or_else(|| full.clone(), |(number, _)| format!("{full}_{number}"))
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

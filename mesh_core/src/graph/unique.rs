//! Unique names and name scopes.

use super::Graph;
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
        let key = full.to_lowercase();
        let Some(next) = self.used.get(&key).copied() else {
            self.used.insert(key, 1);
            return full;
        };
        let (number, candidate) = (next..)
            .map(|number| (number, format!("{full}_{number}")))
            .find(|(_, candidate)| !self.used.contains_key(&candidate.to_lowercase()))
            .unwrap_or((next, full.clone()));
        self.used.insert(key, number + 1);
        self.used.insert(candidate.to_lowercase(), 1);
        candidate
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
    }
}

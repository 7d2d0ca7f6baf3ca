//! Unique names.

use indexmap::IndexMap;

/// Names in use, compared without case, as in TensorFlow: a, a_1, a_2.
#[derive(Default)]
pub(super) struct Names {
    /// Lower-case name to the next suffix to try.
    used: IndexMap<String, usize>,
    pub(super) scopes: Vec<String>,
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
    pub(super) fn next(&self, name: &str) -> String {
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

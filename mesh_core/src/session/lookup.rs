//! Finds functions and variables by name or handle.

use super::{Error, Result, Session, VariableSlices};
use crate::graph::Function;

impl Session {
    /// The index of the function that a handle names. The handle must be of this module's graph and
    /// have as many feeds and fetches as the function.
    pub(super) fn called_by<const I: usize, const F: usize>(
        &self,
        function: &Function<I, F>,
    ) -> Result<usize> {
        if function.graph() != self.graph {
            return Err(Error::OtherGraph { function: function.name().to_owned() });
        }
        let declared = self.functions.get(function.name()).copied();
        let later = || Error::NotLowered { function: function.name().to_owned() };
        let index = declared.ok_or_else(later)?;
        let program = &self.programs[index];
        let expected = (program.feeds.len(), program.fetches.len());
        if expected != (I, F) {
            let function = function.name().to_owned();
            return Err(Error::Arity { function, expected, found: (I, F) });
        }
        Ok(index)
    }

    pub(super) fn function(&self, name: &str) -> Result<usize> {
        let index = self.functions.get(name).copied();
        index.ok_or_else(|| Error::unknown("function", name, self.functions()))
    }

    pub(super) fn variable(&self, name: &str) -> Result<(usize, &VariableSlices)> {
        let found = self.variables.get_full(name).map(|(index, _, held)| (index, held));
        found.ok_or_else(|| Error::unknown("variable", name, self.variables()))
    }
}

//! A case on back-ends of the caller's.

use super::case::Case;
use super::graph::Trial;
use super::known::Known;
use super::layouts::some_layouts;
use mesh_core::lower::Module;
use mesh_core::names::Mesh;
use mesh_core::session::{Error, Session};

impl Case {
    /// Checks the case, forward and backward in one function, in sessions that the caller starts: they are to give
    /// what one processor gives on threads, which is compared with the reference first. Runs at most `most` of a mesh's
    /// legal layouts and returns how many. They are an even selection of those that are found in 50 tries for
    /// each, another one for each case; where more are found, the one that splits nothing is not among them.
    ///
    /// ```
    /// use mesh_ops::prelude::*;
    /// use mesh_ops::testing::Case;
    ///
    /// let case = Case::new("relu", |_, x| x[0].relu()).away_from_zero("x", "batch:4;hidden:6", F32);
    /// let checked = case.check_on(&"a:2".parse()?, 2, |module| Session::reference(module, 0))?;
    /// assert_eq!(checked, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What was found first, with the layout.
    pub fn check_on(
        &self,
        mesh: &Mesh,
        most: usize,
        start: impl Fn(&Module) -> Result<Session, Error>,
    ) -> Result<usize, String> {
        let check = || {
            let known = Known::new(self, Trial::in_one(self)?, String::new())?;
            let layouts = some_layouts(&known.trial.graph, mesh, most)?;
            known.on_back_end(mesh, &layouts, most, &start)
        };
        check().map_err(|message| format!("{}: {message}", self.name))
    }
}

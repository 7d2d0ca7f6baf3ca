//! Feeds that lie in the caller's array as the program wants them are read there.

use super::Preparing;
use crate::program::{Form, ValueId};

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

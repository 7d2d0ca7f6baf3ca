//! Who is told of what is legal but hardly meant.

use super::Module;
use crate::graph::Graph;
use std::io::{self, Write};

/// What lowering does with warnings: those recorded while the graph was built, and those about rules
/// and axes of the layout that do nothing.
///
/// Either way [`Graph::warnings`] and [`Module::warnings`] return them.
///
/// ```
/// use mesh_core::lower::{Options, Warnings};
/// // As on all ranks of a job but the first.
/// let options = Options { warnings: Warnings::Keep, ..Options::default() };
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Warnings {
    /// Each text goes once per graph to the logger that the program has installed for the `log`
    /// crate, as `log::warn!`, or to standard error if it has installed none that takes warnings.
    #[default]
    Report,
    /// Nobody is told.
    Keep,
}

/// Reports the warnings of a graph and of its module that have not been reported before.
pub(super) fn report(graph: &Graph, module: &Module) {
    let recorded = graph.warnings().into_iter().map(|issue| issue.to_string());
    let of_layout = module.warnings().iter().map(ToString::to_string);
    recorded.chain(of_layout).filter(|text| graph.is_news(text)).for_each(|text| tell(&text));
}

/// Gives a warning to the program's logger, or to standard error.
pub(crate) fn tell(text: &str) {
    if log::log_enabled!(log::Level::Warn) {
        log::warn!("{text}");
    } else {
        // Who closed standard error does not want to be told.
        let _ = writeln!(io::stderr(), "warning: {text}");
    }
}

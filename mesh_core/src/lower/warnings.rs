//! Where lowering sends its warnings.

use crate::names::launched;
use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Where [`Graph::lower`](crate::graph::Graph::lower) sends what is legal but hardly meant: a rule for a
/// dim that no tensor has, a mesh axis that no rule uses, and what was recorded with
/// [`Graph::warn`](crate::graph::Graph::warn) while the graph was built.
///
/// Each warning is sent once in a process, however often its text is made. Of several processes that a
/// launcher has [started](crate::names::launched), the first one sends. Whatever is chosen, all warnings
/// are in [`Module::warnings`](super::Module::warnings) and
/// [`Graph::warnings`](crate::graph::Graph::warnings).
///
/// ```
/// use mesh_core::lower::{Options, Warnings};
/// let options = Options { warnings: Warnings::Log, ..Options::default() };
/// assert_eq!(Warnings::default(), Warnings::Print);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Warnings {
    /// To standard error, each behind `warning: `. One that cannot be written there is dropped.
    #[default]
    Print,
    /// To the program's logger, through the crate `log`, at level `warn`. Without a logger nobody is told.
    Log,
    /// Nowhere.
    Silent,
}

/// The target of records for a logger.
const TARGET: &str = "mesh_core::lower";

/// What has been sent, and which way.
static SENT: Mutex<Option<HashSet<(Warnings, String)>>> = Mutex::new(None);

impl Warnings {
    /// Sends warnings that were not sent this way before.
    pub(super) fn send(self, warnings: impl Iterator<Item = String>) {
        if self == Self::Silent || launched().is_some_and(|process| process.rank > 0) {
            return;
        }
        for warning in warnings {
            let mut sent = SENT.lock().unwrap_or_else(PoisonError::into_inner);
            if sent.get_or_insert_default().insert((self, warning.clone())) {
                // A logger may lower graphs, too.
                drop(sent);
                self.send_one(&warning);
            }
        }
    }

    fn send_one(self, warning: &str) {
        match self {
            Self::Print => {
                // One write, so that lines of several processes stay whole. Nobody can be told of its
                // failure.
                let _ = io::stderr().write_all(format!("warning: {warning}\n").as_bytes());
            }
            Self::Log => log::warn!(target: TARGET, "{warning}"),
            Self::Silent => {}
        }
    }
}

//! Where an operation comes from.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The user's source line, with a note where other code acted on its behalf.
#[derive(Clone, PartialEq, Debug)]
pub struct Provenance {
    /// The line that asked for the operation.
    pub location: &'static Location<'static>,
    /// For operations made by gradient or optimizer code: on whose account.
    pub note: Option<Arc<str>>,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.location.file(), self.location.line())?;
        if let Some(note) = &self.note {
            write!(f, " ({note})")?;
        }
        Ok(())
    }
}

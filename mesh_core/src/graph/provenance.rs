//! Where an operation comes from.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The user's source line, and what other code did on its behalf.
#[derive(Clone, PartialEq, Debug)]
pub struct Provenance {
    /// The line that asked for the operation.
    pub location: &'static Location<'static>,
    /// For operations made by gradient or optimizer code: what for, such as `gradient`.
    pub note: Option<Arc<str>>,
    /// The operation on whose account, such as the one whose gradient this is a part of.
    pub asker: Option<Arc<Asker>>,
}

/// An operation that others were made for.
#[derive(Clone, PartialEq, Debug)]
pub struct Asker {
    /// Its unique name.
    pub name: String,
    /// Where it comes from.
    pub at: Provenance,
}

impl Provenance {
    /// A line that acts for itself.
    pub(super) fn of(location: &'static Location<'static>) -> Self {
        Self { location, note: None, asker: None }
    }

    /// The line as text: `src/main.rs:17`.
    pub(crate) fn line(&self) -> String {
        format!("{}:{}", self.location.file(), self.location.line())
    }

    /// What it was made for, if other code made it: `gradient of einsum at src/main.rs:12`.
    pub(crate) fn purpose(&self) -> Option<String> {
        let note = self.note.as_ref()?;
        Some(match &self.asker {
            None => note.to_string(),
            Some(asker) => format!("{note} of {} at {}", asker.name, asker.at),
        })
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())?;
        self.purpose().map_or(Ok(()), |purpose| write!(f, " ({purpose})"))
    }
}

//! What is wrong with a graph, and where.

use super::provenance::Provenance;
use std::fmt;

/// Why an op refuses its inputs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpError(String);

impl OpError {
    /// A refusal in words: what is wrong and what would be legal.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The wrong number of inputs.
    pub fn arity(op: &str, expected: usize, got: usize) -> Self {
        Self(format!("{op} takes {expected} inputs, not {got}"))
    }
}

impl From<crate::names::NameError> for OpError {
    fn from(error: crate::names::NameError) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for OpError {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// One thing that is wrong, with the line that asked for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Issue {
    /// Name of the operation, variable or function concerned.
    pub subject: String,
    /// What is wrong and what would be legal.
    pub message: String,
    /// The user's line; `None` for a fault of the mesh or layout string itself.
    pub at: Option<Provenance>,
}

impl Issue {
    /// Whether another issue says the same of the same place.
    pub(super) fn repeats(&self, other: &Self) -> bool {
        let location = |issue: &Self| issue.at.as_ref().map(|at| at.location);
        (&self.subject, &self.message) == (&other.subject, &other.message)
            && location(self) == location(other)
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.message)?;
        if let Some(at) = &self.at {
            write!(f, "\n    at {at}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong, all at once.
#[derive(Clone, PartialEq)]
pub struct Report {
    /// In the order of the graph.
    pub issues: Vec<Issue>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        for (i, issue) in self.issues.iter().take(SHOWN).enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{issue}")?;
        }
        if self.issues.len() > SHOWN {
            write!(f, "\n\n... and {} more", self.issues.len() - SHOWN)?;
        }
        Ok(())
    }
}

/// As `Display`: a report is for people, also out of `main`.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Report {}

impl Report {
    /// A report of one issue without a line.
    pub(crate) fn of(subject: &str, message: impl Into<String>) -> Self {
        Self {
            issues: vec![Issue { subject: subject.to_owned(), message: message.into(), at: None }],
        }
    }
}

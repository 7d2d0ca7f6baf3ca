//! What can be wrong with a configuration.

use std::fmt;

/// Everything that is wrong with a configuration, each with the key it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    problems: Vec<String>,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    pub(super) fn one(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()] }
    }

    /// One line or more for each problem.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

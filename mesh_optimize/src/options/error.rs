//! The error of a configuration.

use std::fmt;

/// All problems of a configuration; each names its key.
///
/// ```
/// let error = mesh_optimize::OptimizerConfig::from_toml("opt_name = 'lion'\nlr = -1\nbeta = 0.9").unwrap_err();
/// assert_eq!(error.problems().len(), 2);
/// assert!(error.problems()[1].starts_with("beta: lion has no such option; "));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    problems: Vec<String>,
}

impl ConfigError {
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    pub(crate) fn one(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()] }
    }

    /// The problems, each of one line or more.
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

//! Regular expressions that are searched for in the names of variables.

use mesh_core::graph::Graph;
use regex_lite::Regex;

/// What is said of a pattern that may be meant as a glob.
const GLOB: &str =
    " (it is searched for in the name: `/kernel$` is found where a glob would be `*/kernel`)";

/// Whether one of `patterns` matches in `name`. A pattern that is no regular expression is an error
/// of `option`.
#[track_caller]
pub(crate) fn found(graph: &Graph, option: &str, patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(graph, option, pattern, name))
}

/// Whether `pattern` matches in `name`.
#[track_caller]
pub(crate) fn matches(graph: &Graph, option: &str, pattern: &str, name: &str) -> bool {
    match Regex::new(pattern) {
        Ok(pattern) => pattern.is_match(name),
        Err(error) => {
            let glob = if pattern.contains('*') { GLOB } else { "" };
            let message = format!("{pattern:?} is no regular expression: {error}{glob}");
            graph.record(option, message);
            false
        }
    }
}

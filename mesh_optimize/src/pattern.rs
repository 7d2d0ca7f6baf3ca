//! Regular expressions that are searched in the names of variables, and errors told once.

use mesh_core::graph::Graph;
use regex_lite::Regex;

/// Whether one of `patterns` is found in `name`; one that is no regular expression is an error of
/// the option it was given to.
#[track_caller]
pub(crate) fn found(graph: &Graph, option: &str, patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(graph, option, pattern, name))
}

/// Whether `pattern` is found in `name`.
#[track_caller]
pub(crate) fn matches(graph: &Graph, option: &str, pattern: &str, name: &str) -> bool {
    match Regex::new(pattern) {
        Ok(pattern) => pattern.is_match(name),
        Err(error) => {
            let message = format!("{pattern:?} is no regular expression: {error}");
            record_once(graph, option, message);
            false
        }
    }
}

/// Records an error, unless it is on record: an option is looked at for each variable.
#[track_caller]
pub(crate) fn record_once(graph: &Graph, subject: &str, message: String) {
    let known =
        |issue: &mesh_core::graph::Issue| issue.subject == subject && issue.message == message;
    if !graph.check().is_err_and(|report| report.issues.iter().any(known)) {
        graph.record(subject, message);
    }
}

//! Where a layout does not fit a graph.

use crate::graph::{Issue, Provenance, Report};
use crate::names::{Layout, Mesh, Rules};
use crate::split::LayoutProblem;
use indexmap::IndexMap;

/// A problem and where it was met.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LayoutIssue {
    /// What is wrong.
    pub(super) problem: LayoutProblem,
    /// Name of the operation.
    pub(super) operation: String,
    /// The tensor concerned, with its dims.
    pub(super) tensor: String,
    /// The user's line.
    pub(super) at: Provenance,
}

/// A layout's rules on a mesh, or what of it does not fit the mesh.
pub(super) fn bind(layout: &Layout, mesh: &Mesh) -> Result<Rules, Report> {
    Rules::bind(layout, mesh).map_err(|errors| Report {
        issues: errors
            .iter()
            .map(|e| Issue { subject: "layout".to_owned(), message: e.to_string(), at: None })
            .collect(),
    })
}

/// Issues as a report: each distinct problem once, with the tensors that met it.
pub(super) fn report(issues: &[LayoutIssue]) -> Vec<Issue> {
    const NAMED: usize = 3;
    let mut problems: IndexMap<&LayoutProblem, Vec<&LayoutIssue>> = IndexMap::new();
    let in_one_tensor: Vec<_> = issues.iter().filter_map(|i| i.problem.in_one_tensor()).collect();
    for issue in issues {
        if !issue.problem.follows_from(&in_one_tensor) {
            problems.entry(&issue.problem).or_default().push(issue);
        }
    }
    let describe = |(problem, met): (&LayoutProblem, Vec<&LayoutIssue>)| {
        let first = met[0];
        let mut message = format!("{problem}\n    in {}", first.tensor);
        let mut tensors = vec![&first.tensor];
        for issue in &met {
            if tensors.len() < NAMED && !tensors.contains(&&issue.tensor) {
                tensors.push(&issue.tensor);
                message.push_str(&format!("\n    also in {}, {}", issue.tensor, issue.at));
            }
        }
        let others = met.iter().filter(|issue| !tensors.contains(&&issue.tensor)).count();
        if others > 0 {
            message.push_str(&format!("\n    and {others} more"));
        }
        Issue { subject: first.operation.clone(), message, at: Some(first.at.clone()) }
    };
    problems.into_iter().map(describe).collect()
}

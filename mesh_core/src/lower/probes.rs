//! Which tensors are shown without a probe in the model: found by name.

use crate::graph::{Data, Issue, Operation, RegionId, Report, Structural, TensorId};
use crate::names::{nearest, suggestion};
use indexmap::IndexSet;

/// How many names an error lists.
const LISTED: usize = 12;

/// The tensors that names or patterns mean; every name that means none is an error.
pub(super) fn find(data: &Data, wanted: &[String]) -> Result<IndexSet<TensorId>, Report> {
    let (mut found, mut issues) = (IndexSet::new(), Vec::new());
    for name in wanted {
        match one(data, name) {
            Ok(tensors) => found.extend(tensors),
            Err(message) => {
                issues.push(Issue { subject: format!("probe {name}"), message, at: None });
            }
        }
    }
    if issues.is_empty() { Ok(found) } else { Err(Report { issues }) }
}

/// Operations and their outputs with the names that those go by.
fn outputs(operation: &Operation) -> impl Iterator<Item = (TensorId, String)> {
    let several = operation.outputs.len() > 1;
    operation.outputs.iter().enumerate().map(move |(i, &tensor)| {
        let name = &operation.name;
        (tensor, if several { format!("{name}.{i}") } else { name.clone() })
    })
}

fn one(data: &Data, wanted: &str) -> Result<Vec<TensorId>, String> {
    let is_meant = |operation: &Operation, name: &str| {
        matches(wanted, &operation.name) || matches(wanted, name)
    };
    let outside = data.region(RegionId::OUTERMOST).operations.iter();
    let outside: Vec<_> = outside.map(|id| &data.operations[id.index()]).collect();
    let meant = |operations: &[&Operation]| -> Vec<TensorId> {
        let all = operations
            .iter()
            .flat_map(|operation| outputs(operation).filter(|(_, name)| is_meant(operation, name)));
        all.map(|(tensor, _)| tensor).collect()
    };
    let computed = needed(data);
    let found = meant(&outside);
    let kept: Vec<_> = found.iter().copied().filter(|t| computed[t.index()]).collect();
    if !kept.is_empty() {
        return Ok(kept);
    }
    if !found.is_empty() {
        return Err("no function computes it".to_owned());
    }
    let in_body = |operation: &&Operation| operation.region != RegionId::OUTERMOST;
    let mut inside = data.operations.iter().filter(in_body);
    if let Some(operation) = inside.find(|operation| matches(wanted, &operation.name)) {
        return Err(in_loop(data, operation));
    }
    let empty = outside.iter().find(|operation| operation.name == wanted);
    if empty.is_some() {
        return Err("the operation makes no tensor; its input can be probed".to_owned());
    }
    let names: Vec<_> =
        outside.iter().flat_map(|operation| outputs(operation)).map(|(_, name)| name).collect();
    let whole = outside.iter().map(|operation| operation.name.as_str());
    let nearest = nearest(wanted, names.iter().map(String::as_str).chain(whole));
    let hint = match &nearest {
        Some(_) => suggestion(&nearest),
        None => format!("; there are {}", list(&names)),
    };
    Err(format!("there is no operation of this name{hint}"))
}

/// By tensor, whether a function computes it.
fn needed(data: &Data) -> Vec<bool> {
    let mut needed = vec![false; data.tensors.len()];
    let operations = data.functions.values().flat_map(|function| data.reachable(function));
    for id in operations {
        for tensor in &data.operations[id.index()].outputs {
            needed[tensor.index()] = true;
        }
    }
    needed
}

fn in_loop(data: &Data, operation: &Operation) -> String {
    let runs_it = |other: &&Operation| matches!(other.structural(), Some(Structural::Loop(run)) if run.region == operation.region);
    let around = data.operations.iter().find(runs_it);
    let gives = around.map(|around| outputs(around).map(|(_, name)| name));
    let gives: Vec<_> = gives.into_iter().flatten().collect();
    format!(
        "it is made at {} in a loop's body, anew in every iteration; what can be probed is what the \
         loop gives: {}. Return it from the body to see it",
        operation.at,
        list(&gives)
    )
}

fn list(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(LISTED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    if shown.is_empty() { "nothing".to_owned() } else { format!("{}{more}", shown.join(", ")) }
}

/// Whether a pattern, in which `*` stands for anything, is a name.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let Some(last) = parts.pop() else { return true };
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        let name = "encoder/layer_1/dense";
        let met = ["*", name, "encoder/*", "*dense", "*layer_*", "e*l*/d*e", "**", "*1*"];
        assert!(met.iter().all(|pattern| matches(pattern, name)));
        let others =
            ["", "encoder", "dense", "*layer", "*2*", "dense*", "*dense*layer*", "*dense*dense"];
        assert!(!others.iter().any(|pattern| matches(pattern, name)));
    }
}

//! What graphs and programs tell about an op.

use super::Entry;
use mesh_core::graph::{DynOp, Graph, Kind, OperationView, Signature, TensorType};
use mesh_core::names::{DimName, Layout, Mesh};
use mesh_core::split::{Collective, Linearity, Role};
use mesh_ops::prelude::*;
use mesh_ops::testing::{Room, dim_names, legal_layouts};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The rule of one operation.
pub struct Rule {
    pub op: Arc<dyn DynOp>,
    pub inputs: usize,
    pub roles: Vec<(DimName, Role)>,
    pub linearity: Linearity,
    pub linear: Vec<Vec<usize>>,
}

/// The effect of splitting one dim alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    Free,
    /// The collectives, each with its number.
    Sends(String),
    /// A part of it has an odd size.
    Odd,
    Whole,
}

pub struct Facts {
    /// Dims in and out: `[p, q] -> [p]`.
    pub signature: String,
    pub rules: Vec<Rule>,
    /// For each float input and variable whether it has a gradient; empty if no output is of floats.
    pub gradient: Vec<bool>,
    /// Every collective under any legal layout on one axis.
    pub collectives: BTreeSet<String>,
}

/// What splitting each dim alone leads to.
pub struct Splits {
    pub outcomes: Vec<(DimName, Outcome)>,
    /// Why dims are whole, as errors say.
    pub reasons: BTreeSet<String>,
}

/// Sizes are even, so that every dim could be halved.
pub fn splits(entry: &Entry) -> Splits {
    let g = mesh_ops::graph();
    let made = (entry.build)(&g);
    g.declare_function("f", &made.inputs, &made.outputs, Vec::new());
    let mut reasons = BTreeSet::new();
    let mut split = |dim| (dim, outcome(&g, &halves(), dim, &mut reasons));
    Splits { outcomes: dim_names(&g).into_iter().map(&mut split).collect(), reasons }
}

impl Splits {
    /// `q: all_reduce; k whole; others free`.
    pub fn text(&self) -> String {
        let mut groups: BTreeMap<&Outcome, Vec<String>> = BTreeMap::new();
        for (dim, outcome) in &self.outcomes {
            groups.entry(outcome).or_default().push(dim.to_string());
        }
        let free = groups.remove(&Outcome::Free);
        let text = |(outcome, dims): (&Outcome, Vec<String>)| match outcome {
            Outcome::Sends(what) => format!("{}: {what}", dims.join(", ")),
            Outcome::Odd => format!("{}: odd", dims.join(", ")),
            _ => format!("{}: whole", dims.join(", ")),
        };
        let mut texts: Vec<_> = groups.into_iter().map(text).collect();
        match free {
            Some(_) if texts.is_empty() => texts.push("free".to_owned()),
            Some(_) => texts.push("others free".to_owned()),
            None => {}
        }
        if texts.is_empty() { "no dims".to_owned() } else { texts.join("; ") }
    }
}

fn halves() -> Mesh {
    "a:2".parse().unwrap()
}

pub fn facts(entry: &Entry) -> Facts {
    let g = mesh_ops::graph();
    let made = (entry.build)(&g);
    let rules = g.operations().into_iter().filter(|o| matches!(o.kind, Kind::Other));
    let rules = rules.map(|operation| rule(&g, &operation)).collect();
    let dims = |tensors: &[Tensor<'_>]| {
        let dims = |t: &Tensor<'_>| {
            let names: Vec<_> = t.shape().names().map(|name| name.to_string()).collect();
            format!("[{}]", names.join(", "))
        };
        tensors.iter().map(dims).collect::<Vec<_>>().join(", ")
    };
    let signature = format!("{} -> {}", dims(&made.inputs), dims(&made.outputs));
    g.declare_function("f", &made.inputs, &made.outputs, Vec::new());
    g.check().unwrap_or_else(|report| panic!("{}: {report}", entry.name));
    let legal = legal_layouts(&g, &halves()).unwrap().legal;
    let sent = |layout| sent(&g.lower(&halves(), layout).unwrap()).into_keys();
    let collectives = legal.iter().flat_map(sent).collect();
    Facts {
        signature: signature.trim_start_matches(" -> ").to_owned(),
        rules,
        gradient: gradient(entry),
        collectives,
    }
}

fn rule(graph: &Graph, operation: &OperationView) -> Rule {
    let types = |ids: &[_]| ids.iter().map(|&t| graph.type_of(t)).collect::<Vec<TensorType>>();
    let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
    let rule = operation.op.split(Signature { inputs: &inputs, outputs: &outputs });
    let mut names: Vec<_> =
        inputs.iter().chain(&outputs).flat_map(|t| t.shape.names().collect::<Vec<_>>()).collect();
    names.sort();
    names.dedup();
    Rule {
        op: operation.op.clone(),
        inputs: inputs.len(),
        roles: names.into_iter().map(|name| (name, rule.role(name))).collect(),
        linearity: rule.linearity(),
        linear: rule.linear_sets().iter().map(|set| set.to_vec()).collect(),
    }
}

/// The collectives of a module's only function, counted.
fn sent(module: &Module) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (form, _, _) in module.explain().functions[0].collectives() {
        *found.entry(form.clone()).or_default() += 1;
    }
    found
}

fn outcome(graph: &Graph, mesh: &Mesh, dim: DimName, reasons: &mut BTreeSet<String>) -> Outcome {
    let layout: Layout = format!("{dim}:a").parse().unwrap();
    match graph.lower(mesh, &layout) {
        Ok(module) => {
            let text = |(form, count): (String, usize)| match count {
                1 => form,
                _ => format!("{count} {form}"),
            };
            let sent: Vec<_> = sent(&module).into_iter().map(text).collect();
            if sent.is_empty() { Outcome::Free } else { Outcome::Sends(sent.join(", ")) }
        }
        Err(report) => {
            let text = report.to_string();
            if text.contains("cannot be split over a into 2 equal parts") {
                return Outcome::Odd;
            }
            let reason = text
                .split_once("must be whole here: ")
                .unwrap_or_else(|| panic!("{dim}: {text}"))
                .1;
            reasons.extend(reason.split(';').next().map(str::to_owned));
            Outcome::Whole
        }
    }
}

fn gradient(entry: &Entry) -> Vec<bool> {
    let g = mesh_ops::graph();
    let made = (entry.build)(&g);
    let floats = |tensors: &[Tensor<'_>]| -> Vec<usize> {
        (0..tensors.len()).filter(|&i| tensors[i].dtype().is_float()).collect()
    };
    let ys: Vec<_> = floats(&made.outputs).iter().map(|&i| made.outputs[i].sum_all()).collect();
    if ys.is_empty() {
        return Vec::new();
    }
    let inputs = floats(&made.inputs).into_iter().map(|i| made.inputs[i]);
    let xs: Vec<_> = inputs.chain(g.trainable_variables().into_iter().map(|v| v.value())).collect();
    let found = g.gradients(&ys, &xs, None);
    if g.check().is_err() {
        return vec![false; xs.len()];
    }
    found.iter().map(Option::is_some).collect()
}

impl Facts {
    /// The kinds of roles of dims of a room's ops, in the words of the rooms.
    pub fn kinds(&self, room: &Room) -> BTreeSet<String> {
        let mut kinds = BTreeSet::new();
        for (_, role) in self.of(room).flat_map(|rule| &rule.roles) {
            kinds.extend(words(role));
        }
        kinds
    }

    /// The rules of a room's ops.
    pub fn of<'a>(&'a self, room: &'a Room) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(|rule| room.has(&*rule.op))
    }

    /// `yes`, `none`, or the inputs that have one.
    pub fn gradient_text(&self) -> &'static str {
        if self.gradient.contains(&true) { "yes" } else { "none" }
    }
}

/// A role in the words of the rooms.
fn words(role: &Role) -> Vec<String> {
    let exchange = |collectives: &[Collective]| {
        let name = |collective: &Collective| match collective {
            Collective::Permute => "permute",
            Collective::AllGather => "all-gather",
        };
        let names: Vec<_> = collectives.iter().map(name).collect();
        format!("exchange({})", names.join(", "))
    };
    match role {
        Role::Parallel => vec!["parallel".to_owned()],
        Role::Reduced(kind) => vec![format!("reduced({kind})")],
        Role::Whole(_) => vec!["whole".to_owned()],
        Role::Exchange(collectives) => vec![exchange(collectives)],
        Role::ExchangeReduced(kind, collectives) => {
            vec![exchange(collectives), format!("reduced({kind})")]
        }
    }
}

/// The collectives that a role allows, as programs name them.
pub fn allowed(kinds: &BTreeSet<String>) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for kind in kinds {
        if kind.starts_with("reduced") {
            forms.insert("all_reduce".to_owned());
        }
        if kind.contains("permute") {
            forms.insert("permute".to_owned());
        }
        if kind.contains("all-gather") {
            forms.insert("all_gather".to_owned());
        }
    }
    forms
}

//! Random graphs on random meshes under random legal layouts compute what one processor and what
//! the reference compute.
//!
//! [`exact`] graphs are of whole numbers and agree bit for bit. [`smooth`] ones are of f64 and agree
//! within a bound on rounding that is derived for each tensor, op by op.
//!
//! Some graphs train: a variable loses its gradient and a slot gathers it, under `params/` and
//! `slots/` rules of their own.

mod attended;
mod bounds;
#[cfg(feature = "xla")]
mod devices;
mod exact;
mod handed;
mod large;
mod rearranged;
mod recipe;
mod searched;
mod smooth;

use exact::{INPUT_BOUND, exact};
use mesh_core::graph::{Kind, OperationId, TensorId, TensorType};
use mesh_core::lower::{Module, Target};
use mesh_core::session::{Reference as Interpreter, Session};
use mesh_ops::prelude::*;
use mesh_ops::testing::{
    Dense, Fill, Random, Reference, Tolerance, Values, compare, dim_names, options,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use recipe::{Draw, LARGE, Recipe, SMALL, Sizes, recipes};
use std::collections::BTreeMap;

/// Graphs of each kind, others in each run; ten times as many if `MESH_NIGHTLY` is set, as in `just nightly`.
fn cases() -> u32 {
    if std::env::var_os("MESH_NIGHTLY").is_some() { 5000 } else { 500 }
}

/// Every op occurs among so many.
const DRAWN: u32 = 1000;

/// Graphs of each kind with tensors larger than the caches.
const LARGE_CASES: u32 = 20;

const MESHES: [&str; 7] = ["a:2", "a:3", "a:4", "a:2;b:2", "a:2;b:3", "a:2;b:4", "a:2;b:2;c:2"];

struct Trial {
    graphs: Graphs,
    graph: Graph,
    feeds: Values,
    variables: Values,
}

/// Which graphs are drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Graphs {
    Exact,
    Smooth,
}

impl Graphs {
    fn draw<'g>(self, d: &Draw<'g>) -> Vec<Tensor<'g>> {
        match self {
            Self::Exact => exact::drawn(d),
            Self::Smooth => smooth::drawn(d),
        }
    }

    /// Whether a result can be compared.
    fn keeps(self, graph: &Graph, x: Tensor<'_>) -> bool {
        match self {
            Self::Exact => exact(graph, x.id()),
            Self::Smooth => smooth::errors(graph, &[x.id()])[0].is_some(),
        }
    }

    fn input(self, whole: bool) -> (DType, Fill) {
        match (self, whole) {
            (Self::Smooth, _) => (F64, Fill::Between(-1.0, 1.0)),
            (Self::Exact, true) => (I32, Fill::Integers(-INPUT_BOUND, INPUT_BOUND)),
            (Self::Exact, false) => (F32, Fill::Integers(-INPUT_BOUND, INPUT_BOUND)),
        }
    }
}

fn build(graphs: Graphs, sizes: &'static Sizes, recipe: &Recipe) -> Trial {
    let graph = mesh_ops::graph();
    let mut random = Random::new("random graphs");
    let (mut feeds, mut variables) = (Values::new(), Values::new());
    {
        let (mut inputs, mut fed, mut trained) = (Vec::new(), Vec::new(), None);
        for (i, (mask, whole)) in recipe.inputs.iter().enumerate() {
            let (dtype, fill) = graphs.input(*whole);
            let ty = TensorType::new(sizes.shape(*mask), dtype);
            let value = fill.draw(&ty, &mut random).unwrap();
            if i == 0 && recipe.trains && dtype == F32 {
                let variable = graph.variable("v", &ty.shape, F32, Initializer::ZEROS);
                trained = Some(variable);
                inputs.push(variable.value());
                variables.insert("v".to_owned(), value);
            } else {
                let name = format!("x{i}");
                inputs.push(graph.input(&name, &ty.shape, ty.dtype));
                fed.push(inputs[i]);
                feeds.insert(name, value);
            }
        }
        let mut pool = inputs.clone();
        for pick in &recipe.picks {
            let made = graphs.draw(&Draw::new(&graph, sizes, &pool, pick, recipe.gradients));
            pool.extend(made);
        }
        let mut fetches: Vec<_> = pool.iter().rev().take(3).copied().collect();
        let spread = pool.iter().rev().find_map(|x| large::spread(*x));
        fetches.extend(spread.filter(|spread| graphs.keeps(&graph, *spread)));
        let mut updates = Vec::new();
        let last = pool.iter().rposition(|t| t.dtype().is_float());
        if let (true, Some(last)) = (recipe.gradients, last) {
            let loss = pool[last].sum_all();
            let grads = graph.gradients(&[loss], &inputs, None);
            let kept = |grad: &Tensor<'_>| graphs.keeps(&graph, *grad);
            let of_variable = grads[0].filter(kept);
            fetches.extend(grads.into_iter().flatten().filter(kept));
            if let (Some(v), Some(grad)) = (trained, of_variable) {
                // If the gradient were fetched, its sum would be settled for the fetch.
                fetches.retain(|t| t.id() != grad.id());
                let ty = v.value().tensor_type();
                let slot = v.slot("m", &ty.shape, F32, Initializer::ONES);
                updates.extend([v.assign_sub(grad), slot.assign_add(grad)]);
                variables.insert("v/m".to_owned(), Dense::filled(ty, 1.0));
            }
        }
        graph.declare_function("f", &fed, &fetches, updates);
    }
    graph.check().unwrap();
    if graph.variable_names().iter().any(|name| name == "step") {
        let step = TensorType::new(Shape::scalar(), I32);
        variables.insert("step".to_owned(), Dense::zeros(step));
    }
    Trial { graphs, graph, feeds, variables }
}

/// A legal layout, built rule by rule from as many of the picks as possible.
fn legal_part(graph: &Graph, mesh: &Mesh, picks: &[u8]) -> (String, Module) {
    let (options, (picks, state)) = (options(mesh), picks.split_at(picks.len() - 2));
    let mut rules: Vec<_> = dim_names(graph)
        .into_iter()
        .zip(picks.iter().cycle())
        .map(|(name, &pick)| (name.to_string(), pick))
        .collect();
    if !graph.variable_names().is_empty() {
        rules.extend([("params/*".to_owned(), state[0]), ("slots/*".to_owned(), state[1])]);
    }
    let mut layout = String::new();
    let mut module = graph.lower(mesh, &Layout::default()).unwrap();
    for (target, pick) in rules {
        // The first of a few candidates that is legal.
        for axes in options.iter().cycle().skip(usize::from(pick) % options.len()).take(3) {
            let owner = match pick / 64 {
                0 if target.ends_with('*') && !axes.contains('+') => "@each",
                1 if target.ends_with('*') && !axes.contains('+') => "@1",
                _ => "",
            };
            if axes.is_empty() {
                break;
            }
            let more =
                format!("{layout};{target}:{axes}{owner}").trim_start_matches(';').to_owned();
            if let Ok(lowered) = graph.lower(mesh, &more.parse().unwrap()) {
                (layout, module) = (more, lowered);
                break;
            }
        }
    }
    (layout, module)
}

/// Fetches, then variables, of each back-end: threads, the reference with the module as it is lowered, and
/// with the module as it is compiled for a host.
fn run(module: &Module, trial: &Trial) -> Vec<(&'static str, Vec<Array>)> {
    let compiled = Interpreter::compiled(module, &Target::host(), 0).unwrap();
    let sessions = [
        ("threads", Session::threads(module, 0)),
        ("by reference", Session::reference(module, 0)),
        ("compiled, by reference", Session::on(module, compiled)),
    ];
    sessions.map(|(by, session)| (by, called(session.unwrap(), module, trial))).into()
}

/// What one session makes of a trial: fetches, then variables.
fn called(mut session: Session, module: &Module, trial: &Trial) -> Vec<Array> {
    session.set_replica_check(true).unwrap();
    for (name, value) in &trial.variables {
        session.write(name, &value.to_array().unwrap()).unwrap();
    }
    let slots = module.functions()[0].feeds.iter();
    let fed: Vec<_> =
        slots.map(|s| (s.name.as_str(), trial.feeds[&s.name].to_array().unwrap())).collect();
    let fed: Vec<_> = fed.iter().map(|(name, array)| (*name, array.view())).collect();
    let fetched = session.call_named("f", &fed).unwrap();
    let mut all: Vec<_> = fetched.into_iter().map(|(_, array)| array).collect();
    all.extend(trial.variables.keys().map(|name| session.read(name).unwrap()));
    all
}

fn expected(trial: &Trial) -> Vec<Array> {
    let call = Reference::new(&trial.graph).call("f", &trial.feeds, &trial.variables).unwrap();
    let after = |(name, before)| call.updated.get(name).unwrap_or(before);
    let values = call.fetches.iter().chain(trial.variables.iter().map(after));
    values.map(|value| value.to_array().unwrap()).collect()
}

/// The tolerance of each result.
fn tolerances(trial: &Trial) -> Vec<Tolerance> {
    let fetches = trial.graph.functions()[0].fetches.clone();
    let count = fetches.len() + trial.variables.len();
    match trial.graphs {
        Graphs::Exact => vec![Tolerance::Exact; count],
        Graphs::Smooth => {
            let errors = smooth::errors(&trial.graph, &fetches);
            // Both results may have this error.
            errors.into_iter().map(|e| Tolerance::Within(2.0 * e.unwrap_or(f64::NAN))).collect()
        }
    }
}

/// Compares results with what is wanted.
fn near(got: &[Array], want: &[Array], tolerances: &[Tolerance]) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{} results, not {}", got.len(), want.len()));
    }
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
            return Err(format!("result {i} is {}{:?}", got.dtype(), got.shape()));
        }
        let want: Vec<_> = want.to_f64().iter().copied().collect();
        let tolerance = tolerances.get(i).copied().unwrap_or(Tolerance::Exact);
        compare(got.to_f64(), &want, tolerance).map_err(|m| format!("result {i}: {m}"))?;
    }
    Ok(())
}

fn agree(graphs: Graphs, sizes: &'static Sizes, recipe: &Recipe) -> Result<(), TestCaseError> {
    agrees(&build(graphs, sizes, recipe), recipe.mesh, &recipe.layout)
}

/// Checks that one processor, and those of a mesh under a layout, compute what the reference
/// computes.
fn agrees(trial: &Trial, mesh: u8, layout: &[u8]) -> Result<(), TestCaseError> {
    let (want, tolerances) = (expected(trial), tolerances(trial));
    let compared = |results: &[(&str, Vec<Array>)], what: &str| {
        for (by, got) in results {
            let result = near(got, &want, &tolerances);
            prop_assert!(result.is_ok(), "{}, {}: {:?}", what, by, result);
        }
        Ok(())
    };
    let alone = run(&trial.graph.lower(&Mesh::single(), &Layout::default()).unwrap(), trial);
    compared(&alone, "one processor and the reference")?;
    let mesh: Mesh = MESHES[usize::from(mesh) % MESHES.len()].parse().unwrap();
    let (layout, module) = legal_part(&trial.graph, &mesh, layout);
    compared(&run(&module, trial), &format!("mesh {mesh} layout {layout}"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn layouts_change_no_bit(recipe in recipes(&SMALL)) {
        agree(Graphs::Exact, &SMALL, &recipe)?;
    }

    #[test]
    fn layouts_change_no_more_than_rounding(recipe in recipes(&SMALL)) {
        agree(Graphs::Smooth, &SMALL, &recipe)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: LARGE_CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn layouts_change_no_bit_of_large_tensors(recipe in recipes(&LARGE)) {
        agree(Graphs::Exact, &LARGE, &recipe)?;
    }

    #[test]
    fn layouts_round_large_tensors_alike(recipe in recipes(&LARGE)) {
        agree(Graphs::Smooth, &LARGE, &recipe)?;
    }
}

/// The ops that a function of a graph computes, by name.
fn ops(trial: &Trial) -> Vec<&'static str> {
    let functions = trial.graph.functions();
    let mut needed = functions[0].fetches.clone();
    let operations = trial.graph.operations();
    let is_update = |id: OperationId| functions[0].updates.contains(&id);
    let mut names = Vec::new();
    for operation in operations.iter().rev() {
        let wanted = operation.outputs.iter().any(|t: &TensorId| needed.contains(t));
        if !wanted && !is_update(operation.id) {
            continue;
        }
        needed.extend(&operation.inputs);
        if let Kind::Loop(l) = &operation.kind {
            needed.extend(&l.results);
        }
        names.push(operation.op.name());
    }
    names
}

/// Ops of gradients that no conformance table has by name.
const OF_GRADIENTS: [&str; 9] = [
    "avg_pool_gradient",
    "clip_gradient",
    "conv_filter",
    "extremum_gradient",
    "leaky_relu_gradient",
    "max_pool_count",
    "max_pool_gradient",
    "relu_gradient",
    "select_gradient",
];

/// Parts of `lgamma` and `digamma`, of which no bound of the error is known here: left of 1/2 they have poles.
const UNBOUNDED: [&str; 2] = ["polygamma", "stirling"];

/// Ops of core that move nothing, or that run others.
const OF_CORE: [&str; 4] = ["loop", "recompute", "barrier", "stop_gradient"];

/// Every op of the conformance tables is drawn.
#[test]
fn every_op_is_drawn() {
    let mut drawn: BTreeMap<&str, usize> = BTreeMap::new();
    let mut runner = TestRunner::deterministic();
    for _ in 0..DRAWN {
        let recipe = recipes(&SMALL).new_tree(&mut runner).unwrap().current();
        for graphs in [Graphs::Exact, Graphs::Smooth] {
            let names = ops(&build(graphs, &SMALL, &recipe));
            names.into_iter().for_each(|name| *drawn.entry(name).or_default() += 1);
        }
    }
    println!("{drawn:?}");
    let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/conformance");
    let mut known: Vec<String> =
        OF_GRADIENTS.iter().chain(&OF_CORE).map(ToString::to_string).collect();
    for entry in std::fs::read_dir(tables).unwrap() {
        let table = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines = table.lines().filter(|line| line.starts_with("    ") && line.contains(") -> "));
        known.extend(lines.filter_map(|line| Some(line.trim().split_once('(')?.0.to_owned())));
    }
    let mut missing: Vec<_> =
        known.iter().filter(|name| !drawn.contains_key(name.as_str())).collect();
    missing.retain(|name| !UNBOUNDED.contains(&name.as_str()));
    missing.dedup();
    assert!(known.len() > 50 && missing.is_empty(), "{missing:?}");
}

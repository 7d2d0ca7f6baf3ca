//! The search finds what going through all layouts finds, each lowered as a whole; and prices are those of the
//! lowered programs.

use super::*;
use mesh_core::lower::{Options, Price, Warnings};
use mesh_core::passes::{Level, Machine};
use mesh_optimize::search::{Choice, FindLayout, Found, Objective, Search, SearchError};
use std::collections::BTreeSet;

/// Graphs that are searched, and whose answers are compared.
const SEARCHED: u32 = 40;

/// Graphs of which all layouts are held against the bounds.
const BOUNDED: u32 = 800;

/// The most layouts that are gone through; a graph with more is searched on one axis.
const MOST: usize = 700;

/// Sums of the same terms in another order.
const ROUNDING: f64 = 1e-9;

/// All lists of compute rules: for every dim every ordered list of axes, or none.
fn layouts(graph: &Graph, mesh: &Mesh) -> Vec<String> {
    let options = options(mesh);
    let mut all = vec![String::new()];
    for name in dim_names(graph) {
        let mut more = Vec::new();
        for begun in &all {
            more.push(begun.clone());
            for axes in options.iter().filter(|axes| !axes.is_empty()) {
                more.push(format!("{begun};{name}:{axes}").trim_start_matches(';').to_owned());
            }
        }
        all = more;
    }
    all
}

/// What a search may add for parameters and slots.
fn state(mesh: &Mesh) -> Vec<String> {
    let mut sets = vec![String::new()];
    for axis in mesh.axes() {
        let name = mesh.name(axis);
        sets.extend(
            sets.clone()
                .iter()
                .map(|set| format!("{set}+{name}").trim_start_matches('+').to_owned()),
        );
    }
    let mut all = vec![String::new()];
    for set in sets.iter().filter(|set| !set.is_empty()) {
        all.extend([format!(";slots/*:{set}"), format!(";params/*:{set};slots/*:{set}")]);
    }
    all
}

/// The same with rules for single dims of parameters, each over one axis or none, on a mesh of one axis.
fn single_dims(graph: &Graph, mesh: &Mesh) -> Vec<String> {
    let estimator = graph.estimator("f", mesh, &Machine::host()).unwrap();
    let shapes = estimator.parameters();
    let dims: BTreeSet<_> = shapes.iter().flat_map(|shape| shape.names()).collect();
    let mut sets = vec![Vec::new()];
    for dim in dims.iter().map(ToString::to_string).chain(["*".to_owned()]) {
        let more: Vec<Vec<String>> =
            sets.iter().map(|set| [&set[..], std::slice::from_ref(&dim)].concat()).collect();
        sets.extend(more);
    }
    let rules = |set: &str, dims: &[String]| -> String {
        dims.iter().map(|dim| format!(";{set}/{dim}:a")).collect()
    };
    let mut all = vec![String::new()];
    for dims in sets.iter().filter(|dims| !dims.is_empty()) {
        let slots = rules("slots", dims);
        all.extend([slots.clone(), rules("params", dims) + &slots]);
    }
    all
}

/// The price of a layout by an estimator that knows nothing yet, if lowering takes the layout; its work is that
/// of the lowered program.
fn priced(graph: &Graph, mesh: &Mesh, layout: &str) -> Result<Option<Price>, TestCaseError> {
    let layout: Layout = layout.trim_start_matches(';').parse().unwrap();
    let warnings = Warnings::Keep;
    let bare = Options { passes: Vec::new(), warnings, ..Options::default() };
    let module = graph.lower_with(mesh, &layout, &bare);
    let price = graph.estimator("f", mesh, &Machine::host()).unwrap().price(&layout);
    prop_assert_eq!(module.is_ok(), price.is_ok(), "{} {}", mesh, layout);
    let (Ok(module), Ok(price)) = (module, price) else { return Ok(None) };
    let explain = module.explain();
    prop_assert_eq!(explain.functions[0].total(), price.cost, "{} {}", mesh, layout);
    prop_assert_eq!(module.variable_bytes(), price.variable_bytes);
    Ok(Some(price))
}

/// The first of some meshes on which a graph has few layouts enough; `single`: of those of one axis.
fn mesh_for(graph: &Graph, single: bool) -> Option<Mesh> {
    let meshes = ["a:2;b:4", "a:2;b:2", "a:4", "a:2"].map(|text| text.parse::<Mesh>().unwrap());
    let dims = dim_names(graph).len() as u32;
    let few = |mesh: &Mesh| {
        let split = options(mesh).iter().filter(|axes| !axes.is_empty()).count();
        split.saturating_add(1).saturating_pow(dims) <= MOST
    };
    meshes.into_iter().skip(if single { 2 } else { 0 }).find(few)
}

/// No layout takes less than the bounds that it passed.
fn bounded(graphs: Graphs, recipe: &Recipe) -> Result<(), TestCaseError> {
    let graph = build(graphs, &SMALL, recipe).graph;
    let Some(mesh) = mesh_for(&graph, false) else { return Ok(()) };
    let search = Search { mesh: Some(mesh), every: true, ..Search::new("f", 1, Machine::host()) };
    let certificate = graph.search(&search).unwrap().certificate;
    prop_assert!(certificate.proven, "{certificate:?}");
    Ok(())
}

fn searched(graphs: Graphs, recipe: &Recipe, single: bool) -> Result<(), TestCaseError> {
    let trial = build(graphs, &SMALL, recipe);
    let graph = &trial.graph;
    let Some(mesh) = &mesh_for(graph, single) else { return Ok(()) };
    let mut search = Search { mesh: Some(mesh.clone()), ..Search::new("f", 1, Machine::host()) };
    search.single_dims = single;
    let states = if single { single_dims(graph, mesh) } else { state(mesh) };
    let found = graph.search(&search).unwrap();
    let every = graph.search(&Search { every: true, ..search.clone() }).unwrap();
    let mut legal = Vec::new();
    let by_rule = graph.estimator("f", mesh, &Machine::host()).unwrap().is_by_rule();
    for compute in layouts(graph, mesh) {
        for state in &states {
            match priced(graph, mesh, &format!("{compute}{state}"))? {
                Some(price) => {
                    if by_rule && !single && is_turned(&compute) {
                        let turned = compute.replace("b+a", "a+b");
                        same(&price, &priced(graph, mesh, &format!("{turned}{state}"))?)?;
                    }
                    legal.push((price.seconds(), price.bytes()));
                }
                // No rule for parameters or slots makes it legal.
                None if state.is_empty() => break,
                None => {}
            }
        }
    }
    // Dims that no function needs are not searched.
    prop_assert!(
        every.certificate.priced <= legal.len() as u64,
        "{}: {:?}",
        mesh,
        every.certificate
    );
    for found in [&found, &every] {
        fastest(mesh, found, &legal, usize::MAX)?;
    }
    // Dims that are alike are split alike, which costs no time, but may cost memory.
    let price = |choice: &Choice| (choice.price.seconds(), choice.price.bytes());
    let searched: Vec<_> = every.all.iter().map(price).collect();
    within_memory(graph, &search, mesh, &searched)
}

/// Whether both axes of a mesh stand together, the second first, in every rule that has either.
fn is_turned(compute: &str) -> bool {
    compute.contains("b+a") && compute.split(';').all(|rule| rule.ends_with(":b+a"))
}

/// Of layouts with axes that stand together in another order one is searched.
fn same(price: &Price, other: &Option<Price>) -> Result<(), TestCaseError> {
    let bytes = other.as_ref().map(Price::bytes);
    prop_assert_eq!(Some(price.bytes()), bytes);
    let seconds = other.as_ref().map_or(0.0, Price::seconds);
    prop_assert!((price.seconds() - seconds).abs() <= ROUNDING * seconds);
    Ok(())
}

/// The search's answer is the fastest of these layouts that has so little memory.
fn fastest(
    mesh: &Mesh,
    found: &Found,
    layouts: &[(f64, usize)],
    memory: usize,
) -> Result<(), TestCaseError> {
    let fit = layouts.iter().filter(|(_, bytes)| *bytes <= memory);
    let least = fit.map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
    let apart = (found.best.price.seconds() - least).abs();
    prop_assert!(apart <= ROUNDING * least, "{}: {} is not {least}", mesh, found.best);
    prop_assert!(found.certificate.proven, "{}: {:?}", mesh, found.certificate);
    Ok(())
}

/// With less memory the answer is the fastest that fits; the smallest is found, and bounded where nothing fits.
fn within_memory(
    graph: &Graph,
    search: &Search,
    mesh: &Mesh,
    layouts: &[(f64, usize)],
) -> Result<(), TestCaseError> {
    let mut sizes: Vec<_> = layouts.iter().map(|(_, bytes)| *bytes).collect();
    sizes.sort_unstable();
    for memory in [sizes[0], sizes[sizes.len() / 3]] {
        let short = Search { memory: Some(memory as u64), ..search.clone() };
        fastest(mesh, &graph.search(&short).unwrap(), layouts, memory)?;
    }
    let smallest = Search { objective: Objective::Bytes, ..search.clone() };
    let found = graph.search(&smallest).unwrap();
    prop_assert_eq!(found.best.price.bytes(), sizes[0], "{}", found.best);
    prop_assert!(found.certificate.proven, "{}: {:?}", mesh, found.certificate);
    if let Some(memory) = (sizes[0] as u64).checked_sub(1) {
        let none = graph.search(&Search { memory: Some(memory), ..search.clone() });
        let Err(SearchError::NothingFits { floor, least, .. }) = none else {
            return Err(TestCaseError::fail(format!("{none:?} fits into {memory} bytes")));
        };
        prop_assert!(memory < floor && floor <= sizes[0] as u64, "{} of {}", floor, sizes[0]);
        prop_assert!(least.price.bytes() >= sizes[0]);
    }
    Ok(())
}

/// What is found over all shapes of a mesh is the fastest of what each of them has, on hosts of four processors.
fn over_shapes(graphs: Graphs, recipe: &Recipe) -> Result<(), TestCaseError> {
    let trial = build(graphs, &SMALL, recipe);
    let mut machine = Machine::host();
    let far = machine.levels[0].clone();
    let near = Level { processors: 4, bandwidth: 8.0 * far.bandwidth, ..far.clone() };
    machine.levels = vec![near, far];
    let search = Search { axes: 3, ..Search::new("f", 8, machine) };
    let found = trial.graph.search(&search).unwrap();
    let mut least = f64::INFINITY;
    for shape in ["a:8", "a:2;b:4", "a:4;b:2", "a:2;b:2;c:2"] {
        let search = Search { mesh: Some(shape.parse().unwrap()), ..search.clone() };
        least = least.min(trial.graph.search(&search).unwrap().best.price.seconds());
    }
    let apart = (found.best.price.seconds() - least).abs();
    prop_assert!(apart <= ROUNDING * least, "{} is not {least}", found.best);
    prop_assert!(found.certificate.proven, "{:?}", found.certificate);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: SEARCHED,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_search_finds_the_best_of_all(
        recipe in recipes(&SMALL),
        whole in any::<bool>(),
        single in prop::bool::weighted(0.2),
    ) {
        searched(if whole { Graphs::Exact } else { Graphs::Smooth }, &recipe, single)?;
    }

    #[test]
    fn the_search_finds_the_best_of_all_shapes(recipe in recipes(&SMALL), whole in any::<bool>()) {
        over_shapes(if whole { Graphs::Exact } else { Graphs::Smooth }, &recipe)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: BOUNDED,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_layout_beats_the_bounds(recipe in recipes(&SMALL), whole in any::<bool>()) {
        bounded(if whole { Graphs::Exact } else { Graphs::Smooth }, &recipe)?;
    }
}

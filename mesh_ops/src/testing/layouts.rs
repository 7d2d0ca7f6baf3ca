//! Every legal layout of a graph on a mesh.

use mesh_core::graph::{Graph, Report};
use mesh_core::lower::{Options, Warnings};
use mesh_core::names::{DimName, Layout, Mesh};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Layouts tried per graph and mesh; beyond that, an even selection.
const TRIED_MOST: usize = 4_000;

/// Layouts tried for each that is to be run, where the others are not counted.
const TRIED_FOR_EACH: usize = 50;

/// What a graph allows on a mesh.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// Layouts tried.
    pub tried: usize,
    /// Whether there were too many to try all.
    pub sampled: bool,
    /// The legal ones; the empty one first.
    pub legal: Vec<Layout>,
}

/// Every ordered list of distinct axes, as layouts write them; the empty list first.
///
/// ```
/// let options = mesh_ops::testing::options(&"a:2;b:2".parse()?);
/// assert_eq!(options, ["", "a", "b", "a+b", "b+a"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn options(mesh: &Mesh) -> Vec<String> {
    let mut lists: Vec<Vec<_>> = vec![Vec::new()];
    let mut next = 0;
    while next < lists.len() {
        let list = lists[next].clone();
        for axis in mesh.axes().filter(|axis| !list.contains(axis)) {
            lists.push(list.iter().copied().chain([axis]).collect());
        }
        next += 1;
    }
    lists.iter().map(|axes| mesh.list(axes)).collect()
}

/// Every dim of a graph's tensors, in the order in which they first occur.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// g.input("x", [dim("p", 4), dim("q", 6)], F32).relu();
/// assert_eq!(mesh_ops::testing::dim_names(&g), ["p".into(), "q".into()]);
/// ```
pub fn dim_names(graph: &Graph) -> Vec<DimName> {
    let mut names = Vec::new();
    for tensor in graph.operations().iter().flat_map(|o| &o.outputs) {
        for name in graph.type_of(*tensor).shape.names() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// All layouts that [`Graph::check_layout`] accepts, dim by dim: a rule that is refused makes every
/// layout with it illegal. None is lowered.
///
/// # Errors
/// If a layout is refused for anything but the layout: that is a fault of the lowering.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("p", 4), dim("q", 5)], F32);
/// g.function("f", [x], [x.relu()], []);
/// let layouts = mesh_ops::testing::legal_layouts(&g, &"a:2".parse()?)?;
/// let legal: Vec<_> = layouts.legal.iter().map(|layout| layout.to_string()).collect();
/// assert_eq!(legal, ["", "p:a"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn legal_layouts(graph: &Graph, mesh: &Mesh) -> Result<Layouts, String> {
    more_layouts(graph, mesh, &[])
}

/// As [`legal_layouts`], of a graph that is part of one of which these layouts are known to be legal:
/// they are not tried.
pub(super) fn more_layouts(
    graph: &Graph,
    mesh: &Mesh,
    known: &[Layout],
) -> Result<Layouts, String> {
    legal_among(graph, mesh, known, TRIED_MOST)
}

/// As [`legal_layouts`], where no more than so many are to be run: some of the others are not looked for.
pub(super) fn some_layouts(graph: &Graph, mesh: &Mesh, most: usize) -> Result<Layouts, String> {
    legal_among(graph, mesh, &[], most.saturating_mul(TRIED_FOR_EACH).min(TRIED_MOST))
}

/// Layouts that are legal among so many that are tried; those that are known are not tried.
fn legal_among(
    graph: &Graph,
    mesh: &Mesh,
    known: &[Layout],
    tries: usize,
) -> Result<Layouts, String> {
    let known: BTreeSet<_> = known.iter().map(Layout::to_string).collect();
    let legal = |text: &str| {
        let layout: Layout = text.parse().map_err(|error| format!("{text}: {error}"))?;
        let accepted = known.contains(text) || accepts(graph, mesh, &layout)?;
        Ok::<_, String>(accepted.then_some(layout))
    };
    let (names, options) = (dim_names(graph), options(mesh));
    let (mut tried, mut sampled) = (1, false);
    let mut found: Vec<_> = legal("")?.into_iter().collect();
    for (done, name) in names.iter().enumerate() {
        let budget = (tries - tried.min(tries)) / (names.len() - done);
        let most = (budget / options.len()).max(1);
        let mut more = Vec::new();
        for i in selection(found.len(), most) {
            for axes in options.iter().filter(|axes| !axes.is_empty()) {
                tried += 1;
                let text = format!("{};{name}:{axes}", found[i]);
                more.extend(legal(text.trim_start_matches(';'))?);
            }
        }
        sampled |= most < found.len();
        found.extend(more);
    }
    Ok(Layouts { tried, sampled, legal: found })
}

/// Whether ops can follow a layout.
pub(super) fn accepts(graph: &Graph, mesh: &Mesh, layout: &Layout) -> Result<bool, String> {
    match graph.check_layout(mesh, layout) {
        Ok(()) => Ok(true),
        Err(report) if *layout != Layout::default() && is_about_the_layout(&report) => Ok(false),
        Err(report) => Err(format!("layout \"{layout}\" on mesh \"{mesh}\": {report}")),
    }
}

/// Whether every layout that is counted is to be run, and derivatives are to be checked element by
/// element: `MESH_LAYOUTS=all`, as `just conformance-full` sets it. Else a selection is.
pub fn all_layouts() -> bool {
    static ALL: LazyLock<bool> =
        LazyLock::new(|| std::env::var("MESH_LAYOUTS").is_ok_and(|layouts| layouts == "all"));
    *ALL
}

/// Nobody is told that most axes of most layouts do nothing.
pub(super) fn quiet() -> Options {
    Options { warnings: Warnings::Keep, ..Options::default() }
}

/// At most `most` of `0..count`, evenly spread; the first among them.
pub(super) fn selection(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let shown = count.min(most);
    (0..shown).map(move |k| k * count / shown)
}

/// Whether all that is wrong is a layout that ops cannot follow.
fn is_about_the_layout(report: &Report) -> bool {
    const PHRASES: [&str; 3] = ["cannot be split over", "are both split over", "must be whole"];
    let illegal = |message: &str| PHRASES.iter().any(|phrase| message.contains(phrase));
    report.issues.iter().all(|issue| issue.at.is_some() && illegal(&issue.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn options_are_ordered_lists() {
        let options = options(&"a:2;b:2".parse().unwrap());
        assert_eq!(options, ["", "a", "b", "a+b", "b+a"]);
    }

    #[test]
    fn every_layout_of_two_dims() {
        let g = crate::graph();
        let x = g.input("x", [dim("p", 4), dim("q", 6)], F32);
        g.function("f", [x], [x.relu()], []);
        let found = |mesh: &str| -> Vec<String> {
            let layouts = legal_layouts(&g, &mesh.parse().unwrap()).unwrap();
            layouts.legal.iter().map(Layout::to_string).collect()
        };
        assert_eq!(found(""), [""]);
        assert_eq!(found("a:2"), ["", "p:a", "q:a"]);
        assert_eq!(found("a:4"), ["", "p:a"]);
        assert_eq!(found("a:3"), ["", "q:a"]);
        assert_eq!(found("a:2;b:2").len(), 1 + 4 + 2 + 2);
    }

    #[test]
    fn selections_are_spread() {
        assert_eq!(selection(10, 4).collect::<Vec<_>>(), [0, 2, 5, 7]);
        assert_eq!(selection(3, 4).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(selection(0, 4).count(), 0);
    }
}

//! Random graphs in which tensors are larger than the caches, so that they are tiled.

use crate::exact::INPUT_BOUND;
use crate::recipe::{LARGE, SMALL, recipes};
use crate::{Graphs, Trial, agrees, build};
use mesh_core::lower::{PassId, Target};
use mesh_core::program::print;
use mesh_ops::prelude::*;
use mesh_ops::testing::{Fill, Random, Values};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The number of graphs of each kind; some of them must be tiled.
const CASES: usize = 12;

/// The number of products whose result has 8 MiB of f64, which no cache holds.
const PRODUCTS: u32 = 3;

/// The spread of the elements of each row, which is computed tile by tile.
pub fn spread(x: Tensor<'_>) -> Option<Tensor<'_>> {
    let row = x.shape().iter().last().filter(|_| x.shape().size() > SMALL.most)?;
    Some((x - x.min([row])).max([row]))
}

/// How many of the drawn graphs are tiled.
fn tiled(graphs: Graphs) -> usize {
    let mut runner = TestRunner::deterministic();
    let is_tiled = |_: &usize| {
        let recipe = recipes(&LARGE).new_tree(&mut runner).unwrap().current();
        let trial = build(graphs, &LARGE, &recipe);
        let module = trial.graph.lower(&Mesh::single(), &Layout::default()).unwrap();
        let loops = |target: &Target| {
            let executable = module.compile(target).unwrap();
            print(&executable.functions[0].program, module.mesh()).matches("loop").count()
        };
        loops(&Target::host()) > loops(&Target::host().without(PassId::Tiles))
    };
    (0..CASES).filter(is_tiled).count()
}

#[test]
fn large_graphs_are_tiled() {
    for graphs in [Graphs::Exact, Graphs::Smooth] {
        let found = tiled(graphs);
        assert!(found * 2 >= CASES, "{found} of {CASES} {graphs:?} graphs are tiled");
    }
}

/// A product of whole numbers, and maps of its result.
fn product(maps: &[u8], kept: bool) -> Trial {
    let graph = mesh_ops::graph();
    let (p, q, r) = (dim("p", 4), dim("q", 1024), dim("r", 1024));
    let mut feeds = Values::new();
    {
        let mut fed = |name: &str, dims: &[Dimension]| {
            let x = graph.input(name, dims.iter().copied(), F64);
            let fill = Fill::Integers(-INPUT_BOUND, INPUT_BOUND);
            let drawn = fill.draw(&x.tensor_type(), &mut Random::new(name)).unwrap();
            feeds.insert(name.to_owned(), drawn);
            x
        };
        let [a, b] = [fed("a", &[p, q]), fed("b", &[p, r])];
        let [rows, columns] = [fed("rows", &[q]), fed("columns", &[r])];
        let product = a.einsum(&[b], [q, r]);
        let mut y = product;
        for map in maps {
            y = match map {
                0 => y + columns,
                1 => y.relu(),
                2 => y * rows,
                3 => columns - y,
                _ => y + product,
            };
        }
        let fetches = [y, y.sum([r]), product];
        let fetches = &fetches[..if kept { 3 } else { 2 }];
        graph.declare_function("f", &[a, b, rows, columns], fetches, Vec::new());
    }
    Trial { graphs: Graphs::Exact, graph, feeds, variables: Values::new() }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: PRODUCTS,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The map after such a product is computed within the product.
    #[test]
    fn maps_behind_large_products(
        maps in prop::collection::vec(0..5_u8, 1..5),
        kept in any::<bool>(),
        mesh in any::<u8>(),
        layout in prop::collection::vec(any::<u8>(), 8),
    ) {
        agrees(&product(&maps, kept), mesh, &layout)?;
    }
}

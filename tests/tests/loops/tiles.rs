//! Loops that tiling makes for tensors larger than the caches, after every op that moves elements.

use mesh_core::lower::{Module, PassId, Target};
use mesh_core::program::print;
use mesh_core::session::Threads;
use mesh_ops::pool::Pool;
use mesh_ops::prelude::*;
use mesh_ops::testing::{Fill, Random, Tolerance, compare};

const ROWS: usize = 512;
const COLUMNS: usize = 256;

/// Sums of about 2^17 terms of magnitude 1 in different orders, each addition rounded to 2^-53 of
/// the sum.
const ORDERS: Tolerance = Tolerance::Within(1e-10);

type Move = for<'g> fn(Tensor<'g>) -> Tensor<'g>;

fn rows() -> Dimension {
    dim("r", ROWS)
}

fn columns() -> Dimension {
    dim("c", COLUMNS)
}

fn every_other<'g>(x: Tensor<'g>, count: usize) -> Tensor<'g> {
    let at = mesh_ops::range(x.graph(), dim("at", count), I32);
    mesh_ops::gather(x, at * x.graph().scalar(2.0, I32), rows())
}

/// Ops that move elements, applied to a tensor of rows and columns before its rows are tiled.
const MOVES: &[(&str, Move)] = &[
    ("nothing", |x| x),
    ("the first rows", |x| x.slice(dim("r", ROWS / 2), 0)),
    ("the last rows", |x| x.slice(dim("r", ROWS / 2), ROWS / 2)),
    ("rows from the middle", |x| x.slice(dim("r", 300), 100)),
    ("the first columns", |x| x.slice(dim("c", COLUMNS - 64), 0)),
    ("a corner", |x| x.slice(dim("r", 384), 0).slice(dim("c", 192), 0)),
    ("zeros behind the rows", |x| x.pad(rows(), 0, 128)),
    ("zeros before the rows", |x| x.pad(rows(), 64, 0)),
    ("zeros around the columns", |x| x.pad(columns(), 32, 32)),
    ("zeros, and away with them", |x| x.pad(rows(), 0, 128).exp().slice(rows(), 0)),
    ("rows behind rows", |x| mesh_ops::concat(x, &[x.slice(dim("r", 256), 0)], "r")),
    ("columns behind columns", |x| mesh_ops::concat(x, &[-x], "c")),
    ("rows shifted", |x| mesh_ops::shift(x, rows(), 3, false)),
    ("rows shifted around", |x| mesh_ops::shift(x, rows(), -5, true)),
    ("columns shifted", |x| mesh_ops::shift(x, columns(), 1, false)),
    ("blocks with their neighbours", |x| {
        let (blocks, inside) = (dim("b", 8), dim("r", ROWS / 8));
        let blocked = mesh_ops::reshape(x, [blocks, inside, columns()]);
        mesh_ops::halo_exchange(blocked, blocks, inside, 4, false)
    }),
    ("every other row, looked up", |x| every_other(x, ROWS / 2)),
    ("every other row", |x| mesh_ops::stride_1d(x, rows(), 2)),
    ("every other column", |x| mesh_ops::stride_1d(x, columns(), 2)),
    ("means of two rows", |x| mesh_ops::pool_1d(x, rows(), 2, mesh_ops::reduce::mean)),
    ("greatest of two rows", |x| mesh_ops::pool::max_pool(x, &Pool::over([("r", 2)]))),
    ("windows of rows", |x| mesh_ops::windows(x, rows(), dim("w", 3), 3, [0, 1])),
    ("columns first", |x| x.transpose([columns(), rows()])),
    ("rows backwards", |x| x.reverse(rows())),
    ("another name", |x| mesh_ops::rename(x.slice(dim("r", 384), 0), dim("r", 384), "rr")),
    ("twice a slice", |x| x.slice(dim("r", 384), 0).tanh().slice(dim("r", 320), 0)),
];

/// Computations that are tiled, of the first and the last dim.
const TILED: &[(&str, Move)] = &[
    ("a sum over all", |x| x.exp().sum_all()),
    ("a sum over the first dim", |x| (x.exp() * 0.5).sum([first(x)])),
    ("softmax", |x| (x.softmax(last(x)) * x).sum([first(x)])),
    ("norm", |x| {
        let centred = x - x.mean_over([last(x)]);
        let norm = centred * (x.variance([last(x)]) + 1e-3).rsqrt();
        mesh_ops::shift(norm, last(x), 1, false).tanh().sum_all()
    }),
];

fn first(x: Tensor<'_>) -> Dimension {
    x.shape().iter().next().unwrap()
}

fn last(x: Tensor<'_>) -> Dimension {
    x.shape().iter().last().unwrap()
}

fn run(module: &Module, target: Target, feeds: &[(&str, Array)]) -> Vec<Array> {
    let threads = Threads::default().target(target);
    let mut session = Session::threads_with(module, 0, &threads).unwrap();
    let feeds: Vec<_> = feeds.iter().map(|(name, array)| (*name, array.view())).collect();
    let found = session.call_named("f", &feeds).unwrap();
    found.into_iter().map(|(_, array)| array).collect()
}

/// Compares the function `f` with tiles and without, on one processor and under each layout that is
/// legal. Returns how many programs have loops.
fn same_with_tiles(
    graph: &Graph,
    feeds: &[(&str, Array)],
    layouts: &[&str],
) -> Result<usize, String> {
    let lower = |mesh: &str, layout: &str| {
        let lowered = graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
        lowered.map_err(|report| report.to_string())
    };
    let host = Target::host();
    let whole = run(&lower("", "")?, host.clone().without(PassId::Tiles), feeds);
    let mut tiled = 0;
    let single = [("", "")];
    let split = layouts.iter().map(|layout| ("a:2", *layout));
    for (mesh, layout) in single.into_iter().chain(split) {
        let module = match lower(mesh, layout) {
            Err(message) if !message.contains("internal error") && !mesh.is_empty() => continue,
            lowered => lowered.map_err(|message| format!("{mesh} {layout}: {message}"))?,
        };
        let executable =
            module.compile(&host).map_err(|fault| format!("{mesh} {layout}: {fault}"))?;
        let text = print(&executable.functions[0].program, module.mesh());
        tiled += usize::from(text.contains("loop"));
        for (i, (got, want)) in run(&module, host.clone(), feeds).iter().zip(&whole).enumerate() {
            let want: Vec<_> = want.to_f64().into_iter().collect();
            compare(got.to_f64(), &want, ORDERS)
                .map_err(|message| format!("{mesh} {layout}: result {i}: {message}"))?;
        }
    }
    Ok(tiled)
}

fn drawn<'n>(x: Tensor<'_>, name: &'n str) -> (&'n str, Array) {
    let drawn = Fill::Between(-1.0, 1.0).draw(&x.tensor_type(), &mut Random::new(name));
    (name, drawn.unwrap().to_array().unwrap())
}

#[test]
fn whatever_is_tiled_may_be_cut_out_of_something_or_moved() {
    let (mut tiled, mut wrong) = (0, Vec::new());
    for (moved, move_it) in MOVES {
        for (name, tile_it) in TILED {
            let g = mesh_ops::graph();
            let input = g.input("x", [rows(), columns()], F64);
            let y = tile_it(move_it(input));
            let dx = g.gradients(&[y.sum_all()], &[input], None)[0].unwrap();
            g.function("f", [input], [y, dx], []);
            match same_with_tiles(&g, &[drawn(input, "x")], &["r:a", "c:a", "b:a"]) {
                Ok(found) => tiled += found,
                Err(message) => wrong.push(format!("{name} of {moved}: {message}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let programs = MOVES.len() * TILED.len();
    assert!(tiled > programs, "only {tiled} programs have tiles, of {programs} on one processor");
}

/// Some tiles of a gradient are slices of an input, unchanged.
#[test]
fn tiles_hand_on_slices() {
    let (m, n, c) = (dim("m", 96), dim("n", 48), dim("c", 768));
    for rows_first in [false, true] {
        let g = mesh_ops::graph();
        let dims = |d: Dimension| if rows_first { [d, c] } else { [c, d] };
        let (v, x) = (g.input("v", dims(m), F64), g.input("x", dims(n), F64));
        let pooled = mesh_ops::pool_1d(v, m, 2, mesh_ops::reduce::mean);
        let sum = mesh_ops::rename(pooled, n.renamed("m"), "n") + x;
        let y = mesh_ops::pool_1d(sum, n, 2, mesh_ops::reduce::max);
        let grads = g.gradients(&[y.square().sum_all()], &[v, x], None);
        g.function("f", [v, x], [y, grads[0].unwrap(), grads[1].unwrap()], []);
        let feeds = [drawn(v, "v"), drawn(x, "x")];
        let layouts = ["n_low:a", "m_low:a", "n_low:a;m_low:a", "n:a;m:a", "c:a"];
        assert!(same_with_tiles(&g, &feeds, &layouts).unwrap() > 1);
    }
}

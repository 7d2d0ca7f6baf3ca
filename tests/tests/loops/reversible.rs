//! Reversible blocks against plain ones: the same numbers, less memory.

use super::{FEW, check};
use mesh_ops::layers::{Dense, Parameters, dense};
use mesh_ops::prelude::*;
use mesh_ops::testing::{Case, Random};
use mesh_optimize::compute_gradients;
use ndarray::ArrayD;
use tests::on_host;

#[test]
fn blocks_under_every_layout() {
    let layers = dim("layers", 2);
    check(
        Case::new("reversible", move |g, x| {
            let [y1, y2] = g.reversible(
                [x[0], x[1]],
                2,
                // What a block reads may be computed from what goes into the first.
                |i, h| (h * x[2] * (i + 1) as f64).tanh() * x[0],
                |_, h| h.sin() * x[2],
            );
            let ([z1, z2], []) = g.scan(layers, [y1, y2], [x[3]], |h, [w]| {
                (g.reversible(h, 2, |_, h| (h * w).tanh(), |_, h| h), [])
            });
            z1 * z2
        })
        .normal("x1", "b:4;d:4", F32)
        .normal("x2", "b:4;d:4", F32)
        .normal("y", "d:4", F32)
        .normal("w", "layers:2;d:4", F32)
        .meshes(FEW),
    );
}

const BLOCKS: usize = 3;

/// `y1 = x1 + f(x2)`, `y2 = x2 + g(y1)`, block by block, with every value kept.
fn plain<'g>(
    [mut x1, mut x2]: [Tensor<'g>; 2],
    f: impl Fn(usize, Tensor<'g>) -> Tensor<'g>,
    g: impl Fn(usize, Tensor<'g>) -> Tensor<'g>,
) -> [Tensor<'g>; 2] {
    for i in 0..BLOCKS {
        x1 = x1 + f(i, x2);
        x2 = x2 + g(i, x1);
    }
    [x1, x2]
}

/// Blocks of dense layers, whose variables they make, one with dropout: results and the gradients of
/// inputs and variables.
fn results(reversible: bool, mesh: &str, layout: &str) -> Vec<ArrayD<f64>> {
    let graph = mesh_ops::graph();
    let (batch, model) = (dim("batch", 4), dim("model", 6));
    let [x1, x2] = ["x1", "x2"].map(|name| graph.input(name, [batch, model], F32));
    let weights = |i: usize| {
        let parameters = Parameters::new(&graph, F32);
        Dense::onto([model]).over([model]).weights(&parameters, &format!("outside{i}"))
    };
    let outside: Vec<_> = (0..BLOCKS).map(weights).collect();
    let f = |i: usize, x| dense(x, model, &format!("f{i}")).tanh();
    let g = |i: usize, x| Dense::onto([model]).over([model]).apply_with(x, &outside[i]);
    let g = |i: usize, x| g(i, x).tanh().dropout(0.5);
    let [y1, y2] = match reversible {
        true => graph.reversible([x1, x2], BLOCKS, f, g),
        false => plain([x1, x2], f, g),
    };
    let loss = (y1 * y2 + y1).sum_all();
    let mut fetches = vec![y1, y2];
    fetches.extend(graph.gradients(&[loss], &[x1, x2], None).into_iter().flatten());
    let variables = graph.trainable_variables();
    assert_eq!(variables.len(), 4 * BLOCKS);
    fetches.extend(compute_gradients(loss, &variables).into_iter().filter_map(|found| found.0));
    assert_eq!(fetches.len(), 4 + 4 * BLOCKS);
    graph.declare_function("f", &[x1, x2], &fetches, Vec::new());
    let module = graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 3).unwrap();
    let mut random = Random::new("reversible");
    let [a, b] =
        [(); 2].map(|()| ArrayD::from_shape_fn(vec![4, 6], |_| random.float(-1.0, 1.0) as f32));
    let found = session.call_named("f", &[("x1", a.view().into()), ("x2", b.view().into())]);
    found.unwrap().iter().map(|(_, value)| value.to_f64().to_owned()).collect()
}

/// Inputs that are computed from outputs differ by roundings of f32 from what they were.
const ROUNDED: f64 = 1e-5;

#[test]
fn values_and_gradients_are_those_of_plain_blocks() {
    let want = results(false, "", "");
    for (mesh, layout) in [("", ""), ("a:2", "batch:a"), ("a:2", "model:a"), ("a:2", "params/*:a")]
    {
        let got = results(true, mesh, layout);
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            let apart = (got - want).iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            assert!(apart < ROUNDED, "result {i} under {layout}: {apart}");
        }
    }
}

/// Bytes of values of a step with so many blocks.
fn arena(blocks: usize, reversible: bool) -> usize {
    let g = mesh_ops::graph();
    let d = dim("d", 4096);
    let [x1, x2] = ["x1", "x2"].map(|name| g.input(name, [d], F32));
    fn f(_: usize, h: Tensor<'_>) -> Tensor<'_> {
        (h.tanh() * h).cumsum(dim("d", 4096)).sin()
    }
    let mut y = [x1, x2];
    if reversible {
        y = g.reversible(y, blocks, f, f);
    } else {
        for i in 0..blocks {
            y[0] = y[0] + f(i, y[1]);
            y[1] = y[1] + f(i, y[0]);
        }
    }
    let dx = g.gradients(&y, &[x1, x2], None);
    let fetches: Vec<_> = dx.into_iter().flatten().collect();
    g.declare_function("f", &[x1, x2], &fetches, Vec::new());
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    on_host(&module)[0].plan.arena_bytes
}

#[test]
fn memory_does_not_grow_with_the_number_of_blocks() {
    assert_eq!(arena(4, true), arena(16, true));
    let (plain, reversible) = (arena(16, false), arena(16, true));
    assert!(reversible * 4 < plain, "{reversible} bytes, {plain} with every value kept");
}

/// What the gradient computes has gradients itself: those of plain blocks.
#[test]
fn gradients_of_gradients() {
    let second = |reversible: bool| {
        let graph = mesh_ops::graph();
        let d = dim("d", 4);
        let [x1, x2, w] = ["x1", "x2", "w"].map(|name| graph.input(name, [d], F32));
        let f = |_: usize, h| mesh_ops::elementwise::mul(h, w).tanh();
        let g = |_: usize, h| mesh_ops::elementwise::sin(h);
        let [y1, y2] = match reversible {
            true => graph.reversible([x1, x2], BLOCKS, f, g),
            false => plain([x1, x2], f, g),
        };
        let first = graph.gradients(&[y1 * y2], &[x1, w], None);
        let first: Vec<_> = first.into_iter().flatten().collect();
        let second = graph.gradients(&[(first[0] * first[1]).sum_all()], &[x1, x2, w], None);
        let second: Vec<_> = second.into_iter().flatten().collect();
        graph.declare_function("f", &[x1, x2, w], &second, Vec::new());
        let module = graph.lower(&Mesh::single(), &Layout::default()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let fed = [0.25f32, 0.5, -0.75].map(|x| ndarray::arr1(&[x, -x, 0.5 * x, 2.0 * x]));
        let fed: Vec<_> = ["x1", "x2", "w"].into_iter().zip(fed.iter().map(|x| x.into())).collect();
        let found = session.call_named("f", &fed).unwrap();
        found.iter().flat_map(|(_, value)| value.to_f64().to_owned()).collect::<Vec<_>>()
    };
    let (got, want) = (second(true), second(false));
    assert_eq!(got.len(), 12);
    for (got, want) in got.iter().zip(&want) {
        assert!((got - want).abs() < ROUNDED * want.abs().max(1.0), "{got} {want}");
    }
}

#[test]
fn a_block_adds_what_is_like_its_input() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("d", 4)], F32);
    let y = g.reversible([x, x], 1, |_, x| x.sum_all(), |_, x| x);
    assert!(y[0].is_poisoned());
    let report = g.check().unwrap_err().to_string();
    assert!(
        report.contains("a block adds f32[] to f32[d:4]; both must be of one type"),
        "{report}"
    );
}

//! Loops whose iterations pass on what they get: slices, captured and carried tensors, in any
//! order.

use super::check;
use mesh_ops::elementwise::less;
use mesh_ops::prelude::*;
use mesh_ops::testing::Case;

const N: usize = 4;
const D: usize = 16;

/// The tensors that an iteration gets.
struct Given<'g> {
    /// Carried.
    p: Tensor<'g>,
    q: Tensor<'g>,
    /// Slices.
    s: Tensor<'g>,
    t: Tensor<'g>,
    /// Captured.
    c: Tensor<'g>,
}

/// The new values of `p` and `q`, and the tensors to be stacked.
type Left<'g> = ([Tensor<'g>; 2], Vec<Tensor<'g>>);
type Body = for<'g> fn(Given<'g>) -> Left<'g>;

fn renamed(x: Tensor<'_>) -> Tensor<'_> {
    mesh_ops::rename(mesh_ops::rename(x, dim("d", D), "e"), dim("e", D), "d")
}

/// Changes the dims and changes them back: the same bytes under another name.
fn reshaped(x: Tensor<'_>) -> Tensor<'_> {
    let square = [dim("d", 4), dim("e", 4)];
    mesh_ops::reshape(mesh_ops::reshape(x, square), [dim("d", D)])
}

fn stopped(x: Tensor<'_>) -> Tensor<'_> {
    x.stop_gradient()
}

const BODIES: &[(&str, Body)] = &[
    ("a slice is stacked", |g| ([g.p + g.s, g.q], vec![g.s])),
    ("two slices are stacked", |g| ([g.p + g.s, g.q * g.t], vec![g.t, g.s])),
    ("a slice is stacked twice", |g| ([g.p + g.s, g.q], vec![g.s, g.s])),
    ("all are stacked", |g| ([g.p + g.s, g.q], vec![g.c, g.q, g.t, g.p, g.s])),
    ("a slice is stacked behind a rename", |g| ([g.p + g.s, g.q], vec![renamed(g.s)])),
    ("a slice is stacked behind a reshape", |g| ([g.p + g.s, g.q], vec![reshaped(g.s), g.s])),
    ("a slice is carried on", |g| ([g.s, g.p], vec![g.q])),
    ("slices are carried on and stacked", |g| ([g.t, g.s], vec![g.s, g.t])),
    ("a renamed slice is carried on", |g| ([renamed(g.s), reshaped(g.t)], vec![g.p])),
    ("two are swapped", |g| ([g.q, g.p], vec![g.p])),
    ("two are swapped, renamed", |g| ([renamed(g.q), renamed(g.p)], vec![])),
    ("two are swapped, reshaped", |g| ([reshaped(g.q), reshaped(g.p)], vec![g.q + g.p])),
    ("one is doubled", |g| ([g.p, g.p], vec![g.q])),
    ("one is computed anew twice", |g| ([g.p * g.s, g.p * g.s], vec![g.p * g.s])),
    ("numbers of Fibonacci", |g| ([g.q, g.p + g.q], vec![g.p])),
    ("a queue", |g| ([g.s, g.p], vec![g.q + g.c])),
    ("a captured one is carried on", |g| ([g.c, g.p], vec![g.p])),
    ("what is the same in all rounds is carried on", |g| ([g.c + g.c, g.p], vec![g.p])),
    ("what is the same in all rounds is stacked", |g| ([g.p + g.s, g.c], vec![g.c + g.c, g.c])),
    ("what a gradient needs", |g| ([g.p * 0.5, g.q], vec![g.s + 1.0])),
];

const STOPPED: &[(&str, Body)] = &[
    ("swapped behind stop_gradient", |g| ([stopped(g.q), stopped(g.p)], vec![])),
    ("slices behind stop_gradient", |g| ([stopped(g.s), g.q], vec![stopped(g.t)])),
    ("captured behind stop_gradient", |g| ([g.q, stopped(g.c)], vec![stopped(g.c), stopped(g.p)])),
];

fn case(name: &str, body: Body) -> Case {
    Case::several(name, move |graph, x| {
        let ([p, q], [s, t], c) = ([x[0], x[1]], [x[2], x[3]], x[4]);
        let (last, stacks) = graph.scan_lists(dim("n", N), &[p, q], &[s, t], |h, x| {
            let (next, stacks) = body(Given { p: h[0], q: h[1], s: x[0], t: x[1], c });
            (next.to_vec(), stacks)
        });
        [last, stacks].concat()
    })
    // Rows of 16 f64, or half of them, fill cache lines: slices and stacks are not copied.
    .normal("p", "d:16", F64)
    .normal("q", "d:16", F64)
    .normal("s", "n:4;d:16", F64)
    .normal("t", "n:4;d:16", F64)
    .normal("c", "d:16", F64)
    .meshes(&["a:2", "a:2;b:2"])
}

#[test]
fn an_iteration_may_pass_on_whatever_it_gets() {
    BODIES.iter().for_each(|(name, body)| check(case(name, *body)));
}

#[test]
fn an_iteration_may_pass_on_what_has_no_gradient() {
    STOPPED.iter().for_each(|(name, body)| check(case(name, *body).without_gradient()));
}

/// In f32, where a row of 16 is a cache line.
#[test]
fn a_stack_of_slices_is_what_was_sliced() {
    let g = mesh_ops::graph();
    let (n, d) = (dim("n", N), dim("d", D));
    let (x, h) = (g.input("x", [n, d], F32), g.input("h", [d], F32));
    let ([_], [s]) = g.scan(n, [h], [x], |[h], [x]| ([h + x], [x]));
    let f = g.function("f", [x, h], [s], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let x = ndarray::Array2::from_shape_fn((N, D), |(i, j)| (i * D + j) as f32);
    let h = ndarray::Array1::<f32>::zeros(D);
    let [s] = session.call(&f, [x.view().into(), h.view().into()]).unwrap();
    assert_eq!(s, Array::from(x));
}

/// Loops that pass tensors on to loops inside and around them.
#[test]
fn loops_hand_on_to_each_other() {
    let (outer, inner) = (dim("outer", 2), dim("inner", 3));
    check(
        Case::several("nested", move |g, x| {
            let ([p, q], [seen]) = g.scan(outer, [x[0], x[1]], [x[2]], |[p, q], [w]| {
                let ([p, q], [seen]) = g.scan(inner, [p, q], [w], |[p, q], [v]| ([q, v], [p]));
                ([q, p], [seen + w])
            });
            vec![p, q, seen]
        })
        .normal("p", "d:16", F64)
        .normal("q", "d:16", F64)
        .normal("w", "outer:2;inner:3;d:16", F64)
        .meshes(&["a:2", "a:2;b:2"]),
    );
}

/// A while loop may carry the same tensor twice.
#[test]
fn a_while_loop_swaps() {
    check(
        Case::several("while", |g, x| {
            let (zero, three) = (g.scalar(0.0, F64), g.scalar(3.0, F64));
            let last = g.while_loop(
                [zero, less(zero, three), x[0], x[1]],
                |[_, go, ..]| go,
                |[i, _, p, q]| [i + 1.0, less(i + 1.0, three), q, p],
            );
            last[2..].to_vec()
        })
        .without_gradient()
        .normal("p", "d:16", F64)
        .normal("q", "d:16", F64)
        .meshes(&["a:2"]),
    );
}

//! One graph for each of the graph's own ops.

use super::{Entry, case, f32s, input, made};
use mesh_ops::prelude::*;

/// Every op with the file that documents it.
pub fn all() -> Vec<(&'static str, Entry)> {
    let (p, q) = (dim("p", 4), dim("q", 6));
    let mut all = vec![
        (
            "sources.rs",
            case("Graph::input", "session/feeds.rs::arrays_may_lie_anywhere", move |g| {
                let x = g.input("x", [p, q], F32);
                made([x], [x])
            }),
        ),
        (
            "sources.rs",
            case("Graph::constant", "constant and fill", move |g| {
                let table = ndarray::Array2::<f32>::zeros((4, 6));
                made([], [g.constant(table, [p, q])])
            }),
        ),
        (
            "sources.rs",
            case("Graph::fill", "constant and fill", move |g| made([], [g.fill(1.0, [p, q], F32)])),
        ),
        (
            "variable.rs",
            case("Variable::value", "a variable's value", move |g| {
                made([], [g.variable("w", [p, q], F32, Initializer::ZEROS).value()])
            }),
        ),
    ];
    all.extend(identities());
    all.extend(blocks());
    all
}

/// Ops that return their input.
fn identities() -> Vec<(&'static str, Entry)> {
    let of_x = |name: &str, proof: &str, build: for<'g> fn(Tensor<'g>) -> Tensor<'g>| {
        case(name, proof, move |g| {
            let x = f32s(g, "x", "p:4;q:6");
            made([x], [build(x)])
        })
    };
    vec![
        ("tensor.rs", of_x("Tensor::relayout", "relayout", |x| x.relayout(x.key().unwrap()))),
        ("tensor.rs", of_x("Tensor::stop_gradient", "stop_gradient", |x| x.stop_gradient())),
        ("custom.rs", of_x("Tensor::depend", "depend", |x| x.depend(&[x.exp()]))),
        (
            "custom.rs",
            of_x("Tensor::probe", "loops/main.rs::probes_show_global_values", |x| x.probe("x")),
        ),
    ]
}

/// Ops that run a body.
fn blocks() -> Vec<(&'static str, Entry)> {
    vec![
        (
            "custom.rs",
            case("Graph::custom_gradient", "custom_gradient", |g| {
                let x = f32s(g, "x", "d:4");
                made([x], g.custom_gradient([x], |[x]| [x * x], |cx| vec![Some(cx.dy())]))
            }),
        ),
        (
            "recompute.rs",
            case("Graph::recompute", "recompute", |g| {
                let x = f32s(g, "x", "d:4");
                made([x], g.recompute([x], |[x]| [x.exp()]))
            }),
        ),
        (
            "reversible.rs",
            case("Graph::reversible", "reversible", |g| {
                let [x1, x2] = ["x1", "x2"].map(|name| f32s(g, name, "d:4"));
                made([x1, x2], g.reversible([x1, x2], 2, |_, x| x.exp(), |_, x| x.sin()))
            }),
        ),
        (
            "loops.rs",
            case("Graph::scan", "scan", |g| {
                let (x, scale) = (f32s(g, "x", "d:4"), f32s(g, "scale", "layers:4"));
                let rounds = dim("layers", 4);
                let ([y], []) = g.scan(rounds, [x], [scale], |[x], [scale]| ([x * scale], []));
                made([x, scale], [y])
            }),
        ),
        (
            "loops.rs",
            case("Graph::sum_over", "sum_over", |g| {
                let x = f32s(g, "x", "parts:4;d:4");
                made([x], g.sum_over(dim("parts", 4), &[x], |x| vec![x[0].exp()]))
            }),
        ),
        (
            "loops.rs",
            case("Graph::while_loop", "while_loop", |g| {
                let (x, n) = (f32s(g, "x", "d:4"), input(g, "n", "", I32));
                let [_, y] = g.while_loop(
                    [n, x],
                    |[n, _]| n.less(n.graph().scalar(9.0, I32)),
                    |[n, x]| [n + n.graph().scalar(1.0, I32), x * 2.0],
                );
                made([x, n], [y])
            }),
        ),
    ]
}

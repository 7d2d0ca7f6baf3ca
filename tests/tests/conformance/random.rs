//! Random ops, products, and ops that take tensors apart and put them together, under every legal
//! layout; tables as in `main.rs`.

use crate::conform;
use mesh_ops::add_n;
use mesh_ops::elementwise::{erf, erfc, expm1, gelu_exact, log1p};
use mesh_ops::layers::{log_softmax_with, logsumexp_with, softmax_with};
use mesh_ops::prelude::*;
use mesh_ops::random::*;
use mesh_ops::reduce::{max, mean, min};
use mesh_ops::testing::{Case, Fill};
use mesh_ops::{pick, pool_1d, split, split_evenly, stack, stride_1d, unstack};

const MATRIX: &str = "p:8;q:12";

/// Few meshes, for ops that have the roles of the first op in their table.
const FEW: &[&str] = &["a:2", "a:3", "a:2;b:2"];

fn p() -> Dimension {
    dim("p", 8)
}

fn q() -> Dimension {
    dim("q", 12)
}

/// The numbers under every layout are those of the definition.
#[test]
fn random_numbers() {
    let case = |name, dtype, build: for<'g> fn(&'g Graph) -> Tensor<'g>| {
        Case::new(name, move |g, x| build(g) + x[0]).input("x", "p:8", dtype, Fill::Integers(0, 0))
    };
    let cases = vec![
        case("uniform", F32, |g| random_uniform(g, [p(), q()], -1.0, 3.0, F32)),
        case("uniform: f64", F64, |g| random_uniform(g, [q(), p()], 0.0, 1.0, F64)).meshes(FEW),
        case("uniform: bf16", BF16, |g| random_uniform(g, [q()], 0.0, 1.0, BF16)).meshes(FEW),
        case("integers", I32, |g| random_integer(g, [p(), q()], -3, 4)).meshes(FEW),
        case("normal", F32, |g| random_normal(g, [p(), q()], 1.0, 2.0, F32)).meshes(FEW),
        case("normal: f64", F64, |g| random_normal(g, [q()], 0.0, 1.0, F64)).meshes(FEW),
        case("truncated normal", F32, |g| random_truncated_normal(g, [p(), q()], 0.0, 0.5, F32))
            .meshes(FEW),
        case("a scalar", F32, |g| random_normal(g, [], 0.0, 1.0, F32)).meshes(FEW),
        case("two of a kind", F32, |g| {
            random_uniform(g, [q()], 0.0, 1.0, F32) - random_uniform(g, [q()], 0.0, 1.0, F32)
        })
        .meshes(FEW),
    ];
    conform("random_numbers", cases);
}

#[test]
fn random_functions() {
    let mut cases = vec![
        Case::new("dropout", |_, x| dropout(x[0], 0.25)).normal("x", MATRIX, F32),
        Case::new("dropout: bf16", |_, x| dropout(x[0], 0.1)).normal("x", MATRIX, BF16).meshes(FEW),
        Case::new("dropout: i32", |_, x| dropout(x[0], 0.5)).integers("x", MATRIX, I32).meshes(FEW),
        Case::new("dropout of whole columns", |_, x| dropout_over(x[0], 0.5, [q()]))
            .exact()
            .integers("x", MATRIX, F32),
        Case::new("dropout of everything or nothing", |_, x| dropout_over(x[0], 0.5, []))
            .exact()
            .integers("x", MATRIX, F32)
            .meshes(FEW),
        Case::new("multiplicative_jitter", |_, x| multiplicative_jitter(x[0], 0.1))
            .normal("x", MATRIX, F32)
            .meshes(FEW),
        Case::new("multiplicative_jitter: bf16", |_, x| multiplicative_jitter(x[0], 0.1))
            .normal("x", MATRIX, BF16)
            .meshes(FEW),
    ];
    for (name, temperature) in [("sample", 0.7), ("sample: cold", 0.0)] {
        cases.push(
            Case::new(name, move |_, x| sample_with_temperature(x[0], q(), temperature))
                .normal("x", MATRIX, F32),
        );
    }
    cases.push(
        Case::new("sample: bf16", |_, x| sample_with_temperature(x[0], q(), 1.0))
            .normal("x", MATRIX, BF16)
            .meshes(FEW),
    );
    conform("random_functions", cases);
}

#[test]
fn smooth_functions_more() {
    type Unary = for<'g> fn(Tensor<'g>) -> Tensor<'g>;
    let all: [(&str, Unary, Fill); 6] = [
        ("expm1", expm1, Fill::Normal),
        ("expm1: small", |x| expm1(x * 1e-6) * 1e6, Fill::Normal),
        ("log1p", log1p, Fill::Between(-0.75, 4.0)),
        ("erf", erf, Fill::Normal),
        ("erfc", erfc, Fill::Normal),
        ("gelu_exact", gelu_exact, Fill::Normal),
    ];
    let case = |(name, function, fill): (&str, Unary, Fill)| {
        let of = |dtype, name: &str, fill| {
            Case::new(name, move |_, x| function(x[0]))
                .input("x", "p:4;q:6", dtype, fill)
                .meshes(FEW)
        };
        [of(F32, name, fill.clone()), of(F64, &format!("{name}: f64"), fill)]
    };
    conform("smooth_functions_more", all.into_iter().flat_map(case).collect());
}

#[test]
fn products_of_elements() {
    // The rows of the first factor have no zero, one, two and three zeros.
    let zeros = vec![1.5, -2.0, 0.5, 0.0, 1.0, 2.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0];
    let cases = vec![
        Case::new("prod", |_, x| x[0].prod([q()])).away_from_zero("x", MATRIX, F64),
        Case::new("prod: f32", |_, x| x[0].prod([p()]))
            .away_from_zero("x", MATRIX, F32)
            .meshes(FEW),
        Case::new("prod of all", |_, x| x[0].prod(x[0].shape())).input(
            "x",
            "p:4;q:6",
            F64,
            Fill::Between(0.5, 1.5),
        ),
        Case::new("prod with zeros", |_, x| x[0].prod([dim("q", 3)])).input(
            "x",
            "p:4;q:3",
            F64,
            Fill::Values(zeros.clone()),
        ),
        Case::new("prod with zeros over two dims", |_, x| x[0].prod([dim("p", 2), dim("q", 3)]))
            .input("x", "p:2;r:2;q:3", F64, Fill::Values(zeros)),
        Case::new("prod: i32", |_, x| x[0].prod([p()])).integers("x", MATRIX, I32),
        Case::new("prod: bf16", |_, x| x[0].prod([dim("q", 4)]))
            .input("x", "p:8;q:4", BF16, Fill::Between(0.5, 1.5))
            .meshes(FEW),
        Case::new("prod: one element", |_, x| x[0].prod([dim("q", 1)]))
            .normal("x", "p:4;q:1", F32)
            .meshes(FEW),
        Case::new("variance", |_, x| x[0].variance([q()])).normal("x", MATRIX, F32).meshes(FEW),
    ];
    conform("products_of_elements", cases);
}

#[test]
fn extra_logits() {
    let c = || dim("c", 6);
    let cases = vec![
        Case::new("logsumexp of two dims", move |_, x| {
            logsumexp_with(x[0], [c(), dim("p", 4)], None)
        })
        .normal("x", "p:4;r:2;c:6", F32)
        .meshes(FEW),
        Case::new("logsumexp, extra", move |_, x| logsumexp_with(x[0], [c()], Some(x[1])))
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "p:4", F32),
        Case::new("log_softmax, extra", move |_, x| log_softmax_with(x[0], c(), Some(x[1])))
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "p:4", F32)
            .meshes(FEW),
        Case::new("softmax, extra for all", move |_, x| softmax_with(x[0], c(), Some(x[1])))
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "", F32)
            .meshes(FEW),
        Case::new("softmax, a greater extra", move |_, x| {
            softmax_with(x[0], c(), Some(x[1] + 200.0))
        })
        .normal("x", "p:4;c:6", F64)
        .normal("extra", "p:4", F64)
        .meshes(FEW),
    ];
    conform("extra_logits", cases);
}

#[test]
fn apart_and_together() {
    let exact = |name: &str, build: for<'g> fn(Tensor<'g>) -> Tensor<'g>| {
        Case::new(name, move |_, x| build(x[0])).exact().integers("x", MATRIX, F32)
    };
    let mut cases = vec![
        exact("split: one part used", |x| split(x, q(), [3, 4, 5])[1]),
        exact("split: in exchange", |x| {
            let [a, b] = split_evenly(x, q());
            mesh_ops::concat(b, &[a], "q")
        })
        .meshes(FEW),
        exact("pick", |x| pick(x, q(), 7)),
        exact("unstack: some used", |x| {
            let each = unstack(x, p());
            each[0] * 2.0 - each[5] + each[7]
        }),
        exact("stride_1d", |x| stride_1d(x, q(), 3)),
        exact("pool_1d: max", |x| pool_1d(x, q(), 3, max)).without_gradient().meshes(FEW),
        exact("pool_1d: min", |x| pool_1d(x, q(), 12, min)).without_gradient().meshes(FEW),
        exact("replace_dims", |x| {
            mesh_ops::replace_dims(x, [q(), p()], [dim("u", 6), dim("v", 16)])
        })
        .meshes(FEW),
        exact("merge_dims", |x| mesh_ops::merge_dims(x, [q(), p()], "u")).meshes(FEW),
        exact("zeros_like, ones_like", |x| mesh_ops::zeros_like(x) - mesh_ops::ones_like(x) + x)
            .meshes(FEW),
        exact("add_n", |x| add_n(x, &[x * 2.0, x, x.shift(q(), 1, true)])).meshes(FEW),
        exact("add_n: of sums", |x| {
            add_n(x.sum_all(), &[x.sum([q()]), x.sum([p()]), x.pick(q(), 2)])
        })
        .meshes(FEW),
        exact("add_n: of ten", |x| add_n(x, &[x * 2.0; 9])).meshes(FEW),
    ];
    cases.extend([
        Case::new("pool_1d: mean", |_, x| pool_1d(x[0], q(), 2, mean)).normal("x", MATRIX, F32),
        Case::new("pick: bool", |_, x| pick(x[0], q(), 0)).bools("x", MATRIX).meshes(FEW),
        Case::new("pick: bf16", |_, x| pick(x[0], q(), 11)).normal("x", MATRIX, BF16).meshes(FEW),
        Case::new("pick: i32", |_, x| pick(x[0], q(), 3)).integers("x", MATRIX, I32).meshes(FEW),
        Case::new("pick: the only one", |_, x| pick(x[0], dim("q", 1), 0))
            .exact()
            .integers("x", "p:4;q:1", F32)
            .meshes(FEW),
        Case::new("stack", |_, x| stack(x[0], &[x[1], x[2], x[3]], "s"))
            .exact()
            .integers("x", "p:4;q:6", F32)
            .integers("y", "q:6;p:4", F32)
            .integers("z", "p:4;q:6", F32)
            .integers("w", "p:4;q:6", F32)
            .meshes(&["a:2", "a:4", "a:3", "a:2;b:2"]),
        Case::new("stack: one", |_, x| stack(x[0], &[], "s"))
            .exact()
            .integers("x", "p:4", F32)
            .meshes(FEW),
        Case::new("stack: bf16", |_, x| stack(x[0], &[x[1]], "s"))
            .normal("x", "p:4", BF16)
            .normal("y", "p:4", BF16)
            .meshes(FEW),
        Case::new("stack of unstacked", |_, x| {
            let each = unstack(x[0], dim("q", 4));
            stack(each[3], &[each[1], each[0], each[2]], "q")
        })
        .exact()
        .integers("x", "p:4;q:4", F32)
        .meshes(&["a:2", "a:4", "a:2;b:2"]),
    ]);
    conform("apart_and_together", cases);
}

//! Every op of `mesh_ops` under every legal layout, against the reference.
//!
//! The committed tables beside this file hold, for each case, the roles of its dims (each *whole*
//! with its reason) and how many layouts are legal on each mesh. A layout lost or won shows up as a
//! difference.

use mesh_ops::elementwise::{self, *};
use mesh_ops::prelude::*;
use mesh_ops::reduce;
use mesh_ops::testing::{Case, Fill};

/// Checks the cases of a table and keeps their reports.
fn conform(table: &str, cases: Vec<Case>) {
    let results: Vec<_> = cases.iter().map(Case::check).collect();
    let faults: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let reports: Vec<_> = results.iter().flatten().map(ToString::to_string).collect();
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(table, reports.join("\n"));
    });
}

const MATRIX: &str = "p:8;q:12";

#[test]
fn arithmetic() {
    conform(
        "arithmetic",
        vec![
            Case::new("add", |_, x| x[0] + x[1]).normal("x", MATRIX, F32).normal("y", MATRIX, F32),
            Case::new("add: i32, by name", |_, x| x[0] + x[1])
                .integers("x", "p:8", I32)
                .integers("y", MATRIX, I32),
            Case::new("sub: outer", |_, x| x[0] - x[1])
                .exact()
                .integers("x", "p:8", F32)
                .integers("y", "q:12", F32),
            Case::new("mul", |_, x| x[0] * x[1]).normal("x", MATRIX, F32).normal("y", "q:12", F32),
            Case::new("mul: bf16", |_, x| x[0] * x[1])
                .normal("x", "p:8", BF16)
                .normal("y", "p:8", BF16),
            Case::new("square by mul", |_, x| x[0] * x[0]).exact().integers("x", MATRIX, F32),
            Case::new("div", |_, x| x[0] / x[1])
                .normal("x", MATRIX, F32)
                .away_from_zero("y", "p:8", F32),
            Case::new("div: i32", |_, x| x[0] / x[1])
                .input("x", "p:12", I32, Fill::Integers(-20, 20))
                .integers("y", "p:12", I32),
            Case::new("neg", |_, x| -x[0]).exact().integers("x", MATRIX, F32),
            Case::new("scale", |_, x| 2.0 * x[0] - 1.0).exact().integers("x", MATRIX, F64),
        ],
    );
}

#[test]
fn casts() {
    conform(
        "casts",
        vec![
            Case::new("f32 to i32", |_, x| cast(x[0], I32)).normal("x", "p:24", F32),
            Case::new("i32 to f32", |_, x| cast(x[0], F32)).integers("x", MATRIX, I32),
            Case::new("f32 to f64", |_, x| cast(x[0], F64)).normal("x", MATRIX, F32),
            Case::new("f32 to bf16", |_, x| cast(x[0], BF16)).normal("x", MATRIX, F32),
            Case::new("bool to i32", |_, x| cast(x[0], I32)).bools("x", MATRIX),
            Case::new("f32 to bool", |_, x| cast(x[0], Bool)).integers("x", MATRIX, F32),
        ],
    );
}

#[test]
fn comparisons() {
    type Comparison = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;
    let all: [(&str, Comparison); 6] = [
        ("equal", equal),
        ("not_equal", not_equal),
        ("less", less),
        ("less_equal", less_equal),
        ("greater", greater),
        ("greater_equal", greater_equal),
    ];
    let case = |(name, compare): (&str, Comparison)| {
        Case::new(name, move |_, x| compare(x[0], x[1]))
            .integers("x", "p:4;q:12", F32)
            .integers("y", "q:12", F32)
    };
    conform("comparisons", all.into_iter().map(case).collect());
}

#[test]
fn activations() {
    conform(
        "activations",
        vec![Case::new("relu", |_, x| elementwise::relu(x[0])).away_from_zero("x", MATRIX, F32)],
    );
}

#[test]
fn reductions() {
    let p = || dim("p", 8);
    let q = || dim("q", 12);
    conform(
        "reductions",
        vec![
            Case::new("sum of one dim", move |_, x| x[0].sum([p()])).exact().integers("x", MATRIX, F32),
            Case::new("sum of all", |_, x| x[0].sum_all()).normal("x", MATRIX, F32),
            Case::new("sum: i32", move |_, x| x[0].sum([q()])).integers("x", MATRIX, I32),
            Case::new("sum: bf16", move |_, x| x[0].sum([q()])).normal("x", MATRIX, BF16),
            Case::new("mean", |_, x| x[0].mean()).normal("x", MATRIX, F32),
            Case::new("max", move |_, x| x[0].max([q()])).input("x", MATRIX, F32, Fill::Distinct),
            Case::new("max with ties", move |_, x| x[0].max([q()]))
                .without_gradient()
                .integers("x", MATRIX, F32),
            Case::new("min", move |_, x| x[0].min([p()])).input("x", MATRIX, F32, Fill::Distinct),
            Case::new("min of all: i32", |_, x| x[0].min(x[0].shape())).integers("x", MATRIX, I32),
            Case::new("all", move |_, x| reduce::all(x[0], [p()])).bools("x", "p:8;q:12"),
            Case::new("any", move |_, x| reduce::any(x[0], [q()])).bools("x", "p:8;q:12"),
        ],
    );
}

#[test]
fn products() {
    let (b, i, j, k) = (dim("b", 4), dim("i", 8), dim("j", 12), dim("k", 6));
    conform(
        "products",
        vec![
            Case::new("matrix product", move |_, x| x[0].einsum(&[x[1]], [i, j]))
                .normal("x", "i:8;k:6", F32)
                .normal("y", "k:6;j:12", F32),
            Case::new("batched", move |_, x| x[0].einsum(&[x[1]], [b, i, j]))
                .exact()
                .integers("x", "b:4;i:8;k:4", F32)
                .integers("y", "j:12;k:4;b:4", F32)
                .meshes(&["a:2", "a:4", "a:2;b:2"]),
            Case::new("inner product", |_, x| x[0].einsum(&[x[1]], []))
                .normal("x", MATRIX, F32)
                .normal("y", MATRIX, F32),
            Case::new("outer product", move |_, x| x[0].einsum(&[x[1]], [j, i]))
                .exact()
                .integers("x", "i:8", F32)
                .integers("y", "j:12", F32),
            Case::new("a dim of one factor summed", move |_, x| x[0].einsum(&[x[1]], [i]))
                .normal("x", "i:8;k:6", F32)
                .normal("y", "i:8;j:12", F32),
            Case::new("three factors", move |_, x| x[0].einsum(&[x[1], x[2]], [i]))
                .exact()
                .integers("x", "i:8;k:6", F32)
                .integers("y", "k:6;j:12", F32)
                .integers("z", "j:12", F32)
                .meshes(&["a:2", "a:4", "a:3", "a:2;b:2"]),
            Case::new("one factor, a dim repeated", move |_, x| x[0].einsum(&[], [j, i]))
                .exact()
                .integers("x", "i:8;k:6", F32),
            Case::new("i32", move |_, x| x[0].einsum(&[x[1]], [i]))
                .integers("x", "i:8;k:6", I32)
                .integers("y", "k:6", I32),
            Case::new("bf16", move |_, x| x[0].einsum(&[x[1]], [i]))
                .normal("x", "i:8;k:6", BF16)
                .normal("y", "k:6", BF16),
            Case::new("contract", move |_, x| x[0].contract(&[x[1]], [k]))
                .exact()
                .integers("x", "i:8;k:6", F64)
                .integers("y", "k:6;i:8", F64),
            Case::new("matmul", |_, x| x[0].matmul(&[x[1]]))
                .normal("x", "i:8;k:6", F32)
                .normal("y", "k:6;j:4", F32),
        ],
    );
}

#[test]
fn shapes() {
    let (p, q) = (dim("p", 8), dim("q", 12));
    conform(
        "shapes",
        vec![
            Case::new("broadcast", move |_, x| x[0].broadcast(&"q:12;p:8".parse().unwrap()))
                .exact()
                .integers("x", "p:8", F32),
            Case::new("transpose", move |_, x| x[0].transpose([q, p]))
                .exact()
                .integers("x", MATRIX, F32),
            Case::new("range", move |g, x| mesh_ops::range(g, q, F32) * x[0])
                .exact()
                .integers("x", "p:8", F32),
            Case::new("constant and fill", move |g, x| {
                let table: Vec<f32> = (0..96).map(|i| i as f32).collect();
                let table = ndarray::Array2::from_shape_vec((12, 8), table).unwrap();
                x[0] * g.constant(table, [q, p]) + g.fill(3.0, [p], F32)
            })
            .exact()
            .integers("x", MATRIX, F32),
        ],
    );
}

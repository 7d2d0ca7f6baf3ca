//! Every op of `mesh_ops` under every legal layout, against the reference.
//!
//! The committed tables beside this file have, for each case, the roles of its dims (each *whole*
//! with its reason) and the number of legal layouts on each mesh. A layout that becomes legal or
//! illegal is a difference.

mod conv;
mod index;
mod layers;
mod random;
mod small;

use mesh_ops::elementwise::{self, *};
use mesh_ops::prelude::*;
use mesh_ops::reduce;
use mesh_ops::testing::{Case, Fill};

const MATRIX: &str = "p:8;q:12";

/// Checks the cases of a table and keeps their reports.
fn conform(table: &str, cases: Vec<Case>) {
    let results: Vec<_> = cases.iter().map(Case::check).collect();
    let faults: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let reports: Vec<_> = results.iter().flatten().map(ToString::to_string).collect();
    let path = "../snapshots/conformance";
    insta::with_settings!({
        snapshot_path => path, prepend_module_to_snapshot => false, omit_expression => true
    }, {
        insta::assert_snapshot!(table, reports.join("\n"));
    });
}

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
    let all: [(&str, Binary); 6] = [
        ("equal", equal),
        ("not_equal", not_equal),
        ("less", less),
        ("less_equal", less_equal),
        ("greater", greater),
        ("greater_equal", greater_equal),
    ];
    let case = |(name, compare): (&str, Binary)| {
        Case::new(name, move |_, x| compare(x[0], x[1]))
            .integers("x", "p:4;q:12", F32)
            .integers("y", "q:12", F32)
    };
    conform("comparisons", all.into_iter().map(case).collect());
}

type Unary = for<'g> fn(Tensor<'g>) -> Tensor<'g>;
type Binary = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;

/// Few meshes, for ops that have the roles of the first op in their table.
const FEW: &[&str] = &["a:2", "a:3", "a:2;b:2"];

#[test]
fn smooth_functions() {
    let all: [(&str, Unary, Fill); 18] = [
        ("exp", exp, Fill::Normal),
        ("log", log, Fill::Between(0.25, 4.0)),
        ("sqrt", sqrt, Fill::Between(0.25, 4.0)),
        ("rsqrt", rsqrt, Fill::Between(0.25, 4.0)),
        ("reciprocal", reciprocal, Fill::AwayFromZero),
        ("square", square, Fill::Normal),
        ("powf", |x| powf(x, 1.5), Fill::Between(0.25, 4.0)),
        ("sin", sin, Fill::Normal),
        ("cos", cos, Fill::Normal),
        ("tanh", tanh, Fill::Normal),
        ("sigmoid", sigmoid, Fill::Normal),
        ("softplus", softplus, Fill::Normal),
        ("swish", swish, Fill::Normal),
        ("gelu", gelu, Fill::Normal),
        ("elu", elu, Fill::AwayFromZero),
        ("selu", selu, Fill::AwayFromZero),
        ("leaky_relu", |x| leaky_relu(x, 0.25), Fill::AwayFromZero),
        ("clip", |x| clip(x, -1.7, 1.7), Fill::Distinct),
    ];
    let case = |(name, function, fill): (&str, Unary, Fill)| {
        Case::new(name, move |_, x| function(x[0])).input("x", "p:4;q:6", F32, fill).meshes(FEW)
    };
    conform("smooth_functions", all.into_iter().map(case).collect());
}

#[test]
fn corners() {
    let relu = elementwise::relu as Unary;
    let all: [(&str, Unary); 4] = [("relu", relu), ("abs", abs), ("sign", sign), ("floor", floor)];
    let case = |(name, function): (&str, Unary)| {
        // Floor is constant between whole numbers, where the inputs are.
        Case::new(name, move |_, x| function(x[0])).away_from_zero("x", "p:4;q:6", F32).meshes(FEW)
    };
    let mut cases: Vec<_> = all.into_iter().map(case).collect();
    cases.extend([
        Case::new("abs: i32", |_, x| abs(x[0])).integers("x", "p:4;q:6", I32).meshes(FEW),
        Case::new("square: i32", |_, x| square(x[0])).integers("x", "p:4;q:6", I32).meshes(FEW),
        Case::new("sign: i32", |_, x| sign(x[0])).integers("x", "p:4;q:6", I32).meshes(FEW),
        Case::new("clip: i32", |_, x| clip(x[0], -1.0, 2.0)).integers("x", "p:4", I32).meshes(FEW),
    ]);
    conform("corners", cases);
}

#[test]
fn functions_of_two() {
    let positive = Fill::Between(0.5, 2.0);
    let mut cases = vec![
        Case::new("pow", |_, x| pow(x[0], x[1]))
            .input("x", "p:4;q:6", F32, positive.clone())
            .input("y", "q:6", F32, positive)
            .meshes(FEW),
        Case::new("modulo", |_, x| modulo(x[0], x[1]))
            .input("x", "p:4;q:6", F32, Fill::Values(vec![5.3, -4.1, 2.2, -0.7, 3.9]))
            .input("y", "q:6", F32, Fill::Values(vec![1.5, -2.0, 2.5]))
            .meshes(FEW),
        Case::new("floordiv", |_, x| floordiv(x[0], x[1]))
            .input("x", "p:4;q:6", F32, Fill::Values(vec![5.3, -4.1, 2.2, -0.7, 3.9]))
            .input("y", "q:6", F32, Fill::Values(vec![1.5, -2.0, 2.5]))
            .meshes(FEW),
        Case::new("maximum with ties", |_, x| maximum(x[0], x[1]))
            .without_gradient()
            .integers("x", "p:4;q:6", F32)
            .integers("y", "q:6", F32)
            .meshes(FEW),
    ];
    let all: [(&str, Binary); 2] = [("maximum", maximum), ("minimum", minimum)];
    cases.extend(all.map(|(name, function)| {
        Case::new(name, move |_, x| function(x[0], x[1]))
            .input("x", "p:4;q:6", F32, Fill::Distinct)
            .input("y", "q:6", F32, Fill::Values(vec![0.3, -0.2, 0.7]))
            .meshes(FEW)
    }));
    let integers: [(&str, Binary); 4] = [
        ("maximum: i32", maximum),
        ("minimum: i32", minimum),
        ("floordiv: i32", floordiv),
        ("modulo: i32", modulo),
    ];
    cases.extend(integers.map(|(name, function)| {
        Case::new(name, move |_, x| function(x[0], x[1]))
            .input("x", "p:4;q:6", I32, Fill::Integers(-9, 9))
            .integers("y", "q:6", I32)
            .meshes(FEW)
    }));
    conform("functions_of_two", cases);
}

#[test]
fn logic() {
    conform(
        "logic",
        vec![
            Case::new("logical_and", |_, x| logical_and(x[0], x[1]))
                .bools("x", "p:4;q:6")
                .bools("y", "q:6"),
            Case::new("logical_or", |_, x| logical_or(x[0], x[1]))
                .bools("x", "p:4;q:6")
                .bools("y", "q:6"),
            Case::new("logical_not", |_, x| logical_not(x[0])).bools("x", "p:4;q:6"),
            Case::new("select", |_, x| select(x[0], x[1], x[2]))
                .exact()
                .bools("condition", "p:4")
                .integers("yes", "p:4;q:6", F32)
                .integers("no", "q:6", F32),
            Case::new("select: i32", |_, x| select(x[0], x[1], x[2]))
                .bools("condition", "p:4;q:6")
                .integers("yes", "p:4", I32)
                .integers("no", "q:6", I32),
        ],
    );
}

#[test]
fn reductions() {
    let p = || dim("p", 8);
    let q = || dim("q", 12);
    conform(
        "reductions",
        vec![
            Case::new("sum of one dim", move |_, x| x[0].sum([p()]))
                .exact()
                .integers("x", MATRIX, F32),
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

#[test]
fn movers() {
    let (p, q) = (dim("p", 8), dim("q", 12));
    let mut cases = vec![
        Case::new("slice", move |_, x| mesh_ops::slice(x[0], dim("q", 6), 3)),
        Case::new("pad", move |_, x| mesh_ops::pad(x[0], q, 3, 1)),
        Case::new("reshape: a dim cut", |_, x| {
            mesh_ops::reshape(x[0], [dim("p", 8), dim("u", 4), dim("v", 3)])
        }),
        Case::new("reshape: dims joined", |_, x| mesh_ops::reshape(x[0], [dim("u", 96)])),
        Case::new("reshape: across", |_, x| mesh_ops::reshape(x[0], [dim("u", 6), dim("v", 16)])),
        Case::new("rename", move |_, x| mesh_ops::rename(x[0], p, "u")),
        Case::new("rename back and forth", move |_, x| {
            mesh_ops::rename(mesh_ops::rename(x[0], p, "u") * 2.0, p.renamed("u"), "p") + x[0]
        }),
    ];
    for (name, offset, wrap) in [
        ("shift by one", 1, false),
        ("shift back by five", -5, false),
        ("shift round by one", 1, true),
        ("shift round by seven", 7, true),
        ("shift beyond the end", 12, false),
    ] {
        cases.push(Case::new(name, move |_, x| mesh_ops::shift(x[0], q, offset, wrap)));
    }
    let mut cases: Vec<_> =
        cases.into_iter().map(|case| case.exact().integers("x", MATRIX, F32)).collect();
    cases.push(
        Case::new("concat", |_, x| mesh_ops::concat(x[0], &[x[1], x[2]], "q"))
            .exact()
            .integers("x", MATRIX, F32)
            .integers("y", "q:4;p:8", F32)
            .integers("z", "p:8;q:2", F32),
    );
    cases.push(
        Case::new("one_hot", move |_, x| mesh_ops::one_hot(x[0], q, F32)).indices("i", "p:8", 12),
    );
    cases.push(
        Case::new("argmax", move |_, x| mesh_ops::argmax(x[0], q)).integers("x", MATRIX, F32),
    );
    conform("movers", cases);
}

#[test]
fn halos() {
    let (blocks, rows) = (dim("blocks", 4), dim("rows", 3));
    let case = |name: &str, build: fn(Tensor<'_>, Dimension, Dimension) -> Tensor<'_>| {
        Case::new(name, move |_, x| build(x[0], blocks, rows))
            .exact()
            .integers("x", "p:4;blocks:4;rows:3", F32)
            .meshes(&["a:2", "a:4", "a:2;b:2"])
    };
    conform(
        "halos",
        vec![
            case("halo", |x, b, r| mesh_ops::halo_exchange(x, b, r, 1, false)),
            case("wrapped halo", |x, b, r| mesh_ops::halo_exchange(x, b, r, 2, true)),
            case("wide halo", |x, b, r| mesh_ops::halo_exchange(x, b, r, 5, false)),
            case("left halo", |x, b, r| mesh_ops::left_halo_exchange(x, b, r, 4, false)),
        ],
    );
}

#[test]
fn convolutions() {
    use mesh_ops::conv::{Conv, Padding, conv, conv_transpose, conv_with_blocks};
    const GRIDS: &[&str] = &["a:2", "a:4", "a:2;b:2"];
    let two = || Conv::over([("h", "fh"), ("w", "fw")]);
    conform(
        "convolutions",
        vec![
            Case::new("conv", move |_, x| conv(x[0], x[1], &two()))
                .exact()
                .integers("x", "n:2;h:4;w:3;c:4", F32)
                .integers("filter", "fh:3;fw:2;c:4;d:4", F32)
                .meshes(GRIDS),
            Case::new("conv: strides, valid", move |_, x| {
                conv(x[0], x[1], &two().strides([2, 1]).padding(Padding::Valid))
            })
            .exact()
            .integers("x", "n:2;h:5;w:3;c:2", F32)
            .integers("filter", "fh:2;fw:2;c:2;d:2", F32)
            .meshes(&["a:2"]),
            Case::new("conv: dilated, depthwise", move |_, x| {
                conv(x[0], x[1], &Conv::over([("w", "fw")]).dilations([2]).depthwise(["c"]))
            })
            .exact()
            .integers("x", "n:4;w:6;c:4", F32)
            .integers("filter", "fw:3;c:4", F32)
            .meshes(GRIDS),
            Case::new("conv_transpose", move |_, x| {
                conv_transpose(x[0], x[1], &Conv::over([("w", "fw")]).strides([2]))
            })
            .exact()
            .integers("x", "n:4;w:3;d:4", F32)
            .integers("filter", "fw:3;d:4;c:2", F32)
            .meshes(GRIDS),
            Case::new("conv_with_blocks", move |_, x| {
                conv_with_blocks(x[0], x[1], &Conv::over([("h", "fh")]), [dim("blocks", 4)])
            })
            .exact()
            .integers("x", "blocks:4;h:3;c:2", F32)
            .integers("filter", "fh:3;c:2;d:2", F32)
            .meshes(GRIDS),
        ],
    );
}

#[test]
fn layers() {
    let classes = dim("classes", 6);
    use mesh_ops::layers::{log_softmax, logsumexp, softmax, softmax_cross_entropy};
    conform(
        "layers",
        vec![
            Case::new("softmax", move |_, x| softmax(x[0], classes)).normal(
                "x",
                "p:4;classes:6",
                F32,
            ),
            Case::new("log_softmax", move |_, x| log_softmax(x[0], classes)).normal(
                "x",
                "p:4;classes:6",
                F32,
            ),
            Case::new("logsumexp", move |_, x| logsumexp(x[0], classes)).normal(
                "x",
                "p:4;classes:6",
                F32,
            ),
            Case::new("cross entropy", move |_, x| softmax_cross_entropy(x[0], x[1], classes))
                .normal("x", "p:4;classes:6", F32)
                .indices("label", "p:4", 6),
            Case::new("cross entropy: soft", move |_, x| {
                softmax_cross_entropy(x[0], x[1], classes)
            })
            .normal("x", "p:4;classes:6", F32)
            .input("target", "p:4;classes:6", F32, Fill::Between(0.0, 1.0)),
        ],
    );
}

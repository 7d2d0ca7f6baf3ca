//! The evaluator that ops are compared with, by numbers worked by hand, so that it rests on something itself.

use mesh_core::graph::TensorType;
use mesh_ops::prelude::*;
use mesh_ops::testing::{Dense, Reference, Values};

fn dense(shape: &str, dtype: DType, data: &[f64]) -> Dense {
    Dense { ty: TensorType::new(shape.parse().unwrap(), dtype), data: data.to_vec() }
}

fn values<const N: usize>(list: [(&str, Dense); N]) -> Values {
    list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn a_product_of_matrices() {
    let g = mesh_ops::graph();
    let (i, j, k) = (dim("i", 2), dim("j", 2), dim("k", 3));
    let (a, b) = (g.input("a", [i, k], F32), g.input("b", [j, k], F32));
    let c = a.einsum(&[b], [j, i]);
    let feeds = values([
        ("a", dense("i:2;k:3", F32, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("b", dense("j:2;k:3", F32, &[1.0, 0.0, 1.0, 0.0, 2.0, 0.0])),
    ]);
    let result = Reference::new(&g).evaluate(&feeds, &Values::new(), &[c.id()]).unwrap();
    assert_eq!(result[&c.id()], dense("j:2;i:2", F32, &[4.0, 10.0, 4.0, 10.0]));
}

#[test]
fn reductions_and_repetition_by_name() {
    let g = mesh_ops::graph();
    let (a, b) = (dim("a", 2), dim("b", 2));
    let x = g.input("x", [a, b], I32);
    let y = x.sum([a]) * x + x.max([b]);
    let feeds = values([("x", dense("a:2;b:2", I32, &[1.0, -2.0, 3.0, 4.0]))]);
    let result = Reference::new(&g).evaluate(&feeds, &Values::new(), &[y.id()]).unwrap();
    assert_eq!(result[&y.id()].data, [5.0, -3.0, 16.0, 12.0]);
}

#[test]
fn integers_wrap_and_truncate() {
    let g = mesh_ops::graph();
    let (x, y) = (g.input("x", [dim("a", 3)], I32), g.input("y", [dim("a", 3)], I32));
    let (quotient, product) = (x / y, x * y);
    let big = f64::from(i32::MAX);
    let feeds = values([
        ("x", dense("a:3", I32, &[-7.0, big, 5.0])),
        ("y", dense("a:3", I32, &[2.0, 2.0, 0.0])),
    ]);
    let wanted = [quotient.id(), product.id()];
    let result = Reference::new(&g).evaluate(&feeds, &Values::new(), &wanted).unwrap();
    assert_eq!(result[&wanted[0]].data, [-3.0, f64::from(i32::MAX / 2), 0.0]);
    assert_eq!(result[&wanted[1]].data, [-14.0, -2.0, 0.0]);
}

#[test]
fn updates_see_the_call_s_start() {
    let g = mesh_ops::graph();
    let (a, b) = (dim("a", 1), dim("b", 2));
    let v = g.state("v", [b, a], F32, Initializer::ZEROS);
    let w = g.state("w", [b], F32, Initializer::ZEROS);
    let updates =
        [v.assign_sub(v.value().transpose([a, b])), w.assign(v.value().sum([a]) + w.value())];
    g.function("swap", [], [w.value()], updates);
    let variables = values([
        ("v", dense("b:2;a:1", F32, &[1.0, 2.0])),
        ("w", dense("b:2", F32, &[10.0, 20.0])),
    ]);
    let call = Reference::new(&g).call("swap", &Values::new(), &variables).unwrap();
    assert_eq!(call.fetches[0].data, [10.0, 20.0]);
    assert_eq!(call.updated["v"].data, [0.0, 0.0]);
    assert_eq!(call.updated["w"].data, [11.0, 22.0]);
}

#[test]
fn lookups_and_their_sums() {
    let g = mesh_ops::graph();
    let (i, k, n) = (dim("i", 3), dim("k", 2), dim("n", 4));
    let (x, at) = (g.input("x", [k, n], F32), g.input("at", [i], I32));
    let found = x.gather(at, n);
    let sums = mesh_ops::scatter_add(found, at, n, [n, k]);
    let feeds = values([
        ("x", dense("k:2;n:4", F32, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])),
        ("at", dense("i:3", I32, &[3.0, -1.0, 3.0])),
    ]);
    let wanted = [found.id(), sums.id()];
    let result = Reference::new(&g).evaluate(&feeds, &Values::new(), &wanted).unwrap();
    assert_eq!(result[&wanted[0]], dense("i:3;k:2", F32, &[4.0, 8.0, 0.0, 0.0, 4.0, 8.0]));
    assert_eq!(result[&wanted[1]].data, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0, 16.0]);
}

#[test]
fn both_outputs_of_one_op() {
    let g = mesh_ops::graph();
    let (a, b, k) = (dim("a", 4), dim("b", 2), dim("k", 3));
    let x = g.input("x", [a, b], F32);
    let (best, at) = x.top_k(a, k);
    let nan = f64::NAN;
    let feeds = values([("x", dense("a:4;b:2", F32, &[1.0, 2.0, 3.0, nan, 3.0, 2.0, 0.0, 1.0]))]);
    let wanted = [best.id(), at.id()];
    let result = Reference::new(&g).evaluate(&feeds, &Values::new(), &wanted).unwrap();
    assert_eq!(result[&wanted[0]].data[..3], [3.0, 3.0, 1.0]);
    assert!(result[&wanted[0]].data[3].is_nan());
    assert_eq!(result[&wanted[1]], dense("b:2;k:3", I32, &[1.0, 2.0, 0.0, 1.0, 0.0, 2.0]));
}

#[test]
fn sums_so_far() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("a", 3)], I32);
    let taken = mesh_ops::Cumulative { exclusive: true, reverse: true };
    let (up, down) = (x.cumsum(dim("a", 3)), x.cumsum_with(dim("a", 3), taken));
    let feeds = values([("x", dense("a:3", I32, &[1.0, 2.0, f64::from(i32::MAX)]))]);
    let wanted = [up.id(), down.id()];
    let result = Reference::new(&g).evaluate(&feeds, &Values::new(), &wanted).unwrap();
    assert_eq!(result[&wanted[0]].data, [1.0, 3.0, f64::from(i32::MIN) + 2.0]);
    assert_eq!(result[&wanted[1]].data, [f64::from(i32::MIN) + 1.0, f64::from(i32::MAX), 0.0]);
}

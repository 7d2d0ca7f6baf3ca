//! Ops by index and order: their exact numbers, what travels, and their refusals.

use crate::started;
use mesh_core::graph::{Op, OpError, Signature, TensorType};
use mesh_core::lower::LocalCx;
use mesh_core::split::SplitRule;
use mesh_ops::Order;
use mesh_ops::prelude::*;

/// What one call returns for fed arrays, as f64, under a layout with the replica check on.
fn call(g: &Graph, mesh: &str, layout: &str, feeds: &[(&str, Array)]) -> Vec<Vec<f64>> {
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = started(&module);
    session.set_replica_check(true).unwrap();
    let feeds: Vec<_> = feeds.iter().map(|(name, array)| (*name, array.view())).collect();
    let results = session.call_named(&module.functions()[0].name, &feeds).unwrap();
    results.iter().map(|(_, array)| array.to_f64().iter().copied().collect()).collect()
}

/// The input of Mesh TensorFlow's tests of top_k and nth_largest.
fn six_by_two() -> Array {
    ndarray::arr2(&[[1f32, 10.], [2., 9.], [3., 8.], [4., 7.], [5., 6.], [6., 5.]]).into()
}

#[test]
fn the_numbers_of_mesh_tensorflow() {
    let (a, b, k) = (dim("a", 6), dim("b", 2), dim("k", 2));
    let g = mesh_ops::graph();
    let x = g.input("x", [a, b], F32);
    g.function("f", [x], [x.nth_largest(1, a), x.nth_smallest(0, b)], []);
    let found = call(&g, "all:2", "a:all", &[("x", six_by_two())]);
    assert_eq!(found, [vec![5.0, 9.0], vec![1.0, 2.0, 3.0, 4.0, 5.0, 5.0]]);

    let g = mesh_ops::graph();
    let (x, dy) = (g.input("x", [a, b], F32), g.input("dy", [b, k], F32));
    let (values, indices) = x.top_k(a, k);
    let dx = g.gradients(&[values], &[x], Some(&[dy]))[0].unwrap();
    g.function("f", [x, dy], [values, indices, dx], []);
    let dy = ndarray::arr2(&[[11f32, 12.], [13., 14.]]);
    let feeds = [("x", six_by_two()), ("dy", dy.into())];
    for (mesh, layout) in [("", ""), ("rows:2;cols:2", "a:rows;b:cols"), ("all:3", "a:all")] {
        let found = call(&g, mesh, layout, &feeds);
        assert_eq!(found[0], [6.0, 5.0, 10.0, 9.0]);
        assert_eq!(found[1], [5.0, 4.0, 0.0, 1.0]);
        assert_eq!(found[2], [0., 13., 0., 14., 0., 0., 0., 0., 12., 0., 11., 0.]);
    }
}

#[test]
fn the_first_of_equals_whatever_the_layout() {
    let (n, k) = (dim("n", 8), dim("k", 5));
    let g = mesh_ops::graph();
    let x = g.input("x", [n], F32);
    let (values, indices) = x.top_k(n, k);
    g.function("f", [x], [values, indices, x.top_1(n).1, x.argmax(n), x.argmin(n)], []);
    let data = ndarray::arr1(&[2f32, 7., f32::NAN, 7., 2., f32::NAN, 7., 9.]);
    for (mesh, layout) in [("", ""), ("all:2", "n:all"), ("a:2;b:4", "n:b+a"), ("all:8", "n:all")] {
        let found = call(&g, mesh, layout, &[("x", data.clone().into())]);
        assert!(found[0][0].is_nan() && found[0][1].is_nan());
        assert_eq!(found[0][2..], [9.0, 7.0, 7.0]);
        assert_eq!(found[1], [2.0, 5.0, 7.0, 1.0, 3.0]);
        assert_eq!(found[2..], [[2.0], [2.0], [2.0]]);
    }
}

/// Collectives of the only function: form, elements of one processor's operands.
fn collectives(g: &Graph, mesh: &str, layout: &str) -> Vec<String> {
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let program = &module.functions()[0];
    let steps = program.steps().iter().filter(|step| step.axes().is_some());
    let elements = |step: &mesh_core::program::Step| -> usize {
        step.reads().map(|id| program.value(id).len()).sum()
    };
    steps.map(|step| format!("{} {}", step.form.name(), elements(step))).collect()
}

#[test]
fn only_what_is_needed_travels() {
    let one = |build: &dyn for<'g> Fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>, layout: &str| {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("p", 4), dim("q", 24)], F32);
        let at = g.input("at", [dim("n", 6)], I32);
        g.function("f", [x, at], [build(x, at)], []);
        collectives(&g, "all:2", layout)
    };
    let (q, k) = (dim("q", 24), dim("k", 3));
    let nothing: [&str; 0] = [];
    assert_eq!(one(&|x, at| x.gather(at, q), "q:all"), ["all_reduce 24"]);
    assert_eq!(one(&|x, at| x.gather(at, q), "n:all"), nothing);
    assert_eq!(one(&|x, at| x.gather(at, q), "p:all"), nothing);
    // A total for each of the four lines.
    assert_eq!(one(&|x, _| x.cumsum(q), "q:all"), ["all_gather 4"]);
    assert_eq!(one(&|x, _| x.cumsum(q), "p:all"), nothing);
    // Three candidates for each line; indices travel if they are needed.
    assert_eq!(one(&|x, _| x.top_k(q, k).0, "q:all"), ["all_gather 12"]);
    assert_eq!(one(&|x, _| x.top_k(q, k).1, "q:all"), ["all_gather 12", "all_gather 12"]);
    assert_eq!(one(&|x, _| x.sort(q, Order::Ascending), "q:all"), ["all_gather 48"]);
    assert_eq!(one(&|x, _| x.sort(q, Order::Ascending), "p:all"), nothing);
}

#[test]
fn refusals_say_what_would_be_legal() {
    let refused = |build: &dyn for<'g> Fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>, text: &str| {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("p", 4), dim("q", 6)], F32);
        let at = g.input("at", [dim("n", 3)], I32);
        assert!(build(x, at).is_poisoned());
        let report = g.check().unwrap_err();
        assert_eq!(report.issues.len(), 1, "{report}");
        let message = report.to_string();
        assert!(message.contains(text) && message.contains("conformance/index.rs"), "{message}");
    };
    let (p, q, n) = (dim("p", 4), dim("q", 6), dim("n", 3));
    let scatter = mesh_ops::scatter_add;
    refused(&|x, at| x.gather(at, dim("q", 7)), "has no dim q:7");
    refused(&|x, _| x.gather(x.sum([p]), p), "indices are i32, not f32; cast them");
    refused(&|x, at| mesh_ops::rename(x, q, "n").gather(at, dim("n", 6)), "rename it in one");
    refused(&|x, at| mesh_ops::rename(x, q, "n").gather(at, p), "n:3");
    refused(&|x, at| scatter(x, at, dim("v", 9), [dim("v", 9)]), "have no dim n:3; broadcast them");
    refused(&|x, at| scatter(x, at, dim("v", 9), [p]), "lack v:9");
    refused(&|x, at| scatter(x, at, p, [p]), "have the indexed dim p themselves; rename it");
    refused(&|x, _| x.cumsum(n), "has no dim n:3");
    refused(&|x, _| x.equal(x).cumsum(q), "cumsum needs numbers, not bool");
    refused(&|x, _| x.top_k(q, dim("k", 7)).0, "k:7 are more than there are along q:6");
    refused(&|x, _| x.top_k(q, dim("q", 2)).0, "q:2 needs another name than q:6");
    refused(&|x, _| x.top_k(q, dim("p", 2)).1, "p:2");
    refused(&|x, _| x.nth_largest(6, q), "n counts from 0 to 5");
    refused(&|x, at| mesh_ops::dynamic_shift(x, at, q, true), "n:3 of");
    refused(&|x, _| mesh_ops::dynamic_shift(x, x.sum([q]), q, true), "the offset is i32, not f32");
    refused(&|x, _| x.reverse(n), "has no dim n:3");
}

#[test]
fn a_rank_cannot_be_split() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("p", 4), dim("q", 6)], F32);
    g.function("f", [x], [x.top_k(dim("q", 6), dim("k", 2)).0], []);
    let report = g.lower(&"all:2".parse().unwrap(), &"k:all".parse().unwrap()).unwrap_err();
    assert!(report.to_string().contains("a rank is known once all elements are compared"));
}

/// Gathers a dim that it calls parallel.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Silent;

impl Op for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let x = cx.input(0)?;
        let whole = cx.all_gather("q".into(), &x)?;
        cx.finish(0, whole)
    }
}

#[test]
fn nothing_is_gathered_silently() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("q", 6)], F32);
    g.function("f", [x], [g.apply1(Silent, &[x])], []);
    let report = g.lower(&"all:2".parse().unwrap(), &"q:all".parse().unwrap()).unwrap_err();
    assert!(report.to_string().contains("AllGather along q, whose role is parallel"), "{report}");
}

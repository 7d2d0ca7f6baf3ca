//! Defects of collectives and of the decisions about them.

use crate::fed::Fed;
use crate::{collectives, steps};
use mesh_core::program::Form;
use mesh_ops::prelude::*;
use mesh_ops::testing::{Case, Fill};

/// An exchange of f32 between processors went through bf16, so only 8 bits arrived.
#[test]
fn d08_exchanges_keep_every_bit() {
    let g = mesh_ops::graph();
    let (b, c) = (dim("b", 8), dim("c", 4));
    let x = g.input("x", [b, c.renamed("c2")], F32);
    let y = x.reshape([b.renamed("b2"), c]);
    let f = g.function("f", [x], [y], []);
    let module = g.lower(&"all:4".parse().unwrap(), &"b:all;c:all".parse().unwrap()).unwrap();
    let forms: Vec<_> = module.functions()[0].steps().iter().map(|s| s.form.name()).collect();
    assert!(forms.contains(&"all_to_all"), "{forms:?}");
    let odd = |i: usize| f32::from_bits(0x3f80_0001 + 0x0001_2345 * i as u32);
    let x = ndarray::ArrayD::from_shape_fn(vec![8, 4], |at| odd(at[0] * 4 + at[1]));
    let [y] = Session::threads(&module, 0).unwrap().call(&f, [x.view().into()]).unwrap();
    assert_eq!(y, x.into());
}

/// Slices were gathered by summing them, each padded to the whole tensor: n times the bytes.
#[test]
fn d09_gathers_move_each_byte_once() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("b", 8), dim("c", 4)], F32);
    let y = x.rename(dim("b", 8), "whole") + 0.0;
    g.function("f", [x], [y], []);
    let bytes = 8 * 4 * 4;
    assert_eq!(collectives(&g, "all:4", "b:all"), [("all_gather".to_owned(), bytes * 3 / 4)]);
}

/// A reshape cut dims into parts of size 0, or failed.
#[test]
fn d11_reshapes_cut_what_can_be_cut() {
    for (mesh, layout, from, onto) in [
        ("all:8", "c:all", "a:4,b:6", "c:24"),
        ("all:4", "b:all,c:all", "a:2,b:8", "c:16"),
        ("all:4", "b:all", "b:8", "i:2,b:4"),
    ] {
        let g = mesh_ops::graph();
        let mut fed = Fed::new(&g, "D11");
        let count = onto.parse::<Shape>().unwrap().size() as i32;
        let x = fed.integers("x", from, &(0..count).collect::<Vec<_>>());
        let y = x.reshape(onto.parse::<Shape>().unwrap()) + 0.0;
        let value = fed.value(y, &[("", ""), (mesh, layout)]);
        assert!(value.iter().zip(0..).all(|(y, i)| *y == f64::from(i)), "{from} to {onto}");
    }
}

/// Sums that were pending over the same axes in another order were reduced one by one.
#[test]
fn d23_the_order_of_axes_does_not_matter() {
    let g = mesh_ops::graph();
    let (p, q, r, s) = (dim("p", 4), dim("q", 2), dim("r", 2), dim("s", 3));
    let u = g.input("u", [p, s], F32);
    let v = g.input("v", [r, q, s], F32);
    g.function("f", [u, v], [u.sum([p]) + v.sum([r, q])], []);
    for layout in ["p:a+b;q:b;r:a", "p:a+b;q:a;r:b", "p:b+a;q:b;r:a"] {
        let found = collectives(&g, "a:2;b:2", layout);
        assert_eq!(found.len(), 1, "{layout}: {found:?}");
    }
}

/// If the sums a, b and also a + b were needed, all three were reduced.
#[test]
fn d24_what_is_reduced_anyway_is_added_afterwards() {
    let g = mesh_ops::graph();
    let (p, s) = (dim("p", 4), dim("s", 3));
    let (u, v) = (g.input("u", [p, s], F32), g.input("v", [p, s], F32));
    let (a, b) = (u.sum([p]), v.sum([p]));
    g.function("f", [u, v], [a, b, a + b], []);
    let bytes: u64 = collectives(&g, "all:4", "p:all").iter().map(|(_, bytes)| bytes).sum();
    // Twice three quarters of two sums with three f32 each.
    assert_eq!(bytes, 2 * (2 * 3 * 4) * 3 / 4);
}

/// Gradients in bf16 were summed in bf16 and only then cast to f32 for the optimizer.
#[test]
fn d25_sums_of_bf16_are_f32_until_they_are_complete() {
    let g = mesh_ops::graph();
    let (batch, d) = (dim("batch", 4), dim("d", 2));
    let x = g.input("x", [batch, d], F32);
    let w = g.variable("w", [d], BF16, Initializer::ONES);
    let loss = x.cast(BF16).einsum(&[w.value()], []);
    let train = mesh_optimize::Optimizer::minimize(&mesh_optimize::Sgd::new(1.0), loss);
    let gradient = g.gradients(&[loss], &[w.value()], None)[0].unwrap();
    let f = g.function("f", [x], [gradient.cast(F32)], train);
    let module = g.lower(&"all:4".parse().unwrap(), &"batch:all".parse().unwrap()).unwrap();
    let program = &module.functions()[0];
    for step in program.steps() {
        if let Form::AllReduce(_) = &step.form {
            assert!(step.reads().all(|id| program.value(id).dtype == F32));
        }
    }
    // In bf16 each of the three ones would be lost beside 256.
    let column = [256.0_f32, 1.0, 1.0, 2.0];
    let x = ndarray::Array2::from_shape_fn((4, 2), |(i, _)| column[i]);
    let [sum] = Session::threads(&module, 0).unwrap().call(&f, [x.view().into()]).unwrap();
    assert_eq!(sum, ndarray::arr1(&[260.0_f32; 2]).into());
}

/// The memory planner asked the wrong tensor whether it was still needed. There is no scheduler
/// here; a fetched value outlives everything that is computed after it.
#[test]
fn d26_fetches_live_until_the_end() {
    let g = mesh_ops::graph();
    let p = dim("p", 4);
    let x = g.input("x", [p], F32);
    let stages: Vec<_> =
        std::iter::successors(Some(x + 1.0), |h| Some(h.square() - *h)).take(6).collect();
    let f = g.function("f", [x], [stages[0], stages[2], stages[5]], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"p:a".parse().unwrap()).unwrap();
    let x = ndarray::arr1(&[0.0_f32, 0.5, 1.0, -1.0]);
    let found = Session::threads(&module, 0).unwrap().call(&f, [x.view().into()]).unwrap();
    let mut h = x.mapv(|x| x + 1.0);
    for stage in 0..6 {
        if let Some(i) = [0, 2, 5].iter().position(|&at| at == stage) {
            assert_eq!(found[i], h.clone().into(), "stage {stage}");
        }
        h = h.mapv(|h| h * h - h);
    }
}

/// Sums of integers went through f32, which has 24 bits.
#[test]
fn d31_sums_of_integers_are_exact() {
    let g = mesh_ops::graph();
    let p = dim("p", 4);
    let x = g.input("x", [p], I32);
    let f = g.function("f", [x], [x.sum([p])], []);
    let x = ndarray::arr1(&[(1 << 24) + 1, 1 << 30, -7, 3]);
    for (mesh, layout) in [("", ""), ("a:4", "p:a"), ("a:2;b:2", "p:a+b")] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let [sum] = Session::threads(&module, 0).unwrap().call(&f, [x.view().into()]).unwrap();
        assert_eq!(sum, ndarray::arr0((1 << 30) + (1 << 24) - 3).into());
    }
    let steps = steps(&g, "a:4", "p:a");
    let forms: Vec<_> = steps.iter().map(|step| step.form.name()).collect();
    assert!(!forms.contains(&"map"), "nothing is cast: {forms:?}");
    // They overflow in the same way everywhere.
    let large = Fill::Integers(1 << 29, 1 << 30);
    let case = Case::new("wrapping sum", |_, x| x[0].sum([dim("p", 8)]));
    case.exact().input("x", "p:8;q:3", I32, large).check().unwrap();
}

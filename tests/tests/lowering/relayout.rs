//! The collectives of tensors that are reshaped, renamed or placed anew, and that the values stay.
//!
//! The cases are those of Mesh TensorFlow's reshape rule, its two unimplemented and two broken ones
//! among them.

use mesh_core::names::{Layout, Mesh, Shape};
use mesh_core::program::Step;
use mesh_ops::prelude::*;
use ndarray::{ArrayD, IxDyn};

fn counting(shape: &[usize]) -> ArrayD<f32> {
    let size: usize = shape.iter().product();
    ArrayD::from_shape_vec(IxDyn(shape), (0..size).map(|i| i as f32).collect()).unwrap()
}

/// Reshapes an input and adds zero, so that the result is used where its layout wants it. Returns
/// the collectives with their received bytes.
fn reshape(mesh: &str, layout: &str, from: &str, onto: &str) -> Vec<String> {
    let (mesh, layout): (Mesh, Layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
    let (from, onto): (Shape, Shape) = (from.parse().unwrap(), onto.parse().unwrap());
    let g = mesh_ops::graph();
    let x = g.input("x", &from, F32);
    let y = x.reshape(&onto) + 0.0;
    let f = g.function("f", [x], [y], []);
    let module = g.lower(&mesh, &layout).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    session.set_replica_check(true).unwrap();
    let data = counting(&from.sizes());
    let [result] = session.call(&f, [data.view().into()]).unwrap();
    let expected = data.into_shape_with_order(IxDyn(&onto.sizes())).unwrap();
    assert_eq!(result.as_f32().unwrap(), &expected, "{from} -> {onto} under {layout}");
    let program = &module.functions()[0];
    let collective = |step: &Step| {
        let cost = mesh_core::program::cost(&program.block, step, &mesh);
        step.axes().map(|axes| format!("{}({}) {}", step.form.name(), mesh.list(axes), cost.sent))
    };
    program.steps().iter().filter_map(collective).collect()
}

#[test]
fn reshapes_move_what_they_must() {
    let gather = |bytes: usize| vec![format!("all_gather(all) {bytes}")];
    let exchange = |bytes: usize| vec![format!("all_to_all(all) {bytes}")];
    // mesh, layout, from, onto, collectives with bytes received by each processor
    let table = [
        ("all:4", "b:all", "b:8,x:6", "b:8,y:6", vec![]),
        ("all:4", "b:all", "b:8,x:6", "z:8,x:6", gather(144)),
        ("all:4", "b:all", "z:8,x:6", "b:8,x:6", vec![]),
        ("all:4", "b:all,c:all", "b:8,c2:4,x:3", "b2:8,c:4,x:3", exchange(72)),
        ("all:4", "b:all", "b:8", "b:4,i:2", vec![]),
        // Not implemented in Mesh TensorFlow.
        ("all:4", "b:all", "b:8", "i:2,b:4", gather(24)),
        ("all:4", "b:all", "b:8,x:6", "b:48", vec![]),
        ("all:4", "b:all", "a:6,b:8", "a2:2,a3:3,b:8", vec![]),
        ("all:2", "b:all", "a:6,b:8", "ab:48", gather(96)),
        ("all:2", "y:all", "a:6,b:8", "x:3,y:16", vec![]),
        // Broken in Mesh TensorFlow: the split dim is too small, or the exchange cuts 2 into 4.
        ("all:8", "c:all", "a:4,b:6", "c:24", vec![]),
        ("all:4", "b:all,c:all", "a:2,b:8", "c:16", gather(48)),
        ("all:4", "b:all,c:all", "b:8,x:2", "c:16", vec![]),
    ];
    for (mesh, layout, from, onto, expected) in table {
        assert_eq!(reshape(mesh, layout, from, onto), expected, "{from} -> {onto} under {layout}");
    }
}

#[test]
fn two_axes_move_apart() {
    let mesh = "r:2;c:2";
    let one = reshape(mesh, "b:r;h:c", "b:4,h:4", "b:4,hh:4");
    assert_eq!(one, ["all_gather(c) 16"]);
    let exchanged = reshape(mesh, "b:r;h:c;e:r", "b:4,e2:4,m:2", "b2:4,e:4,m:2");
    assert_eq!(exchanged, ["all_to_all(r) 32"]);
    let ordered = reshape(mesh, "b:r+c;d:c+r", "b:4,x:3", "d:4,x:3");
    assert_eq!(ordered, ["all_gather(r+c) 36"]);
    let prefix = reshape(mesh, "b:r+c;d:r", "b:4,x:3", "d:4,x:3");
    assert_eq!(prefix, ["all_gather(c) 12"]);
}

#[test]
fn a_pending_sum_that_is_wanted_split_is_scattered() {
    let g = mesh_ops::graph();
    let (k, b) = (dim("k", 8), dim("b", 8));
    let x = g.input("x", [k, b], F32);
    let y = x.sum([k]).rename(b, "c") + 0.0;
    g.function("f", [x], [y], []);
    let module = g.lower(&"all:4".parse().unwrap(), &"k:all;c:all".parse().unwrap()).unwrap();
    let forms: Vec<_> = module.functions()[0].steps().iter().map(|s| s.form.name()).collect();
    assert!(forms.contains(&"reduce_scatter") && !forms.contains(&"all_reduce"), "{forms:?}");
}

/// Scalars that are pending over different axes, or not pending, are added first and reduced once.
#[test]
fn many_sums_are_settled_together() {
    let g = mesh_ops::graph();
    let (a, b) = (dim("a", 4), dim("b", 4));
    let x = g.input("x", [a, b], F32);
    let whole = g.input("whole", [], F32);
    let parts = [x.sum([b]).pick(a, 0), whole, x.pick(b, 1).sum([a]), x.square().sum_all()];
    let f = g.function("f", [x, whole], [mesh_ops::add_n(x.sum_all(), &parts)], []);
    let data = ndarray::Array2::from_shape_fn((4, 4), |(i, j)| (i * 4 + j) as f32);
    let run = |mesh: &str, layout: &str| {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let reductions = module.explain().functions[0].collectives().count();
        let mut session = Session::threads(&module, 0).unwrap();
        let one = ndarray::arr0(1.0_f32);
        let [sum] = session.call(&f, [data.view().into(), one.view().into()]).unwrap();
        (sum.item().unwrap(), reductions)
    };
    let expected = 120.0 + 6.0 + 1.0 + 28.0 + 1240.0;
    assert_eq!(run("", ""), (expected, 0));
    for layout in ["a:m", "b:n", "a:m;b:n", "a:m+n"] {
        assert_eq!(run("m:2;n:2", layout), (expected, 1), "{layout}");
    }
}

//! Recomputation and custom gradients.

use super::{FEW, check};
use mesh_ops::prelude::*;
use mesh_ops::testing::Case;
use tests::on_host;

#[test]
fn recomputed_blocks_give_the_same_gradients() {
    let layers = dim("layers", 2);
    check(
        Case::new("recompute", move |g, x| {
            let [y] = g.recompute([x[0]], |[x0]| [(x0 * x[1]).tanh() * x[1]]);
            let ([z], []) = g.scan(layers, [y], [x[2]], |[h], [w]| {
                let [h] = g.recompute([h], |[h]| [((h * w).tanh() * h).tanh()]);
                ([h], [])
            });
            z
        })
        .normal("x", "b:4;d:4", F32)
        .normal("y", "d:4", F32)
        .normal("w", "layers:2;d:4", F32)
        .meshes(FEW),
    );
}

/// Row 61 of Mesh TensorFlow's tests: x² + x at 5 and 10 with cotangents 2 and 3.
#[test]
fn recompute_changes_no_number() {
    let g = mesh_ops::graph();
    let d = dim("d", 2);
    let (x, dy) = (g.input("x", [d], F32), g.input("dy", [d], F32));
    let [y] = g.recompute([x], |[x]| [x * x + x]);
    let dx = g.gradients(&[y], &[x], Some(&[dy]))[0].unwrap();
    let f = g.function("f", [x, dy], [y, dx], []);
    let module = g.lower(&"processors:2".parse().unwrap(), &"d:processors".parse().unwrap());
    let mut session = Session::threads(&module.unwrap(), 0).unwrap();
    let (x, dy) = (ndarray::arr1(&[5.0_f32, 10.0]), ndarray::arr1(&[2.0_f32, 3.0]));
    let [y, dx] = session.call(&f, [x.view().into(), dy.view().into()]).unwrap();
    assert_eq!(y, ndarray::arr1(&[30.0_f32, 110.0]).into());
    assert_eq!(dx, ndarray::arr1(&[22.0_f32, 63.0]).into());
}

/// A variable whose value is first asked for in a recomputed part is not a part of it.
#[test]
fn variables_made_in_recomputed_parts_are_trained() {
    let g = mesh_ops::graph();
    let d = dim("d", 2);
    let x = g.input("x", [d], F32);
    let [y] =
        g.recompute([x], |[x]| [x * g.variable("w", [d], F32, Initializer::ONES).value().square()]);
    let gradients = mesh_optimize::compute_gradients(y, &[]);
    let dw = gradients[0].0.expect("a gradient");
    let f = g.function("f", [x], [dw], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let [dw] = session.call(&f, [ndarray::arr1(&[0.5_f32, -3.5]).view().into()]).unwrap();
    assert_eq!(dw, ndarray::arr1(&[1.0_f32, -7.0]).into());
}

fn deep(mut h: Tensor<'_>, d: Dimension) -> Tensor<'_> {
    for _ in 0..8 {
        h = (h.tanh() * h).cumsum(d).sin();
    }
    h
}

/// The backward pass keeps only the inputs of recomputed parts: memory grows with one part, not
/// with all.
#[test]
fn recomputation_saves_memory() {
    let arena = |recompute: bool| {
        let g = mesh_ops::graph();
        let d = dim("d", 4096);
        let x = g.input("x", [d], F32);
        let mut h = x;
        for _ in 0..8 {
            h = if recompute { g.recompute([h], |[h]| [deep(h, d)])[0] } else { deep(h, d) };
        }
        let dx = g.gradients(&[h], &[x], None)[0].unwrap();
        g.function("f", [x], [dx], []);
        let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        on_host(&module)[0].plan.arena_bytes
    };
    let (kept, recomputed) = (arena(false), arena(true));
    assert!(recomputed * 4 < kept, "{recomputed} bytes, {kept} without");
}

#[test]
fn gradients_of_ones_own() {
    // A straight-through floor and a clipped cotangent.
    let g = mesh_ops::graph();
    let d = dim("d", 2);
    let x = g.input("x", [d], F32);
    let [y] = g.custom_gradient([x], |[x]| [x.floor()], |cx| vec![Some(cx.dy())]);
    let [z] = g.custom_gradient([y], |[y]| [y], |cx| vec![Some(cx.dy().clip(-1.0, 1.0))]);
    let dx = g.gradients(&[z * z], &[x], None)[0].unwrap();
    let f = g.function("f", [x], [z, dx], []);
    for layout in ["", "d:a"] {
        let module = g.lower(&"a:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let [z, dx] = session.call(&f, [ndarray::arr1(&[0.25_f32, -3.5]).view().into()]).unwrap();
        assert_eq!(z, ndarray::arr1(&[0.0_f32, -4.0]).into());
        assert_eq!(dx, ndarray::arr1(&[0.0_f32, -1.0]).into());
    }
}

/// Identity forward; backward a cotangent of root mean square 2 is halved.
#[test]
fn clipped_activation_gradients() {
    let g = mesh_ops::graph();
    let d = dim("d", 4);
    let (x, dy) = (g.input("x", [d], F32), g.input("dy", [d], F32));
    let y = mesh_ops::layers::clip_activation_gradient(x, 1.0);
    let dx = g.gradients(&[y], &[x], Some(&[dy]))[0].unwrap();
    let f = g.function("f", [x, dy], [dx], []);
    for layout in ["", "d:a"] {
        let module = g.lower(&"a:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let mut run = |dy: [f32; 4]| {
            let (x, dy) = (ndarray::arr1(&[1.0_f32; 4]), ndarray::arr1(&dy));
            session.call(&f, [x.view().into(), dy.view().into()]).unwrap()[0].clone()
        };
        assert_eq!(run([2.0, -2.0, 2.0, -2.0]), ndarray::arr1(&[1.0_f32, -1.0, 1.0, -1.0]).into());
        assert_eq!(run([0.5, 0.0, 0.0, 0.0]), ndarray::arr1(&[0.5_f32, 0.0, 0.0, 0.0]).into());
    }
}

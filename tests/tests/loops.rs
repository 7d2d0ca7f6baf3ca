//! Loops, recomputation, gradients of the user's own, probes: under every legal layout, with their
//! gradients, and with the collectives that they should cost.

use mesh_core::graph::Issue;
use mesh_ops::elementwise::less;
use mesh_ops::prelude::*;
use mesh_ops::testing::Case;
use std::sync::{Arc, Mutex};

fn check(case: Case) {
    if let Err(message) = case.check() {
        panic!("{message}");
    }
}

const FEW: &[&str] = &["a:2", "a:4", "a:2;b:2"];

#[test]
fn a_scan_over_layers() {
    let layers = dim("layers", 3);
    check(
        Case::new("scan", move |g, x| {
            let ([y], [all]) = g.scan(layers, [x[0]], [x[1]], |[h], [w]| {
                let next = (h * w).tanh() + h;
                ([next], [next * w])
            });
            y + all.sum([layers])
        })
        .normal("x", "b:4;d:4", F32)
        .normal("w", "layers:3;d:4", F32)
        .meshes(FEW),
    );
}

#[test]
fn what_a_scan_captures_has_a_gradient() {
    let steps = dim("steps", 3);
    check(
        Case::new("captured", move |g, x| {
            // Both are captured, and one is computed from the other.
            let twice = x[1].tanh();
            let ([y], []) =
                g.scan(steps, [x[0]], [x[2]], |[h], [x_t]| ([(h * x[1]).tanh() * twice + x_t], []));
            y
        })
        .normal("x", "b:4;d:4", F32)
        .normal("w", "d:4", F32)
        .normal("xs", "b:4;steps:3", F32)
        .meshes(FEW),
    );
}

#[test]
fn a_matrix_product_in_each_round() {
    let (layers, d, e) = (dim("layers", 2), dim("d", 4), dim("e", 4));
    check(
        Case::new("products", move |g, x| {
            let ([y], []) = g.scan(layers, [x[0]], [x[1], x[2]], |[h], [up, down]| {
                let hidden = h.einsum(&[up], [dim("b", 4), e]).relu();
                ([h + hidden.einsum(&[down], [dim("b", 4), d])], [])
            });
            y
        })
        .normal("x", "b:4;d:4", F32)
        .normal("up", "layers:2;d:4;e:4", F32)
        .normal("down", "layers:2;e:4;d:4", F32)
        .meshes(FEW),
    );
}

#[test]
fn loops_within_loops() {
    let (outer, inner) = (dim("outer", 2), dim("inner", 3));
    check(
        Case::new("nested", move |g, x| {
            let ([y], []) = g.scan(outer, [x[0]], [x[1]], |[h], [w]| {
                let ([h], [seen]) = g.scan(inner, [h], [w], |[h], [v]| ([(h * v).tanh()], [h * h]));
                ([h + seen.sum([inner])], [])
            });
            y
        })
        .normal("x", "b:4", F32)
        .normal("w", "outer:2;inner:3;b:4", F32)
        .meshes(FEW),
    );
}

/// D3: what a round leaves as partial sums must not be taken for sums by the next.
#[test]
fn sums_over_split_dims_carried_by_a_while_loop() {
    check(
        Case::new("while", |g, x| {
            let zero = g.scalar(0.0, F32);
            let [_, total, _] = g.while_loop(
                [zero, x[0].sum_all() * 0.0, x[0]],
                |[i, _, _]| less(i, g.scalar(3.0, F32)),
                |[i, total, x]| [i + 1.0, total + x.sum_all(), x * 2.0 + total],
            );
            total
        })
        .without_gradient()
        .exact()
        .integers("x", "b:4;d:4", F32)
        .meshes(FEW),
    );
}

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

fn deep(mut h: Tensor<'_>) -> Tensor<'_> {
    for _ in 0..8 {
        h = (h.tanh() * h).sin();
    }
    h
}

/// The backward pass keeps the blocks' inputs only: memory grows with one block, not with all.
#[test]
fn recomputation_saves_memory() {
    let arena = |recompute: bool| {
        let g = mesh_ops::graph();
        let d = dim("d", 4096);
        let x = g.input("x", [d], F32);
        let mut h = x;
        for _ in 0..8 {
            h = if recompute { g.recompute([h], |[h]| [deep(h)])[0] } else { deep(h) };
        }
        let dx = g.gradients(&[h], &[x], None)[0].unwrap();
        g.function("f", [x], [dx], []);
        let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        module.functions[0].plan.arena_bytes
    };
    let (kept, recomputed) = (arena(false), arena(true));
    assert!(recomputed * 4 < kept, "{recomputed} bytes, {kept} without");
}

#[test]
fn gradients_of_ones_own() {
    // A straight-through floor, and a clipped cotangent.
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

/// Gradient accumulation: sums over the split batch are owed through all rounds.
#[test]
fn accumulated_gradients_are_reduced_once() {
    let g = mesh_ops::graph();
    let (micro, batch, d) = (dim("micro", 4), dim("batch", 8), dim("d", 4));
    let x = g.input("x", [micro, batch, d], F32);
    let w = g.variable("w", [d], F32, Initializer::Constant(0.5));
    let ([loss, grad], []) =
        g.scan(micro, [g.scalar(0.0, F32), w.value().fill_like(0.0)], [x], |[loss, sum], [x]| {
            let here = (x * w.value()).square().mean();
            let grad = g.gradients(&[here], &[w.value()], None)[0].unwrap();
            ([loss + here, sum + grad], [])
        });
    g.function("train", [x], [loss], [w.assign_sub(grad * 0.1)]);
    let module = g.lower(&"a:2".parse().unwrap(), &"batch:a".parse().unwrap()).unwrap();
    let explain = module.explain();
    let reductions = explain.functions[0].collectives().count();
    assert_eq!(reductions, 2, "{explain}");
    assert!(explain.functions[0].collectives().all(|(form, _, _)| form == "all_reduce"));
}

/// A function that does not train stacks nothing for gradients.
#[test]
fn what_is_saved_for_gradients_is_not_saved_without() {
    let g = mesh_ops::graph();
    let (layers, d) = (dim("layers", 3), dim("d", 4));
    let (x, w) = (g.input("x", [d], F32), g.input("w", [layers, d], F32));
    let ([y], []) = g.scan(layers, [x], [w], |[h], [w]| ([(h * w).tanh()], []));
    let dw = g.gradients(&[y], &[w], None)[0].unwrap();
    g.function("eval", [x, w], [y], []);
    g.function("train", [x, w], [y, dw], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let stacks = |function: &str| module.print(function).unwrap().matches("stack %").count();
    assert_eq!((stacks("eval"), stacks("train")), (0, 3));
}

#[test]
fn probes_show_global_values() {
    let g = mesh_ops::graph();
    let d = dim("d", 4);
    let x = g.input("x", [d], F32);
    let y = (x * 2.0).probe("doubled").sum_all();
    let dx = g.gradients(&[y], &[x], None)[0].unwrap();
    let f = g.function("f", [x], [y, dx], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"d:a".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&seen);
    session.watch(move |label, array| {
        inside.lock().unwrap().push((label.to_owned(), array.clone()));
    });
    let x = ndarray::arr1(&[1.0_f32, 2.0, 3.0, 4.0]);
    for _ in 0..2 {
        let [y, _] = session.call(&f, [x.view().into()]).unwrap();
        assert_eq!(y.item(), Some(20.0));
    }
    let wanted = ("doubled".to_owned(), (&x * 2.0).into());
    assert_eq!(*seen.lock().unwrap(), [wanted.clone(), wanted]);
}

#[test]
fn depend_keeps_the_other_tensor() {
    let g = mesh_ops::graph();
    let d = dim("d", 4);
    let x = g.input("x", [d], F32);
    let y = (x + 1.0).depend(&[x.sin()]);
    let dx = g.gradients(&[y], &[x], None)[0].unwrap();
    g.function("f", [x], [y, dx], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"d:a".parse().unwrap()).unwrap();
    assert!(module.print("f").unwrap().contains("map sin"));
}

fn issues(build: impl Fn(&Graph)) -> Vec<String> {
    let g = mesh_ops::graph();
    build(&g);
    let report = g.check().unwrap_err();
    report.issues.iter().map(|Issue { message, .. }| message.clone()).collect()
}

#[test]
fn loops_that_mean_nothing_are_refused() {
    let (steps, d) = (dim("steps", 2), dim("d", 2));
    let found = issues(|g| {
        let x = g.input("x", [d], F32);
        let mut leaked = x;
        g.scan(steps, [x], [], |[h], []| {
            leaked = h + 1.0;
            ([h], [])
        });
        let _ = leaked + x;
    });
    assert!(found[0].contains("return it from the body"), "{found:?}");
    let found = issues(|g| {
        let x = g.input("x", [d], F32);
        g.scan(steps, [x], [], |[h], []| ([h.sum([d])], []));
    });
    assert!(found[0].contains("is carried, but the body returns"), "{found:?}");
    let found = issues(|g| {
        let x = g.input("x", [d], F32);
        g.scan(steps, [], [x], |[], [x]| ([], [x]));
    });
    assert!(found[0].contains("has no dim steps"), "{found:?}");
    let found = issues(|g| {
        let x = g.input("x", [d], F32);
        let [y] = g.while_loop([x], |[x]| less(x.sum_all(), g.scalar(9.0, F32)), |[x]| [x * 2.0]);
        g.gradients(&[y], &[x], None);
    });
    assert!(found[0].contains("a while loop has no gradient"), "{found:?}");
    let found = issues(|g| {
        let v = g.variable("v", [d], F32, Initializer::Constant(0.0));
        g.scan(steps, [v.value()], [], |[h], []| {
            let _ = v.assign(h);
            ([h.probe("h")], [])
        });
    });
    assert!(found[0].contains("an update cannot stand in a loop's body"), "{found:?}");
    assert!(found[1].contains("a probe cannot stand in a loop's body"), "{found:?}");
}

/// Row 64: the gradients of the whole batch, with one reduction each, wherever the batch lies.
#[test]
fn microbatches_give_the_gradients_of_the_batch() {
    let (batch, x, y) = (dim("batch", 8), dim("x", 4), dim("y", 6));
    let run = |parts: usize, mesh: &str, layout: &str| {
        let g = mesh_ops::graph();
        let input = g.input("input", [batch, x], F32);
        let (loss, grads) = mesh_optimize::microbatches(&g, batch, parts, &[input], |part| {
            part[0].dense(y, "layer").tanh().square().mean()
        });
        let grads: Vec<_> = grads.into_iter().map(|(grad, _)| grad.unwrap()).collect();
        let f = g.function("f", [input], [loss, grads[0], grads[1]], []);
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let collectives = module.explain().functions[0].collectives().count();
        let mut session = Session::threads(&module, 0).unwrap();
        let data =
            ndarray::Array2::from_shape_fn((8, 4), |(i, j)| (i * 5 + j * 3 % 7) as f32 / 9.0);
        (session.call(&f, [data.view().into()]).unwrap(), collectives)
    };
    let (whole, _) = run(1, "", "");
    for (parts, mesh, layout, reductions) in
        [(4, "", "", 0), (4, "a:2", "batch:a", 3), (2, "a:2;b:2", "batch:a;y:b", 3)]
    {
        let (found, collectives) = run(parts, mesh, layout);
        assert_eq!(collectives, reductions, "{parts} {mesh} {layout}");
        for (found, whole) in found.iter().zip(&whole) {
            let gap = (found.to_f64() - whole.to_f64()).mapv(f64::abs);
            assert!(gap.iter().all(|&gap| gap < 1e-6), "{parts} {mesh} {layout}: {gap}");
        }
    }
}

/// A sharded stack of weights is gathered layer by layer, inside the rounds.
#[test]
fn sharded_layers_are_gathered_one_at_a_time() {
    let g = mesh_ops::graph();
    let (layers, batch, d) = (dim("layers", 4), dim("batch", 4), dim("d", 64));
    let e = dim("e", 64);
    let x = g.input("x", [batch, d], F32);
    let w = g.variable("w", [layers, d, e], F32, Initializer::Constant(0.01));
    let ([y], []) = g.scan(layers, [x], [w.value()], |[h], [w]| {
        ([h.einsum(&[w], [batch, e]).rename(e, "d").relu()], [])
    });
    let grad = g.gradients(&[y.mean()], &[w.value()], None)[0].unwrap();
    g.function("train", [x], [y.mean()], [w.assign_sub(grad * 0.1)]);
    let arena = |layout: &str| {
        let module = g.lower(&"a:4".parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let text = module.print("train").unwrap();
        (module.functions[0].plan.arena_bytes, text)
    };
    let (_, text) = arena("batch:a;params/d:a");
    let inside =
        text.lines().filter(|line| line.starts_with("      ") && line.contains("all_gather"));
    assert_eq!(inside.count(), 2, "{text}");
    assert_eq!(text.matches("all_gather").count(), 2, "{text}");
    assert_eq!(text.matches("reduce_scatter").count(), 1, "{text}");
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

//! Loops, recomputation, custom gradients and probes: under the legal layouts, with their
//! gradients, and with the expected collectives.

use mesh_core::graph::Issue;
use mesh_core::program::{Form, Instr, Prim};
use mesh_ops::elementwise::less;
use mesh_ops::prelude::*;
use mesh_ops::testing::Case;
use std::sync::{Arc, Mutex};

mod handed;
mod nested;
mod pending;
mod recompute;
mod refused;
mod replace;
mod reversible;
mod tiles;

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
            // Both tensors are captured, and one is computed from the other.
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
fn a_matrix_product_in_each_iteration() {
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

/// D3: an iteration must not take the partial sums of the previous one for sums.
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
    let f = g.function("f", [x], [y, dx], []);
    g.function("alone", [x], [x + 1.0], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"d:a".parse().unwrap()).unwrap();
    let sines = |function: &str| {
        let steps = module.function(function).unwrap().steps().iter();
        let bodies = steps.filter_map(|step| match &step.form {
            Form::Map(form) => Some(&form.body.code),
            _ => None,
        });
        let of_sine = |(instr, _): &&(Instr, _)| matches!(instr, Instr::Apply(Prim::Sin, _));
        bodies.flatten().filter(of_sine).count()
    };
    assert_eq!((sines("f"), sines("alone")), (1, 0));
    let x = ndarray::arr1(&[0f32, 1.0, 2.0, 3.0]);
    let [y, dx] = Session::threads(&module, 0).unwrap().call(&f, [x.view().into()]).unwrap();
    assert_eq!(
        (y, dx),
        (Array::from((&x + 1.0).into_dyn()), Array::from((&x * 0.0 + 1.0).into_dyn()))
    );
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

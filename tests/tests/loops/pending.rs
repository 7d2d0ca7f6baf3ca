//! Sums that stay pending through a loop are reduced once, after the last iteration, if no
//! iteration needs them. Slices that are gathered are gathered in each iteration.

use mesh_core::lower::Module;
use mesh_core::program::Form;
use mesh_ops::prelude::*;

/// The number of steps of this form in the bodies of the first function's loops.
fn inside(module: &Module, form: &str) -> usize {
    let text = module.print(&module.functions()[0].name).unwrap();
    text.lines().filter(|line| line.starts_with("      ") && line.contains(form)).count()
}

/// The number of values that are all-reduced outside loops, counted one by one.
fn reduced(module: &Module) -> usize {
    let steps = module.functions()[0].steps().iter();
    let all_reduces = steps.filter(|step| matches!(step.form, Form::AllReduce(_)));
    all_reduces.map(|step| step.outs.len()).sum()
}

/// Gradient accumulation: sums over the split batch are pending through all iterations.
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
    assert_eq!(reduced(&module), 2, "{explain}");
    assert!(explain.functions[0].collectives().all(|(form, _, _)| form == "all_reduce"));
    assert_eq!(inside(&module, "all_reduce"), 0, "{explain}");
}

/// Sums are pending over those axes over which an iteration leaves them pending, in any dtype. A
/// tensor that an iteration uses, or leaves whole, is carried whole.
#[test]
fn pending_sums_are_settled_once_where_no_iteration_needs_them() {
    type Next = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;
    let (rounds, p, q) = (dim("rounds", 3), dim("p", 4), dim("q", 4));
    let table: [(Next, &str, usize, usize); 7] = [
        (|h, x| h + x.sum_all(), "p:a", 1, 0),
        (|h, x| h + x.sum_all(), "p:a;q:b", 1, 0),
        (|h, x| (h + x.sum_all()) * 2.0, "p:a", 1, 0),
        (|h, x| h + x.sum_all() - x.square().sum_all(), "p:a;q:b", 1, 0),
        (|h, x| h.square() + x.sum_all(), "p:a", 1, 1),
        (|h, _| h * 2.0, "p:a", 0, 0),
        (|h, x| h + x.max([dim("p", 4), dim("q", 4)]), "p:a", 1, 1),
    ];
    for (i, (next, layout, all, in_rounds)) in table.into_iter().enumerate() {
        for dtype in [F32, BF16] {
            let g = mesh_ops::graph();
            let x = g.input("x", [rounds, p, q], F32);
            let start = g.scalar(1.0, dtype);
            let ([h], []) = g.scan(rounds, [start], [x.cast(dtype)], |[h], [x]| ([next(h, x)], []));
            let f = g.function("f", [x], [h.cast(F32)], []);
            let run = |layout: &str| {
                let module =
                    g.lower(&"a:2;b:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
                let collectives = module.explain().functions[0].collectives().count();
                let mut session = Session::threads(&module, 0).unwrap();
                let data = ndarray::Array3::from_shape_fn((3, 4, 4), |(i, j, k)| {
                    ((i * 7 + j * 5 + k * 3) % 4) as f32 - 1.0
                });
                let [h] = session.call(&f, [data.view().into()]).unwrap();
                (h, collectives, inside(&module, "all_reduce"))
            };
            let (alone, (found, collectives, within)) = (run("").0, run(layout));
            assert_eq!(found, alone, "{i} {dtype}");
            assert_eq!((collectives, within), (all, in_rounds), "{i} {dtype}");
        }
    }
}

/// Row 64: microbatches give the gradients of the whole batch with one reduction each, wherever the
/// batch lies.
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
        let collectives = reduced(&module);
        assert_eq!(inside(&module, "all_reduce"), 0, "{mesh} {layout}");
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

/// A sharded stack of weights is gathered layer by layer, inside the loop.
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
    let module = g.lower(&"a:4".parse().unwrap(), &"batch:a;params/d:a".parse().unwrap()).unwrap();
    let text = module.print("train").unwrap();
    let inside =
        text.lines().filter(|line| line.starts_with("      ") && line.contains("all_gather"));
    assert_eq!(inside.count(), 2, "{text}");
    assert_eq!(text.matches("all_gather").count(), 2, "{text}");
    assert_eq!(text.matches("reduce_scatter").count(), 1, "{text}");
}

//! Loops within loops.

use mesh_core::graph::{GradCx, Op, OpError, Signature, TensorType};
use mesh_core::lower::LocalCx;
use mesh_core::split::SplitRule;
use mesh_ops::prelude::*;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Doubles its input, and counts how often lowering asks for its split rule.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Counted;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

impl Op for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }

    fn split(&self, _: Signature<'_>) -> SplitRule {
        ASKED.set(ASKED.get() + 1);
        SplitRule::parallel()
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let twice = mesh_core::program::Expr::input(0) * 2.0;
        let dtype = cx.output_dtype(0);
        let out = cx.map(&cx.inputs(), &twice, dtype)?;
        cx.finish(0, out)
    }

    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        Ok(vec![Some(cx.dy().graph().apply1(Counted, &[cx.dy()]))])
    }
}

/// Nested loops. Each adds to a pending sum and needs another sum whole.
fn nest<'g>(g: &'g Graph, depth: usize, x: Tensor<'g>, w: Tensor<'g>) -> Tensor<'g> {
    let p = dim("p", 4);
    if depth == 0 {
        return g.apply1(Counted, &[x]);
    }
    let rounds = dim(&format!("rounds{depth}"), 2);
    let ([y, total], []) = g.scan(rounds, [x, x], [], |[h, total], []| {
        let within = nest(g, depth - 1, h, w);
        let part = (w * g.apply1(Counted, &[within])).sum([p]);
        ([part.tanh() + h, total + part], [])
    });
    y + total
}

/// How often lowering asks for split rules when loops are nested so deep, with their gradient.
fn asked(depth: usize, mesh: &str, layout: &str) -> usize {
    let g = mesh_ops::graph();
    let (p, q) = (dim("p", 4), dim("q", 4));
    let (x, w) = (g.input("x", [q], F32), g.input("w", [p, q], F32));
    let y = nest(&g, depth, x, w);
    let dw = g.gradients(&[y.sum_all()], &[w], None)[0].unwrap();
    g.function("f", [x, w], [y, dw], []);
    let before = ASKED.get();
    g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    ASKED.get() - before
}

/// Each level costs as much as the level around it.
#[test]
fn nested_loops_cost_what_their_number_costs() {
    for (mesh, layout) in [("", ""), ("a:2;b:2", "p:a;q:b")] {
        let counts = [3, 6, 12].map(|depth| asked(depth, mesh, layout));
        let [few, more, most] = counts;
        // A linear cost would be twice as much.
        assert!(few > 0 && more <= 3 * few && most <= 3 * more, "{mesh} {layout}: {counts:?}");
    }
}
/// The shortest of several times of lowering.
fn time(depth: usize) -> Duration {
    let once = |_| {
        let begun = Instant::now();
        asked(depth, "a:2;b:2", "p:a;q:b");
        begun.elapsed()
    };
    (0..3).map(once).min().unwrap()
}

/// The time of all of lowering does not grow exponentially with the depth: a pass, too, visits an
/// inner loop at most once per loop around it.
#[test]
fn nested_loops_take_no_power_of_their_number() {
    let (few, many) = (time(6), time(18));
    // A quadratic cost would be 9 times as much; an exponential one, however small its base, more
    // than the bound.
    assert!(many < 40 * few, "6 levels take {few:?}, 18 take {many:?}");
}

/// Tensors larger than any memory are lowered as quickly as small ones.
#[test]
fn lowering_does_not_count_elements() {
    let time = |size| {
        let g = mesh_ops::graph();
        let (rows, row) = (dim("rows", size), dim("row", 4));
        let x = g.input("x", [rows, row], F32);
        let y = (x.softmax(row) * x).sum_all();
        let dx = g.gradients(&[y], &[x], None)[0].unwrap();
        g.function("f", [x], [y, dx], []);
        let once = |_| {
            let begun = Instant::now();
            let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
            assert!(module.print("f").unwrap().contains("loop"));
            begun.elapsed()
        };
        (0..3).map(once).min().unwrap()
    };
    let small = time(1 << 20);
    for size in [1 << 30, 1 << 44, (1 << 40) - 87] {
        let large = time(size);
        // There are at least 2^10 times as many elements.
        assert!(large < 40 * small, "2^20 rows take {small:?}, {size} take {large:?}");
    }
}

//! The fixed gradients and the small model of `tests/golden/optimizers/problem.py`.

use mesh_ops::prelude::*;
use mesh_optimize::{Optimizer, Sophia, compute_gradients};
use ndarray::{ArrayD, IxDyn};
use std::collections::BTreeMap;

pub(crate) const STEPS: usize = 30;
/// Of the matrix the values after these steps are kept, of the others those after the last.
const KEPT: [usize; 3] = [1, 2, STEPS];
/// The variables with their dims.
pub(crate) const FIXED: [(&str, &[(&str, usize)]); 3] = [
    ("vector", &[("cols", 4)]),
    ("matrix", &[("rows", 4), ("cols", 4)]),
    ("cube", &[("stack", 2), ("rows", 4), ("cols", 4)]),
];
/// Gradients are sums over so many examples; a quarter of a multiple of 1/64 is exact.
const BATCH: usize = 4;
/// How many random legal layouts a case is tried under.
const DRAWN: usize = 2;

/// A multiple of 1/64 between -1 and 1.
fn number(salt: usize, step: usize, index: usize) -> f64 {
    let mixed = (37 * index + 101 * step + 13 * index * step + 29 * salt) % 127;
    (mixed as f64 - 63.0) / 64.0
}

/// Numbers in declared order.
pub(crate) fn numbers(salt: usize, step: usize, shape: &[usize], scale: f64) -> ArrayD<f64> {
    let count = shape.iter().product();
    let flat = (0..count).map(|index| scale * number(salt, step, index)).collect();
    ArrayD::from_shape_vec(IxDyn(shape), flat).unwrap()
}

fn sizes(dims: &[(&str, usize)]) -> Vec<usize> {
    dims.iter().map(|(_, size)| *size).collect()
}

fn as_dtype(array: ArrayD<f64>, dtype: DType) -> Array {
    if dtype == F64 { array.into() } else { array.mapv(|x| x as f32).into() }
}

/// An optimizer, and whether it is Sophia, whose curvature is renewed in every tenth step.
pub(crate) struct Run<'a> {
    pub(crate) optimizer: &'a dyn Optimizer,
    pub(crate) curvature: Option<&'a Sophia>,
}

impl Run<'_> {
    /// The updates by gradients; with curvature, also those of curvature by the gradients' squares.
    fn updates<'g>(
        &self,
        grads: &[(Option<Tensor<'g>>, Variable<'g>)],
        look: bool,
    ) -> Vec<Update<'g>> {
        let mut updates = self.optimizer.apply_grads(grads);
        if let Some(sophia) = self.curvature.filter(|_| look) {
            let squares = grads.iter().map(|(grad, v)| (grad.map(|grad| grad.square()), *v));
            updates.extend(sophia.curvature(&squares.collect::<Vec<_>>()));
        }
        updates
    }

    /// The kept values of the variables that are given fixed gradients.
    pub(crate) fn fixed(
        &self,
        dtype: DType,
        mesh: &str,
        layout: &str,
    ) -> Result<BTreeMap<&'static str, Vec<Vec<f64>>>, String> {
        let starts = |i: usize, dims: &[(&str, usize)]| numbers(i, 0, &sizes(dims), 2.0);
        let g = mesh_ops::graph();
        let of = FIXED.map(|(name, dims)| {
            let dims: Vec<_> = dims.iter().map(|&(name, size)| dim(name, size)).collect();
            let batch = [dim("batch", BATCH)];
            let all = batch.into_iter().chain(dims.iter().copied());
            let part = g.input(&format!("{name} gradient"), all, dtype);
            (g.variable(name, dims, dtype, Initializer::ZEROS), part, part.sum(batch))
        });
        let feeds = of.map(|(_, part, _)| part);
        let grads = of.map(|(variable, _, grad)| (Some(grad), variable));
        let train = g.function("train", feeds, [], self.updates(&grads, false));
        let look = g.function("look", feeds, [], self.updates(&grads, true));
        let module = g
            .lower(&mesh.parse().unwrap(), &layout.parse().unwrap())
            .map_err(|report| report.to_string())?;
        let mut session = Session::threads(&module, 0).unwrap();
        session.set_replica_check(true).unwrap();
        for (i, (name, dims)) in FIXED.iter().enumerate() {
            write(&mut session, name, starts(i, dims), dtype);
        }
        let mut kept = BTreeMap::from(FIXED.map(|(name, _)| (name, Vec::new())));
        for step in 1..=STEPS {
            let parts = [0, 1, 2].map(|i| {
                let shape = sizes(FIXED[i].1);
                let part = numbers(i, step, &shape, 1.0 / BATCH as f64);
                let all = [&[BATCH][..], &shape].concat();
                as_dtype(part.broadcast(IxDyn(&all)).unwrap().to_owned(), dtype)
            });
            let function = if step % 10 == 1 { &look } else { &train };
            let [] = session.call(function, parts.each_ref().map(|part| part.view())).unwrap();
            for (name, values) in &mut kept {
                if step == STEPS || *name == "matrix" && KEPT.contains(&step) {
                    values.push(read(&session, name));
                }
            }
        }
        Ok(kept)
    }

    /// The cube at the end, from runs of each of its halves alone.
    pub(crate) fn halves_of_the_cube(&self) -> Vec<f64> {
        let (_, dims) = FIXED[2];
        let half = |values: ArrayD<f64>, i: usize| values.index_axis_move(ndarray::Axis(0), i);
        let run = |i: usize| {
            let g = mesh_ops::graph();
            let own: Vec<_> = dims[1..].iter().map(|&(name, size)| dim(name, size)).collect();
            let grad = g.input("grad", own.iter().copied(), F64);
            let w = g.variable("w", own, F64, Initializer::ZEROS);
            let train = g.function("train", [grad], [], self.updates(&[(Some(grad), w)], false));
            let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
            let mut session = Session::threads(&module, 0).unwrap();
            write(&mut session, "w", half(numbers(2, 0, &sizes(dims), 2.0), i), F64);
            for step in 1..=STEPS {
                let grad = half(numbers(2, step, &sizes(dims), 1.0), i);
                let [] = session.call(&train, [grad.view().into()]).unwrap();
            }
            read(&session, "w")
        };
        [run(0), run(1)].concat()
    }
}

fn write(session: &mut Session, name: &str, values: ArrayD<f64>, dtype: DType) {
    match dtype {
        F64 => session.write(name, &values).unwrap(),
        _ => session.write(name, &values.mapv(|x| x as f32)).unwrap(),
    }
}

fn read(session: &Session, variable: &str) -> Vec<f64> {
    session.read(variable).unwrap().to_f64().into_iter().collect()
}

/// The losses of a network of two layers before every tenth step, in f64.
pub(crate) fn model_losses(run: &Run<'_>) -> Vec<f64> {
    let g = mesh_ops::graph();
    let [examples, inputs, hidden, outputs] =
        [("examples", 4), ("inputs", 3), ("hidden", 4), ("outputs", 2)].map(|(n, s)| dim(n, s));
    let [x, y] =
        [("x", inputs), ("y", outputs)].map(|(name, width)| g.input(name, [examples, width], F64));
    let kernel = |name, dims| g.variable(name, dims, F64, Initializer::ZEROS);
    let (first, second) = (kernel("first", [inputs, hidden]), kernel("second", [hidden, outputs]));
    let inner = x.einsum(&[first.value()], [examples, hidden]).tanh();
    let loss = (inner.einsum(&[second.value()], [examples, outputs]) - y).square().mean();
    let grads = compute_gradients(loss, &[]);
    let train = g.function("train", [x, y], [loss], run.updates(&grads, false));
    let look = g.function("look", [x, y], [loss], run.updates(&grads, true));
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    write(&mut session, "first", numbers(7, 1, &[3, 4], 1.0), F64);
    write(&mut session, "second", numbers(8, 1, &[4, 2], 1.0), F64);
    let (x, y) = (numbers(5, 1, &[4, 3], 1.0), numbers(6, 1, &[4, 2], 1.0));
    let mut losses = Vec::new();
    for step in 1..=STEPS {
        let function = if step % 10 == 1 { &look } else { &train };
        let [loss] = session.call(function, [x.view().into(), y.view().into()]).unwrap();
        if step % 10 == 0 {
            losses.push(loss.item().unwrap());
        }
    }
    losses
}

/// Legal layouts whose rules for computations, parameters and slots are drawn: each of two axes splits one dim,
/// or none.
pub(crate) fn random_layouts(seed: u64) -> Vec<(String, String)> {
    const DIMS: [&str; 5] = ["", "batch", "stack", "rows", "cols"];
    const AT_REST: [&str; 6] = ["", "*:d", "*:m", "*:d+m", "*:d@each", "*:m@1"];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut draw = |most: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let mut layout = || {
        let (first, second) = (DIMS[draw(DIMS.len())], DIMS[draw(DIMS.len())]);
        let mut rules = match (first, second) {
            // Two processors share the halves of a stack, not four.
            (first, second) if first == second && first != "stack" => vec![(first, "m+d")],
            (first, second) => vec![(first, "d"), (second, if first == second { "" } else { "m" })],
        };
        rules.retain(|(dim, axes)| !dim.is_empty() && !axes.is_empty());
        let mut rules: Vec<_> = rules.iter().map(|(dim, axes)| format!("{dim}:{axes}")).collect();
        for set in ["params", "slots"] {
            let rule = AT_REST[draw(AT_REST.len())];
            rules.extend((!rule.is_empty()).then(|| format!("{set}/{rule}")));
        }
        ("d:2;m:2".to_owned(), rules.join(";"))
    };
    (0..DRAWN).map(|_| layout()).collect()
}

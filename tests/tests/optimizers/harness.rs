//! Runs an optimizer on a variable under a layout.

use mesh_ops::prelude::*;
use mesh_optimize::Optimizer;
use ndarray::{ArrayD, IxDyn};
use std::collections::BTreeMap;

/// A variable `w` and its gradient in each step, elements in declared order.
#[derive(Clone)]
pub(crate) struct Problem {
    pub(crate) dims: Vec<Dimension>,
    pub(crate) dtype: DType,
    pub(crate) start: Vec<f64>,
    pub(crate) grads: Vec<Vec<f64>>,
}

/// The results of a run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Trajectory {
    /// The variable after each step.
    pub(crate) values: Vec<Vec<f64>>,
    /// The slots at the end, by their names.
    pub(crate) slots: BTreeMap<String, Vec<f64>>,
}

/// The number of examples that the gradient is a sum over. Gradients are small multiples of 2^-6,
/// so a quarter of one is exact, and so is the sum.
const BATCH: usize = 4;

/// Meshes and layouts for variables of 4 and 8 elements a dim (2 for `stack`): data, model and
/// both, ZeRO and FSDP, a dim over two axes.
pub(crate) const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("d:2", "batch:d"),
    ("d:2", "rows:d"),
    ("d:2;m:2", "batch:d;cols:m"),
    ("d:2;m:2", "batch:d;cols:m"),
    ("d:2;m:2", "cols:d+m"),
    ("d:2;m:2", "rows:m+d"),
    ("d:2", "stack:d"),
    ("d:2", "batch:d;slots/*:d"),
    ("d:2;m:2", "batch:d+m;slots/*:d+m"),
    ("d:2;m:2", "batch:d;cols:m;slots/*:d"),
    ("d:2", "batch:d;params/*:d"),
    ("d:2;m:2", "batch:d+m;params/*:d+m;slots/*:d+m"),
    ("d:2", "batch:d;params/*:d;slots/*:d"),
];

/// Variables or their slots are one processor's.
pub(crate) const OWNERS: &[(&str, &str)] =
    &[("d:2", "batch:d;slots/*:d@each"), ("d:2;m:2", "batch:d;cols:m;params/*:d@0;slots/*:d@1")];

impl Problem {
    fn shape(&self, front: Option<usize>) -> IxDyn {
        IxDyn(&front.into_iter().chain(self.dims.iter().map(|d| d.size)).collect::<Vec<_>>())
    }

    /// Runs the optimizer on threads and returns the values and slots.
    pub(crate) fn run(&self, optimizer: &dyn Optimizer, mesh: &str, layout: &str) -> Trajectory {
        self.run_on(optimizer, mesh, layout, &|module| Session::threads(module, 0).unwrap())
    }

    /// Runs the optimizer in a session that is started so.
    pub(crate) fn run_on(
        &self,
        optimizer: &dyn Optimizer,
        mesh: &str,
        layout: &str,
        start: &dyn Fn(&Module) -> Session,
    ) -> Trajectory {
        let g = mesh_ops::graph();
        let w = g.variable("w", self.dims.iter().copied(), self.dtype, Initializer::ZEROS);
        let dims = std::iter::once(dim("batch", BATCH)).chain(self.dims.iter().copied());
        let exact = self.dtype == F64;
        let per_example = g.input("grad", dims, if exact { F64 } else { F32 });
        let grad = per_example.sum([dim("batch", BATCH)]);
        let step = g.function("step", [per_example], [], optimizer.apply_grads(&[(Some(grad), w)]));

        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
        let module = module.unwrap_or_else(|report| panic!("{layout}: {report}"));
        let mut session = start(&module);
        session.set_replica_check(true).unwrap();
        let start = ArrayD::from_shape_vec(self.shape(None), self.start.clone()).unwrap();
        match self.dtype {
            BF16 => session.write("w", &start.mapv(half::bf16::from_f64)).unwrap(),
            F64 => session.write("w", &start).unwrap(),
            _ => session.write("w", &start.mapv(|x| x as f32)).unwrap(),
        }
        let mut values = Vec::new();
        for grad in &self.grads {
            let part = grad.iter().map(|x| x / BATCH as f64).collect::<Vec<_>>();
            let parts =
                ArrayD::from_shape_vec(self.shape(Some(BATCH)), part.repeat(BATCH)).unwrap();
            let parts: Array = if exact { parts.into() } else { parts.mapv(|x| x as f32).into() };
            let [] = session.call(&step, [parts.view()]).unwrap();
            values.push(read(&session, "w"));
        }
        let names: Vec<_> = session.variables().map(str::to_owned).collect();
        let slots = names.iter().filter_map(|name| Some((name, name.strip_prefix("w/")?)));
        let slots = slots.map(|(full, name)| (name.to_owned(), read(&session, full))).collect();
        Trajectory { values, slots }
    }
}

fn read(session: &Session, variable: &str) -> Vec<f64> {
    session.read(variable).unwrap().to_f64().into_iter().collect()
}

/// Asserts equality to one part in 10^5, below 0.1 to 10^-6.
pub(crate) fn close(got: &[f64], want: &[f64], what: &str) {
    within(1e-5, got, want, what);
}

/// Asserts that numbers differ by so small a part of them, and those below 0.1 by that part of 0.1.
pub(crate) fn within(relative: f64, got: &[f64], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= relative * want.abs().max(0.1), "{what}: {got} not {want}");
    }
}

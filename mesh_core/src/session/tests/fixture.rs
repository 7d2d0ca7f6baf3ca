//! Modules written by hand.

use ndarray::{Array1, Array2};

use crate::array::Array;
use crate::exec::ThreadBackend;
use crate::lower::{Module, Target, VariableSpec};
use crate::names::DType::{F32, I32};
use crate::names::{Axis, Mesh, Placement, ReduceKind, Shape, dim};
use crate::passes::Executable;
use crate::program::{
    ALIGNMENT, Builder, Expr, Extents, Generator, Offset, Operand, Place, Plan, Program, Slot,
    ValueId, VariableId,
};
use crate::session::Session;

/// A module's programs as they are, every value in a place of its own.
pub(super) fn apart(module: &Module) -> Executable {
    let target = Target { passes: Vec::new(), ..Target::host() };
    let mut executable = module.compile(&target).unwrap();
    for compiled in &mut executable.functions {
        let mut plan = Plan::default();
        for value in &compiled.program.block.values {
            plan.places.push(Place::Arena(plan.arena_bytes));
            plan.arena_bytes += value.bytes().next_multiple_of(ALIGNMENT);
        }
        compiled.plan = plan;
    }
    executable
}

/// A session of a module that runs what was made of it by hand.
pub(super) fn session_of(module: &Module, executable: Executable) -> Session {
    Session::on(module, ThreadBackend::new(executable, 0, &[], None).unwrap()).unwrap()
}

pub(super) fn operand(value: ValueId, dims: &[u8]) -> Operand {
    Operand { value, dims: dims.iter().copied().collect() }
}

pub(super) fn slot(name: &str, shape: &[usize], split: &[&[Axis]]) -> Slot {
    let split = split.iter().map(|axes| (*axes).into()).collect();
    Slot { name: name.to_owned(), shape: shape.to_vec(), split, ..Slot::default() }
}

pub(super) const BATCH: usize = 8;
pub(super) const WIDTH: usize = 4;
pub(super) const WEIGHTS: VariableId = VariableId(0);
pub(super) const STEP: VariableId = VariableId(1);

/// A linear regression with the batch split over axis `b` and the width over axis `f`, for the axes
/// that the mesh has.
pub(super) struct Regression {
    mesh: Mesh,
    batch: Vec<Axis>,
    width: Vec<Axis>,
}

impl Regression {
    pub(super) fn new(mesh: &str) -> Self {
        let mesh: Mesh = mesh.parse().unwrap();
        let axes = |name| mesh.axis(name).into_iter().collect();
        Self { batch: axes("b"), width: axes("f"), mesh }
    }

    fn train(&self) -> Program {
        let (b, f) = (&self.batch[..], &self.width[..]);
        let batch: Extents = [BATCH / self.mesh.group_size(b)].into_iter().collect();
        let width: Extents = [WIDTH / self.mesh.group_size(f)].into_iter().collect();
        let both = batch.iter().chain(&width).copied().collect();
        let (x, y) = (Expr::input(0), Expr::input(1));
        let mut p = Builder::new("train", &self.mesh);
        let sum = |p: &mut Builder<'_>, axes: &[Axis], part| match axes {
            [] => part,
            axes => p.all_reduce(ReduceKind::Sum, axes, part),
        };
        let image = p.feed(F32, both, slot("x", &[BATCH, WIDTH], &[b, f]));
        let label = p.feed(F32, batch.clone(), slot("y", &[BATCH], &[b]));
        let weights = p.read(WEIGHTS, F32, width.clone());
        let partial = p.contract(operand(image, &[0, 1]), operand(weights, &[1]), batch.clone());
        let predicted = sum(&mut p, f, partial);
        let minus = x.clone() - y.clone();
        let terms = vec![operand(predicted, &[0]), operand(label, &[0])];
        let error = p.map(terms, batch, &minus, F32).unwrap();
        let loss = p.contract(operand(error, &[0]), operand(error, &[0]), Extents::new());
        let loss = sum(&mut p, b, loss);
        let gradient = p.contract(operand(image, &[1, 0]), operand(error, &[1]), width.clone());
        let gradient = sum(&mut p, b, gradient);
        let terms = vec![operand(weights, &[0]), operand(gradient, &[0])];
        let new = p.map(terms, width, &(x.clone() - 0.0625 * y), F32).unwrap();
        let step = p.read(STEP, I32, Extents::new());
        let next = p.map(vec![operand(step, &[])], Extents::new(), &(x + 1.0), I32).unwrap();
        p.write(WEIGHTS, new);
        p.write(STEP, next);
        p.fetch(slot("loss", &[], &[]), loss);
        p.fetch(slot("predicted", &[BATCH], &[b]), predicted);
        p.finish()
    }

    /// The weights are 0, 1, 2, …; the step is 0.
    fn init(&self) -> Program {
        let width = WIDTH / self.mesh.group_size(&self.width);
        let mut p = Builder::new("init", &self.mesh);
        let begin = [Offset::sliced(&self.width, width)].into_iter().collect();
        let extents = |extent| [extent].into_iter().collect::<Extents>();
        let iota = Generator::Iota(0);
        let weights = p.generate(iota, F32, begin, extents(WIDTH), extents(width));
        p.write(WEIGHTS, weights);
        p.finish()
    }

    pub(super) fn module(&self) -> Module {
        let weights = Shape::new([dim("width", WIDTH)]).unwrap();
        let placement = Placement::replicated().split("width".into(), &self.width);
        let mut step = variable("step", Shape::scalar(), Placement::replicated());
        step.dtype = I32;
        module(
            &self.mesh,
            [variable("weights", weights, placement), step],
            self.train(),
            self.init(),
        )
    }
}

pub(super) fn variable(name: &str, shape: Shape, placement: Placement) -> VariableSpec {
    VariableSpec { name: name.to_owned(), dtype: F32, shape, placement, trainable: true }
}

pub(super) fn module<const V: usize>(
    mesh: &Mesh,
    variables: [VariableSpec; V],
    function: Program,
    init: Program,
) -> Module {
    Module::new(mesh.clone(), variables.into(), vec![function], init).unwrap()
}

pub(super) fn data() -> (Array2<f32>, Array1<f32>) {
    let x =
        Array2::from_shape_fn((BATCH, WIDTH), |(i, j)| ((5 * i + 3 * j) % 7) as f32 / 4.0 - 0.75);
    let y = Array1::from_shape_fn(BATCH, |i| (i % 3) as f32);
    (x, y)
}

pub(super) fn close(found: &Array, expected: &[f32]) -> bool {
    let pairs = found.as_f32().unwrap().iter().zip(expected);
    found.len() == expected.len() && pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1e-4)
}

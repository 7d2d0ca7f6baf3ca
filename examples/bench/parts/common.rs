//! The functions that the benches time.

use mesh_core::lower::{Module, Target};
use mesh_core::names::{Mesh, ReduceKind};
use mesh_core::program::{Builder, Extents, Program, Scalar};
use mesh_core::session::Threads;
use mesh_ops::conv::Conv;
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Matrices, MatrixDims, Muon, Optimizer};

/// A function without feeds and fetches, and a session to call it.
pub struct Running {
    session: Session,
    function: &'static str,
}

impl Running {
    fn new(module: &Module, function: &'static str, target: Target) -> Self {
        let threads = Threads::default().target(target);
        Self { session: Session::threads_with(module, 0, &threads).unwrap(), function }
    }

    /// Calls it.
    pub fn call(&mut self) {
        self.session.call_named(self.function, &[]).unwrap();
    }
}

/// A function with one kind of step, on one processor. Results go to variables, so that no time is
/// spent on copying fetches.
pub fn kernel(kind: &str) -> Running {
    let g = mesh_ops::graph();
    let (i, j, k) = (dim("i", 128), dim("j", 128), dim("k", 128));
    let (rows, cols, channel) = (dim("rows", 16), dim("cols", 8), dim("channel", 8));
    let uniform = Initializer::Uniform { low: 0.5, high: 1.0 };
    let state = |name: &str, dims: &[Dimension]| g.state(name, dims.iter().copied(), F32, uniform);
    let [a, b] = [state("a", &[i, k]).value(), state("b", &[k, j]).value()];
    let made = match kind {
        "map" => (a * 2.0 + 1.0).relu(),
        "exp" => a.exp(),
        "softmax" => a.softmax(k),
        "reduce" => a.sum([k]),
        "transpose" => a.transpose([k, i]).reshape([dim("flat", 128 * 128)]),
        "contract" => a.matmul(&[b]),
        "convolve" => {
            let image = a.reshape([rows, cols, channel, dim("image", 16)]);
            let taps = [dim("fh", 3), dim("fw", 3), channel, dim("feature", 16)];
            let filter = state("filter", &taps).value();
            image.conv(filter, &Conv::over([("rows", "fh"), ("cols", "fw")]))
        }
        _ => panic!("no kernel {kind}"),
    };
    let dims: Vec<_> = made.shape().iter().collect();
    let kept = g.state("kept", dims, F32, Initializer::ZEROS).assign(made);
    g.declare_function("work", &[], &[], vec![kept]);
    let module = g.lower(&Mesh::single(), &"".parse().unwrap()).unwrap();
    Running::new(&module, "work", Target::host())
}

/// Muon's update of so many equal matrices, whose gradients are twice the matrices.
pub fn matrices(count: usize, rows: usize, cols: usize, stacked: bool) -> Running {
    let g = mesh_ops::graph();
    let (layers, side) = (dim("layers", count), [dim("rows", rows), dim("cols", cols)]);
    let uniform = Initializer::Uniform { low: -1.0, high: 1.0 };
    let shapes =
        if stacked { vec![vec![layers, side[0], side[1]]] } else { vec![side.to_vec(); count] };
    let squares = shapes.into_iter().enumerate().map(|(i, shape)| {
        g.variable(&format!("w{i}"), shape, F32, uniform).value().square().sum_all()
    });
    let loss = squares.reduce(|a, b| a + b).unwrap();
    let matrices = Matrices {
        dims: MatrixDims::Pairs,
        stacked: vec!["layers".to_owned()],
        ..Matrices::default()
    };
    let muon = Muon { matrices, ..Muon::new(1e-3) };
    g.declare_function("work", &[], &[], muon.minimize(loss));
    let module = g.lower(&Mesh::single(), &"".parse().unwrap()).unwrap();
    Running::new(&module, "work", Target::host())
}

/// The kinds of step.
pub const KERNELS: [&str; 7] =
    ["map", "exp", "softmax", "reduce", "transpose", "contract", "convolve"];

/// The number of all-reduces in a call, one after another.
pub const ALL_REDUCES: usize = 64;

/// A function of [`ALL_REDUCES`] all-reduces of `elements` f32 among `processors`.
pub fn all_reduces(processors: usize, elements: usize) -> Running {
    let mesh = Mesh::new([("all", processors)]).unwrap();
    let axes: Vec<_> = mesh.axes().collect();
    let mut program = Builder::new("work", &mesh);
    let mut value = program.fill(Scalar::new(F32, 0.0), Extents::from_slice(&[elements]));
    for _ in 0..ALL_REDUCES {
        value = program.all_reduce(ReduceKind::Sum, &axes, value);
    }
    let functions = vec![program.finish()];
    let module = Module::new(mesh, Vec::new(), functions, Program::default()).unwrap();
    // No passes: they would remove collectives whose results are not used.
    Running::new(&module, "work", Target { passes: Vec::new(), ..Target::host() })
}

/// A deep stack of dense layers with norms, softmax cross-entropy and Adam.
pub fn deep(layers: usize) -> Graph {
    let g = mesh_ops::graph();
    let (batch, width, classes) = (dim("batch", 8), dim("width", 16), dim("classes", 8));
    let hidden = dim("hidden", 32);
    let (x, label) = (g.input("x", [batch, width], F32), g.input("label", [batch], I32));
    let mut h = x;
    for layer in 0..layers {
        let _scope = g.scope(&format!("layer{layer}"));
        let normed = mesh_ops::layers::rms_norm(h, width, "norm");
        h = h + normed.dense(hidden, "in").relu().dense(width, "out");
    }
    let loss = h.dense(classes, "logits").softmax_cross_entropy(label, classes).mean();
    g.function("train", [x, label], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
    g
}

/// Lowers the graph for four processors.
pub fn lowered(graph: &Graph) -> Module {
    graph.lower(&"b:2;m:2".parse().unwrap(), &"batch:b;hidden:m".parse().unwrap()).unwrap()
}

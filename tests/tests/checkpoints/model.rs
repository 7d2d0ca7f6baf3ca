//! The models that are saved: every dtype, scalars, slots, a stack of layers.

use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, AdamWeightDecay, Factoring, Optimizer};
use ndarray::{Array1, Array2, ArrayD, IxDyn};

/// Layouts from one processor to owners in turn.
pub const LAYOUTS: [(&str, &str); 9] = [
    ("", ""),
    ("d:2", "batch:d"),
    ("d:2;m:2", "batch:d;h:m"),
    ("d:2;m:2", "h:m+d"),
    ("d:2", "batch:d;params/*:d;slots/*:d"),
    ("d:4", "batch:d;slots/*:d"),
    ("d:4", "batch:d;params/*:d@0;slots/*:d@3"),
    ("d:2", "batch:d;params/*:d@each;slots/*:d@each"),
    ("d:2;m:2", "batch:d;h:m;params/*:d@each;slots/*:d"),
];

/// A model to train; `train(x)` returns the loss.
pub struct Model {
    pub graph: Graph,
    pub train: Function<1, 1>,
}

/// Two layers with dropout, and a scan over three layers between them.
pub fn model(optimizer: &dyn Optimizer) -> Model {
    let graph = mesh_ops::graph();
    let g = &graph;
    let (batch, i, h, o) = (dim("batch", 8), dim("i", 4), dim("h", 8), dim("o", 4));
    let layers = dim("layers", 3);
    let x = g.input("x", [batch, i], F32);
    let scale = Initializer::Uniform { low: -0.5, high: 0.5 };
    let stack = g.variable("stack", [layers, h], F32, scale);
    let hidden = x.dense(h, "one").tanh().dropout(0.25);
    let ([hidden], []) =
        g.scan(layers, [hidden], [stack.value()], |[h], [w]| ([(h * w).tanh() + h], []));
    let loss = (hidden.dense(o, "two") - 1.0).square().mean();
    let mut updates = optimizer.minimize(loss);
    let calls = g.state("calls", [], I32, Initializer::ZEROS);
    updates.push(calls.assign_add(g.scalar(1.0, I32)));
    let train = g.function("train", [x], [loss], updates);
    Model { graph, train }
}

pub fn adam() -> AdamWeightDecay {
    AdamWeightDecay::new(0.01).weight_decay(0.1)
}

pub fn adafactor() -> Adafactor {
    let factoring = Factoring::TwoLargest { least: 4 };
    Adafactor { factoring, beta1: 0.5.into(), ..Adafactor::default() }
}

impl Model {
    /// The loss of a step, compared bit for bit.
    pub fn step(&self, session: &mut Session, step: usize) -> f32 {
        let data =
            Array2::from_shape_fn((8, 4), |(b, i)| ((b * 5 + i * 3 + step) % 7) as f32 / 4.0 - 0.5);
        let [loss] = session.call(&self.train, [data.view().into()]).unwrap();
        loss.as_f32().unwrap()[IxDyn(&[])]
    }
}

/// Variables of every dtype, some of which `h:…` or `params/*:…` can split.
pub fn every_dtype() -> Graph {
    let g = mesh_ops::graph();
    let (h, k, u) = (dim("h", 8), dim("k", 4), dim("u", 3));
    for (name, dtype) in [("f32", F32), ("f64", F64), ("bf16", BF16), ("i32", I32), ("bool", Bool)]
    {
        let _scope = g.scope(name);
        g.variable("first", [h, u], dtype, Initializer::ZEROS);
        g.variable("last", [u, h], dtype, Initializer::ZEROS);
        g.state("both", [k, u, h], dtype, Initializer::ZEROS);
        g.state("scalar", [], dtype, Initializer::ZEROS);
    }
    g.function("nothing", [], [], []);
    g
}

/// Random bits: NaNs, infinities, zeros of both signs.
fn any_bits(dtype: DType, shape: &[usize], state: &mut u64) -> Array {
    let mut next = || {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 16
    };
    let shape = IxDyn(shape);
    match dtype {
        F32 => ArrayD::from_shape_simple_fn(shape, || f32::from_bits(next() as u32)).into(),
        F64 => ArrayD::from_shape_simple_fn(shape, || f64::from_bits(next() << 20 ^ next())).into(),
        BF16 => ArrayD::from_shape_simple_fn(shape, || half::bf16::from_bits(next() as u16)).into(),
        I32 => ArrayD::from_shape_simple_fn(shape, || next() as i32).into(),
        Bool => ArrayD::from_shape_simple_fn(shape, || next() & 1 == 1).into(),
    }
}

/// Sets every variable to random bits.
pub fn scramble(session: &mut Session, mut state: u64) {
    let names: Vec<_> = session.variables().map(str::to_owned).collect();
    for name in names {
        let array = session.read(&name).unwrap();
        let bits = any_bits(array.dtype(), array.shape(), &mut state);
        session.write(&name, &bits).unwrap();
    }
}

/// A vector that differs from every other, so that it can be recognised.
pub fn counting(len: usize) -> Array {
    Array1::from_iter((0..len).map(|i| i as f32)).into()
}

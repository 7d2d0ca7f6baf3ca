//! Thirty steps of the optimizers of whole matrices: Muon against PyTorch's and optax's numbers, Shampoo and
//! SOAP against restatements of the papers; see `tests/golden/optimizers/`.

use crate::harness::{LAYOUTS, OWNERS, Problem, within};
use mesh_ops::prelude::*;
use mesh_optimize::{Matrices, MatrixDims, Muon, MuonScale, Optimizer, Shampoo, Soap};
use serde_json::Value;

/// What rounding in f64 leaves of 1e-16 after 30 steps, each of five rounds that may enlarge a difference
/// by 3.4.
const IN_F64: f64 = 1e-11;
/// The same in f32.
const IN_F32: f64 = 1e-6;

/// Newton's iteration ends when 1e-11 is left; a basis is rounded in proportion to a condition of up to 1e5.
const ROOTS_IN_F64: f64 = 1e-9;
/// It ends when 1e-5 is left; 6e-8 times that condition is what a basis may be off by.
const ROOTS_IN_F32: f64 = 6e-3;

type Case = (&'static str, fn() -> Box<dyn Optimizer>);

const TORCH: &[Case] = &[
    ("default", || Box::new(torch(0.02))),
    ("rms", || Box::new(Muon { scale: MuonScale::Rms { factor: 0.2 }, ..torch(0.02) })),
    ("spectral", || {
        Box::new(Muon { scale: MuonScale::Spectral, weight_decay: 0.0.into(), ..torch(0.02) })
    }),
    ("heavy_ball", || Box::new(Muon { nesterov: false, momentum: 0.9.into(), ..torch(0.01) })),
    ("three_rounds", || Box::new(Muon { coefficients: vec![[2.0, -1.5, 0.5]; 3], ..torch(0.02) })),
];

const OPTAX: &[Case] = &[
    ("default", || Box::new(optax(0.02))),
    ("heavy_ball", || Box::new(Muon { nesterov: false, momentum: 0.9.into(), ..optax(0.02) })),
    ("rms", || {
        let scale = MuonScale::Rms { factor: 0.2 };
        Box::new(Muon { scale, weight_decay: 0.1.into(), ..optax(0.02) })
    }),
    ("dion", || {
        Box::new(Muon { coefficients: DION.to_vec(), epsilon: 1e-3.into(), ..optax(0.02) })
    }),
];

const SHAMPOO: &[Case] = &[
    ("shampoo", || Box::new(shampoo())),
    ("shampoo_sum", || Box::new(Shampoo { beta1: 0.0.into(), beta2: 1.0.into(), ..shampoo() })),
    ("shampoo_interval", || {
        let (beta1, beta2, interval) = (0.8.into(), 0.95.into(), 4);
        Box::new(Shampoo { beta1, beta2, interval, weight_decay: 0.1.into(), ..shampoo() })
    }),
    ("shampoo_blocks", || Box::new(Shampoo { interval: 2, block: 2, ..shampoo() })),
    ("soap", || Box::new(soap())),
    ("soap_interval", || {
        let (beta1, beta2, interval) = (0.9.into(), 0.99.into(), 4);
        Box::new(Soap { beta1, beta2, interval, weight_decay: 0.1.into(), ..soap() })
    }),
    ("soap_blocks", || Box::new(Soap { interval: 2, block: 2, ..soap() })),
];

/// Ahn et al. 2025 (arXiv 2504.05295), as optax has them.
const DION: [[f64; 3]; 5] = [
    [4.0848, -6.8946, 2.9270],
    [3.9505, -6.3029, 2.6377],
    [3.7418, -5.5913, 2.3037],
    [2.8769, -3.1427, 1.2046],
    [2.8366, -3.0525, 1.2012],
];

/// PyTorch's. It takes the larger of norm and epsilon, so an epsilon that rounds away is its own.
fn torch(rate: f64) -> Muon {
    Muon { scale: MuonScale::Width, matrices: matrices(), epsilon: 1e-30.into(), ..Muon::new(rate) }
}

fn optax(rate: f64) -> Muon {
    Muon { bias_correction: true, weight_decay: 0.0.into(), epsilon: 1e-8.into(), ..torch(rate) }
}

fn shampoo() -> Shampoo {
    Shampoo { epsilon: 1e-3.into(), interval: 1, matrices: matrices(), ..Shampoo::new(0.02) }
}

fn soap() -> Soap {
    Soap { weight_decay: 0.0.into(), interval: 1, matrices: matrices(), ..Soap::new(0.02) }
}

fn matrices() -> Matrices {
    let stacked = vec!["stack".to_owned()];
    Matrices { dims: MatrixDims::Pairs, stacked, ..Matrices::default() }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn problem(golden: &Value, case: &Value, dtype: DType) -> Problem {
    let shape = &golden["shapes"][case["shape"].as_str().unwrap()];
    let declared = ["stack", "rows", "cols"].into_iter();
    let dims = declared.filter_map(|name| Some(dim(name, shape.get(name)?.as_u64()? as usize)));
    let mut draws = golden["draws"].as_array().unwrap().iter();
    let draw = draws.find(|d| d["shape"] == case["shape"] && d["seed"] == case["seed"]).unwrap();
    let grads = draw["grads"].as_array().unwrap().iter().take(30).map(numbers).collect();
    Problem { dims: dims.collect(), dtype, start: numbers(&draw["start"]), grads }
}

/// Each case alone, in f64 and f32, and under every `stride`-th layout, from another one on for each case.
fn agree(file: &str, cases: &[Case], [in_f64, in_f32]: [f64; 2], stride: usize) {
    let path = format!("{}/golden/optimizers/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let all = golden["cases"].as_array().unwrap();
    let known = |case: &Value| cases.iter().any(|(name, _)| case["name"] == **name);
    assert!(all.iter().all(known), "{file} has a case that is not built");
    let mut number = 0;
    for (name, build) in cases {
        for case in all.iter().filter(|case| case["name"] == **name) {
            number += 1;
            let check = |dtype, relative, mesh, layout| {
                let problem = problem(&golden, case, dtype);
                let got = problem.run(&*build(), mesh, layout);
                for (i, want) in case["values"].as_array().unwrap().iter().enumerate() {
                    let step = golden["kept"][i].as_u64().unwrap() as usize;
                    let what = format!("{name} of a {} under {layout:?}, {step}", case["shape"]);
                    within(relative, &got.values[step - 1], &numbers(want), &what);
                }
            };
            check(F32, in_f32, "", "");
            check(F64, in_f64, "", "");
            for (mesh, layout) in LAYOUTS.iter().chain(OWNERS).skip(number % stride).step_by(stride)
            {
                // There are fewer blocks than parts.
                if !(name.ends_with("blocks") && layout.contains('+')) {
                    check(F64, in_f64, mesh, layout);
                }
            }
        }
    }
}

#[test]
fn muon_is_pytorchs() {
    agree("muon_torch", TORCH, [IN_F64, IN_F32], 1);
}

#[test]
fn muon_is_optaxs() {
    agree("muon_optax", OPTAX, [IN_F64, IN_F32], 1);
}

#[test]
fn shampoo_and_soap_are_the_papers() {
    // Each takes ten times as long as one of Muon's.
    agree("shampoo", SHAMPOO, [ROOTS_IN_F64, ROOTS_IN_F32], 5);
}

#[test]
fn blocks_that_no_axis_divides_are_refused() {
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("rows", 4), dim("cols", 8)], F32, Initializer::ONES);
    let loss = w.value().square().mean();
    g.function("train", [], [loss], Shampoo { block: 2, ..shampoo() }.minimize(loss));
    let report = g.lower(&"d:4".parse().unwrap(), &"rows:d".parse().unwrap()).unwrap_err();
    let text = report.to_string();
    assert!(
        text.contains("dim rows of size 2 cannot be split over d into 4 equal parts"),
        "{text}"
    );
}

#[test]
fn what_is_no_matrix_goes_to_the_other_optimizer() {
    let g = mesh_ops::graph();
    let (batch, x, heads, depth) = (dim("batch", 4), dim("x", 8), dim("heads", 2), dim("depth", 3));
    let (vocab, layers) = (dim("vocab", 5), dim("layers", 2));
    let ids = g.input("ids", [batch], I32);
    let table = g.variable("table", [vocab, x], F32, Initializer::ONES);
    let stacked = g.variable("stacked", [layers, x, dim("y", 8)], F32, Initializer::ONES);
    let h = table.value().gather(ids, vocab);
    let ([h], []) = g.scan(layers, [h], [stacked.value()], |[h], [w]| {
        ([h.einsum(&[w], [batch, dim("y", 8)]).rename(dim("y", 8), "x")], [])
    });
    let query = g.variable("query", [x, heads, depth], F32, Initializer::ONES);
    let bias = g.variable("bias", [heads], F32, Initializer::ONES);
    let out = h.einsum(&[query.value()], [batch, heads, depth]) + bias.value();
    let muon = Muon::new(0.1);
    g.function("train", [ids], [], muon.minimize(out.square().mean()));
    g.check().unwrap();
    let slots = |v: Variable<'_>| v.slots().iter().map(|s| s.name()).collect::<Vec<_>>();
    assert_eq!(slots(stacked), ["stacked/muon_m"]);
    assert_eq!(slots(query), ["query/muon_m"]);
    assert_eq!(slots(table).len(), 3);
    assert_eq!(slots(bias).len(), 3);
    let names = |dims: Vec<Dimension>| dims.iter().map(|d| d.to_string()).collect::<Vec<_>>();
    let fans = query.fans().unwrap();
    assert_eq!(
        (names(fans.inputs), names(fans.outputs)),
        (vec!["x:8".to_owned()], vec!["heads:2".to_owned(), "depth:3".to_owned()])
    );
    let fans = stacked.fans().unwrap();
    assert_eq!(
        (names(fans.inputs), names(fans.outputs)),
        (vec!["x:8".to_owned()], vec!["y:8".to_owned()])
    );
    assert_eq!((table.fans(), bias.fans()), (None, None));
}

//! Fifty steps of every optimizer and option against golden files: PyTorch's numbers, and
//! restatements in f64 of Mesh TensorFlow's and tensor2tensor's. See `tests/golden/optimizers/`.

use crate::harness::{LAYOUTS, Problem, close};
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, Adam, AdamW, AdamWeightDecay, Decay, Factoring, Schedule};
use mesh_optimize::{Momentum, Optimizer, Sgd};
use serde_json::Value;

type Builder = (&'static str, fn() -> Box<dyn Optimizer>);

const TORCH: &[Builder] = &[
    ("sgd", || Box::new(Sgd::new(0.05))),
    ("momentum", || Box::new(Momentum::new(0.02, 0.9))),
    ("nesterov", || Box::new(Momentum { nesterov: true, ..Momentum::new(0.02, 0.9) })),
    ("adam", || Box::new(Adam::new(0.02))),
    ("adamw", || Box::new(AdamW::new(0.02))),
    ("adamw", || Box::new(AdamWeightDecay::standard(0.02))),
    ("adamw_options", || {
        let adamw = AdamW::new(0.01).weight_decay(0.1);
        Box::new(AdamW { beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-4.into(), ..adamw })
    }),
    ("adamw_options", || {
        let standard = AdamWeightDecay::standard(0.01);
        Box::new(AdamWeightDecay {
            beta1: 0.8.into(),
            beta2: 0.95.into(),
            epsilon: 1e-4.into(),
            weight_decay: 0.1.into(),
            ..standard
        })
    }),
    ("adam", || {
        let exclude = vec!["^w$".to_owned()];
        Box::new(AdamWeightDecay { exclude, ..AdamWeightDecay::standard(0.02) })
    }),
];

const ADAM: &[Builder] = &[
    ("adam", || Box::new(AdamWeightDecay::new(0.02))),
    ("adam_decayed", || Box::new(AdamWeightDecay::new(0.02).weight_decay(0.1))),
    ("adam_options", || {
        let adam = AdamWeightDecay::new(0.02).weight_decay(0.01);
        Box::new(AdamWeightDecay {
            beta1: 0.8.into(),
            beta2: 0.95.into(),
            epsilon: 1e-3.into(),
            ..adam
        })
    }),
    ("adam_rate_of_step", || Box::new(AdamWeightDecay::new(hyperbola()).weight_decay(0.1))),
];

const ADAFACTOR: &[Builder] = &[
    ("vector", || Box::new(Adafactor::default())),
    ("below_threshold", || Box::new(Adafactor::default())),
    ("two_largest", || Box::new(factored())),
    ("last_two", || of(|a| a.factoring = Factoring::LastTwo)),
    ("tensor2tensor", || Box::new(Adafactor::tensor2tensor())),
    ("tensor2tensor_momentum", || {
        Box::new(Adafactor { beta1: 0.9.into(), ..Adafactor::tensor2tensor() })
    }),
    ("never", || of(|a| a.factoring = Factoring::Never)),
    ("stacked", || of(|a| a.stacked_dims = vec!["stack".to_owned()])),
    ("stacked_matrices", || {
        of(|a| {
            a.stacked_dims = vec!["stack".to_owned()];
            a.factoring = Factoring::Matrices;
            a.beta1 = 0.5.into();
        })
    }),
    ("rate", || Box::new(factored().learning_rate(0.03))),
    ("rate_of_step", || Box::new(factored().learning_rate(hyperbola()))),
    ("rate_unscaled", || {
        let adafactor = Adafactor::default().learning_rate(0.03);
        Box::new(Adafactor { multiply_by_parameter_scale: false, ..adafactor })
    }),
    ("unscaled", || of(|a| a.multiply_by_parameter_scale = false)),
    ("excluded", || {
        let exclude_from_parameter_scale = vec!["bias".to_owned(), "w".to_owned()];
        Box::new(Adafactor { exclude_from_parameter_scale, ..Adafactor::default() })
    }),
    ("decay_pow", || of(|a| a.decay = Decay::Pow { exponent: 0.5, offset: 0 })),
    ("decay_offset", || of(|a| a.decay = Decay::Pow { exponent: 0.8, offset: 7 })),
    ("decay_adam", || of(|a| a.decay = Decay::Adam { beta2: 0.95 })),
    ("decay_constant", || of(|a| a.decay = Decay::Given(0.9.into()))),
    ("decay_of_step", || of(|a| a.decay = Decay::Given(Schedule::of_step(|t| t / (t + 3.0))))),
    ("momentum", || of(|a| a.beta1 = 0.9.into())),
    ("unclipped", || of(|a| a.clipping_threshold = None)),
    ("clipped_late", || of(|a| a.clipping_threshold = Some(1.5.into()))),
    ("epsilons", || of(|a| (a.epsilon1, a.epsilon2) = (0.01.into(), 5.0.into()))),
];

const ROUNDED: &[Builder] = &[
    ("bits_8", || Box::new(Adafactor { quantize_bits: Some(8), ..Adafactor::tensor2tensor() })),
    ("bits_4", || {
        let never = Adafactor { factoring: Factoring::Never, ..Adafactor::default() };
        Box::new(Adafactor { quantize_bits: Some(4), ..never.learning_rate(0.05) })
    }),
    ("bits_of_a_vector", || Box::new(Adafactor { quantize_bits: Some(8), ..Adafactor::default() })),
    ("bf16", || Box::new(Adafactor::tensor2tensor())),
    ("bf16_bits", || Box::new(Adafactor { quantize_bits: Some(6), ..Adafactor::default() })),
    ("bf16_momentum", || Box::new(Adafactor { beta1: 0.5.into(), ..Adafactor::tensor2tensor() })),
];

fn hyperbola() -> Schedule {
    Schedule::of_step(|t| (t + 2.0).reciprocal() * 0.1)
}

/// Mesh TensorFlow's Adafactor that also factors small matrices.
fn factored() -> Adafactor {
    Adafactor { factoring: Factoring::TwoLargest { least: 2 }, ..Adafactor::default() }
}

fn of(change: impl FnOnce(&mut Adafactor)) -> Box<dyn Optimizer> {
    let mut adafactor = factored();
    change(&mut adafactor);
    Box::new(adafactor)
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn golden(file: &str) -> Value {
    let path = format!("{}/golden/optimizers/{file}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn problem(golden: &Value, case: &Value) -> Problem {
    let shape = &golden["shapes"][case["shape"].as_str().unwrap()];
    // JSON objects are read in the order of names; these are in declared order.
    let declared = ["stack", "rows", "cols"].into_iter();
    let dims = declared.filter_map(|name| Some(dim(name, shape.get(name)?.as_u64()? as usize)));
    let mut draws = golden["draws"].as_array().unwrap().iter();
    let draw = draws.find(|d| d["shape"] == case["shape"] && d["seed"] == case["seed"]).unwrap();
    let in_bf16 = case["name"].as_str().unwrap().starts_with("bf16");
    Problem {
        dims: dims.collect(),
        dtype: if in_bf16 { BF16 } else { F32 },
        start: numbers(&draw["start"]),
        grads: draw["grads"].as_array().unwrap().iter().map(numbers).collect(),
    }
}

/// Compares every case of `file` with its builder under every layout, on threads; each builder needs a case.
fn agree(file: &str, builders: &[Builder]) {
    agree_on(file, builders, LAYOUTS, &|module| Session::threads(module, 0).unwrap());
}

/// As [`agree`], under these layouts, in sessions that are started so.
fn agree_on(
    file: &str,
    builders: &[Builder],
    layouts: &[(&str, &str)],
    start: &dyn Fn(&Module) -> Session,
) {
    let golden = golden(file);
    let kept: Vec<_> = numbers(&golden["kept"]).iter().map(|step| *step as usize).collect();
    for (name, builder) in builders {
        let cases = golden["cases"].as_array().unwrap().iter().filter(|c| c["name"] == **name);
        assert!(cases.clone().count() > 0, "no case {name} in {file}");
        for case in cases {
            let problem = problem(&golden, case);
            assert_eq!((problem.grads.len(), kept.last()), (50, Some(&50)));
            for (mesh, layout) in layouts {
                let what = format!("{name} of a {} under {layout:?}", case["shape"]);
                let got = problem.run_on(&*builder(), mesh, layout, start);
                for (step, want) in kept.iter().zip(case["values"].as_array().unwrap()) {
                    let what = format!("{what}, step {step}");
                    close(&got.values[step - 1], &numbers(want), &what);
                }
                for (slot, want) in case["slots"].as_object().unwrap() {
                    close(&got.slots[slot], &numbers(want), &format!("{what}, {slot}"));
                }
            }
        }
    }
}

#[test]
fn sgd_momentum_nesterov_and_adamw_are_pytorchs() {
    agree("torch", TORCH);
}

#[test]
fn adam_is_mesh_tensorflows() {
    agree("adam_adafactor", ADAM);
}

#[test]
fn adafactor_is_mesh_tensorflows_and_tensor2tensors() {
    agree("adam_adafactor", ADAFACTOR);
}

#[test]
fn rounded_variables_are_tensor2tensors() {
    agree("adam_adafactor", ROUNDED);
}

/// On XLA's devices, under a layout that splits gradients, variables and slots.
#[cfg(feature = "xla")]
#[test]
fn trajectories_are_the_same_on_devices() {
    let Some(plugin) = tests::plugin() else { return };
    let start = |module: &Module| Session::xla_with(module, 0, &tests::fast(&plugin)).unwrap();
    let layouts = [("d:2;m:2", "batch:d;cols:m;slots/*:d")];
    agree_on("torch", TORCH, &layouts, &start);
    for builders in [ADAM, ADAFACTOR, ROUNDED] {
        agree_on("adam_adafactor", builders, &layouts, &start);
    }
}

#[test]
fn every_golden_case_is_built() {
    for (file, builders) in
        [("torch", vec![TORCH]), ("adam_adafactor", vec![ADAM, ADAFACTOR, ROUNDED])]
    {
        let built: Vec<_> = builders.concat().iter().map(|(name, _)| *name).collect();
        for case in golden(file)["cases"].as_array().unwrap() {
            assert!(built.contains(&case["name"].as_str().unwrap()), "{}", case["name"]);
        }
    }
}

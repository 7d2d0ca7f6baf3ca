//! Thirty steps of every optimizer by name against golden files of PyTorch and optax, in f64 and in f32, and
//! under layouts against one processor. See `tests/golden/optimizers/`.

use crate::harness::LAYOUTS;
use crate::problem::{FIXED, Run, model_losses, random_layouts};
use mesh_ops::prelude::*;
use mesh_optimize::{
    AdEmaMix, AdaBelief, Adadelta, Adagrad, Adam, AdamW, Adamax, Adan, Adopt, AmsGrad, Lamb, Lars,
    Lion, Momentum, NAdam, NovoGrad, Optimizer, RAdam, RmsProp, Rprop, Schedule, SignSgd, Signum,
    Sm3, Sophia, TrustRatio, WeightDecay, Yogi, optimizers,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Rounding of thirty updates in f64, some of which divide by roots of small numbers, of the largest element.
const IN_F64: f64 = 1e-11;
/// The same in f32.
const IN_F32: f64 = 1e-6;
/// The same of Rprop, which multiplies step sizes thirty times by 1.2, which is no f32.
const OF_RPROP: f64 = 2e-6;
/// Sums over slices in another order, in f64.
const UNDER_LAYOUTS: f64 = 1e-10;

/// A golden case's name, and what builds its optimizer.
type Builder = (&'static str, fn() -> Box<dyn Optimizer>);

type SophiaBuilder = (&'static str, fn() -> Sophia);

/// Lines of the form `case: optimizer { options, ..base }`.
macro_rules! builders {
    ($($case:literal: $optimizer:expr),* $(,)?) => {
        &[$(($case, || Box::new($optimizer))),*]
    };
}

const TORCH: &[Builder] = builders! {
    "momentum_dampened": Momentum { dampening: 0.3.into(), ..Momentum::new(0.02, 0.9) },
    "nesterov_coupled": Momentum { nesterov: true, weight_decay: coupled(), ..Momentum::new(0.02, 0.8) },
    "adam": Adam::new(0.02),
    "adam_coupled": AdamW { coupled_decay: true, ..AdamW::new(0.02).weight_decay(0.1) },
    "adamw": AdamW { beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-4.into(), ..AdamW::new(0.02).weight_decay(0.1) },
    "amsgrad": AmsGrad { beta1: 0.8.into(), beta2: 0.9.into(), ..AmsGrad::torch(0.02) },
    "amsgrad_coupled": AmsGrad { weight_decay: coupled(), ..AmsGrad::torch(0.02) },
    "adadelta": Adadelta::new(1.0),
    "adadelta_options": Adadelta { rho: 0.95.into(), epsilon: 1e-4.into(), weight_decay: coupled(), ..Adadelta::new(0.5) },
    "adagrad": Adagrad::new(0.1),
    "adagrad_options": Adagrad {
        rate_decay: 0.05.into(), weight_decay: coupled(), initial_accumulator: 0.2, epsilon: 1e-3.into(),
        ..Adagrad::new(0.1)
    },
    "adamax": Adamax::new(0.02),
    "adamax_options": Adamax {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-3.into(), weight_decay: coupled(), ..Adamax::new(0.02)
    },
    "nadam": NAdam::new(0.02),
    "nadam_options": NAdam {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-3.into(), weight_decay: coupled(), momentum_decay: Some(0.02.into()),
        ..NAdam::new(0.02)
    },
    "nadam_decoupled": NAdam { weight_decay: 0.1.into(), ..NAdam::new(0.02) },
    "radam": RAdam::new(0.02),
    "radam_options": RAdam {
        beta1: 0.8.into(), beta2: 0.9.into(), epsilon: 1e-2.into(), weight_decay: coupled(), ..RAdam::new(0.02)
    },
    "radam_decoupled": RAdam { beta1: 0.8.into(), beta2: 0.95.into(), weight_decay: 0.1.into(), ..RAdam::new(0.02) },
    "rmsprop": RmsProp::new(0.01),
    "rmsprop_options": RmsProp {
        decay: 0.9.into(), epsilon: 1e-3.into(), weight_decay: coupled(), momentum: 0.8.into(), centered: true,
        ..RmsProp::new(0.01)
    },
    "rmsprop_falling": RmsProp { momentum: 0.8.into(), ..RmsProp::new(falling(0.01)) },
    "rprop": Rprop::new(0.01),
    "rprop_options": Rprop { eta_minus: 0.4.into(), eta_plus: 1.5.into(), least: 0.01.into(), most: 0.2.into(), ..Rprop::new(0.05) },
};

const OPTAX: &[Builder] = builders! {
    "nesterov": Momentum { nesterov: true, ..Momentum::new(0.02, 0.8) },
    "adam": AdamW { epsilon_root: 1e-4.into(), ..AdamW::new(0.02).weight_decay(0.0) },
    "adamw_nesterov": AdamW {
        beta1: 0.8.into(), beta2: 0.95.into(), nesterov: true, ..AdamW::new(0.02).weight_decay(1e-4)
    },
    "nadam": NAdam { momentum_decay: None, ..NAdam::new(0.02) },
    "nadamw": NAdam {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-4.into(), epsilon_root: 1e-5.into(), weight_decay: 0.1.into(),
        momentum_decay: None, ..NAdam::new(0.02)
    },
    "amsgrad": AmsGrad { beta1: 0.8.into(), beta2: 0.9.into(), ..AmsGrad::new(0.02) },
    "amsgrad_options": AmsGrad {
        epsilon: 1e-3.into(), epsilon_root: 1e-4.into(), bias_correction_first: false, bias_correction_second: false,
        ..AmsGrad::new(0.02)
    },
    "adadelta": Adadelta { rho: 0.95.into(), epsilon: 1e-4.into(), weight_decay: coupled(), ..Adadelta::new(0.5) },
    "adagrad": Adagrad::optax(0.1),
    "adagrad_from_zero": Adagrad { initial_accumulator: 0.0, epsilon: 1e-3.into(), ..Adagrad::optax(0.1) },
    "adamax": Adamax { beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-3.into(), ..Adamax::new(0.02) },
    "adamaxw": Adamax { weight_decay: 0.1.into(), ..Adamax::new(0.02) },
    "radam": RAdam::optax(0.02),
    "radam_options": RAdam {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-2.into(), epsilon_root: 1e-4.into(), threshold: 4.5.into(), nesterov: true,
        ..RAdam::optax(0.02)
    },
    "radam_never": RAdam { beta2: 0.6.into(), ..RAdam::optax(0.02) },
    "rmsprop": RmsProp::optax(0.01),
    "rmsprop_centered": RmsProp {
        decay: 0.95.into(), epsilon: 1e-3.into(), initial_scale: 0.5, centered: true, bias_correction: true,
        ..RmsProp::optax(0.01)
    },
    "rmsprop_outside": RmsProp {
        epsilon: 1e-3.into(), epsilon_inside: false, momentum: 0.8.into(), nesterov: true, ..RmsProp::optax(0.01)
    },
    "rmsprop_falling": RmsProp { momentum: 0.8.into(), ..RmsProp::optax(falling(0.01)) },
    "adabelief": AdaBelief::new(0.02),
    "adabelief_options": AdaBelief {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-3.into(), epsilon_root: 1e-4.into(), nesterov: true,
        ..AdaBelief::new(0.02)
    },
    "yogi": Yogi::new(0.05),
    "yogi_options": Yogi {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-2.into(), epsilon_root: 1e-4.into(), initial_accumulator: 0.1,
        weight_decay: 0.1.into(), ..Yogi::new(0.05)
    },
    "adan": Adan::new(0.02),
    "adan_options": Adan {
        beta1: 0.9.into(), beta2: 0.8.into(), beta3: 0.95.into(), epsilon: 1e-3.into(), epsilon_root: 1e-4.into(),
        weight_decay: 0.1.into(), ..Adan::new(0.02)
    },
    "ademamix": AdEmaMix::new(0.02),
    "ademamix_options": AdEmaMix {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-3.into(), epsilon_root: 1e-4.into(), weight_decay: 0.1.into(),
        beta3: Schedule::of_step(|step| 1.0 - (step + 2.0).reciprocal()),
        alpha: Schedule::of_step(|step| step * 0.1),
        ..AdEmaMix::new(0.02)
    },
    "adopt": Adopt::new(0.02),
    "adopt_options": Adopt {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 0.5.into(), nesterov: true, clipping: false, ..Adopt::new(0.02)
    },
    "lion": Lion::new(0.01),
    "lion_options": Lion { beta1: 0.8.into(), beta2: 0.95.into(), weight_decay: 0.1.into(), ..Lion::new(0.01) },
    "sign_sgd": SignSgd::new(0.02),
    "signum": Signum { beta: 0.8.into(), ..Signum::new(0.02) },
    "lamb": Lamb { weight_decay: 0.1.into(), ..Lamb::new(0.02) },
    "lamb_options": Lamb {
        beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-3.into(), epsilon_root: 1e-4.into(), ..Lamb::new(0.02)
    },
    "lars": Lars { ratio: TrustRatio::new(0.1), ..Lars::new(0.5) },
    "lars_options": Lars {
        weight_decay: coupled(), ratio: TrustRatio { epsilon: 0.01.into(), ..TrustRatio::new(0.1) },
        momentum: 0.8.into(), nesterov: true, ..Lars::new(falling(0.5))
    },
    "novograd": NovoGrad::new(0.02),
    "novograd_options": NovoGrad {
        beta1: 0.8.into(), beta2: 0.5.into(), epsilon: 1e-2.into(), epsilon_root: 1e-3.into(), weight_decay: 0.1.into(),
        ..NovoGrad::new(0.02)
    },
    "sm3": Sm3::new(0.1),
    "sm3_options": Sm3 { beta1: 0.8.into(), beta2: 0.95.into(), epsilon: 1e-3.into(), ..Sm3::new(0.1) },
};

/// Their curvature is renewed in every tenth step by the squared gradient.
const SOPHIA: &[SophiaBuilder] = &[
    ("sophia", || Sophia::new(0.002)),
    ("sophia_options", || Sophia {
        beta1: 0.9.into(),
        beta2: 0.8.into(),
        epsilon: 1e-2.into(),
        gamma: 2.0.into(),
        clip_threshold: None,
        weight_decay: 0.1.into(),
        ..Sophia::new(0.02)
    }),
];

fn coupled() -> WeightDecay {
    WeightDecay::coupled(0.1)
}

fn falling(rate: f64) -> Schedule {
    Schedule::of_step(move |step| (step * 0.1 + 1.0).reciprocal() * rate)
}

fn golden(file: &str) -> Vec<Value> {
    let path = format!("{}/golden/optimizers/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    whole["cases"].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Asserts that numbers differ by no more than a fraction of the largest one.
#[track_caller]
fn close(got: &[f64], want: &[f64], within: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let most = want.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let off = got.iter().zip(want).fold(0.0, |off: f64, (a, b)| off.max((a - b).abs()));
    assert!(off <= within * most, "{what}: off by {:e} of the largest", off / most);
}

/// Compares a case's optimizer with the golden numbers, and its runs under layouts with each other. `every`
/// says how many of the layouts it is tried under: one of so many.
fn agree(case: &Value, run: &Run<'_>, number: usize, every: usize) {
    let name = case["name"].as_str().unwrap();
    for (dtype, within) in
        [(F64, IN_F64), (F32, if name.starts_with("rprop") { OF_RPROP } else { IN_F32 })]
    {
        let got = run.fixed(dtype, "", "").unwrap();
        for (variable, _) in FIXED {
            let steps = case[variable].as_array().unwrap();
            assert_eq!(got[variable].len(), steps.len());
            for (got, want) in got[variable].iter().zip(steps) {
                close(got, &numbers(want), within, &format!("{name} {dtype} {variable}"));
            }
        }
    }
    close(&model_losses(run), &numbers(&case["losses"]), IN_F64, &format!("{name}: losses"));
    let alone = run.fixed(F64, "", "").unwrap();
    let some = LAYOUTS.iter().skip(number % every).step_by(every);
    let legal = some.map(|(mesh, layout)| ((*mesh).to_owned(), (*layout).to_owned()));
    for (mesh, layout) in legal.chain(random_layouts(number as u64)) {
        let got =
            run.fixed(F64, &mesh, &layout).unwrap_or_else(|report| panic!("{layout}: {report}"));
        for (variable, _) in FIXED {
            let what = format!("{name} under {layout:?}: {variable}");
            got[variable].iter().zip(&alone[variable]).for_each(|(got, want)| {
                close(got, want, UNDER_LAYOUTS, &what);
            });
        }
    }
}

/// Every builder has a case, and every case a builder.
fn agree_all(file: &str, builders: &[Builder]) {
    let cases = golden(file);
    let case = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap();
    for (number, (name, build)) in builders.iter().enumerate() {
        let optimizer = build();
        agree(case(name), &Run { optimizer: &*optimizer, curvature: None }, number, 4);
    }
    let built: BTreeSet<_> = builders.iter().map(|(name, _)| *name).collect();
    let left = cases.iter().filter_map(|case| case["name"].as_str());
    let left: Vec<_> = left.filter(|name| !built.contains(name)).collect();
    let own = SOPHIA.iter().map(|(name, _)| *name).filter(|name| left.contains(name));
    assert_eq!(left, own.collect::<Vec<_>>(), "{file} has cases without builders");
}

#[test]
fn torch_optims_optimizers() {
    agree_all("named_torch", TORCH);
}

#[test]
fn optaxs_optimizers() {
    agree_all("named_optax", OPTAX);
}

#[test]
fn sophia_with_a_given_curvature() {
    let cases = golden("named_optax");
    for (number, (name, build)) in SOPHIA.iter().enumerate() {
        let sophia = build();
        let case = cases.iter().find(|case| case["name"] == *name).unwrap();
        agree(case, &Run { optimizer: &sophia, curvature: Some(&sophia) }, number, 1);
    }
}

/// Norms of variables that are stacked in one are those of the variables alone.
#[test]
fn stacked_variables_have_norms_of_their_own() {
    let ratio = |stacked_dims| TrustRatio { stacked_dims, ..TrustRatio::new(0.1) };
    let build: [fn(TrustRatio) -> Box<dyn Optimizer>; 3] = [
        |ratio| Box::new(Lamb { ratio, ..Lamb::new(0.02) }),
        |ratio| Box::new(Lars { ratio, ..Lars::new(0.5) }),
        |ratio| Box::new(NovoGrad { stacked_dims: ratio.stacked_dims, ..NovoGrad::new(0.02) }),
    ];
    for build in build {
        let [together, apart] = [vec![], vec!["stack".to_owned()]].map(|dims| build(ratio(dims)));
        let run = |optimizer: &dyn Optimizer| {
            Run { optimizer, curvature: None }.fixed(F64, "d:2", "stack:d").unwrap()
        };
        let (together, apart) = (run(&*together), run(&*apart));
        assert_eq!(together["matrix"], apart["matrix"]);
        assert_ne!(together["cube"], apart["cube"]);
        let alone = Run { optimizer: &*build(ratio(vec![])), curvature: None }.halves_of_the_cube();
        close(&apart["cube"][0], &alone, IN_F64, "halves");
    }
}

/// The tables above, and those of `trajectories.rs`, `wrappers.rs` and `muon.rs`, have a case of everything in the list of optimizers.
#[test]
fn every_listed_optimizer_has_a_golden_case() {
    let elsewhere = ["sgd", "momentum", "adam", "adamw", "adafactor", "delayed"];
    let of_wrappers =
        ["prodigy", "ema", "lookahead", "schedule_free", "sam", "skip_not_finite", "accumulate"];
    let matrices = ["muon", "shampoo", "soap"];
    let elsewhere = [&elsewhere[..], &of_wrappers, &matrices].concat();
    for entry in optimizers() {
        let name = entry.name();
        let cases = TORCH.iter().chain(OPTAX).map(|(case, _)| *case);
        let mut cases = cases.chain(SOPHIA.iter().map(|(case, _)| *case));
        assert!(cases.any(|case| case.starts_with(name)) || elsewhere.contains(&name), "{name}");
    }
}

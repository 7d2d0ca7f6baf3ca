//! Options out of their range are refused alike in structs and in configurations.

use mesh_ops::prelude::*;
use mesh_optimize::{
    AdEmaMix, AdaBelief, Adadelta, Adafactor, Adagrad, Adam, AdamW, AdamWeightDecay, Adamax, Adan,
    Adopt, AmsGrad, Decay, Lamb, Lars, Lion, Matrices, MatrixDims, Momentum, Muon, NAdam, NovoGrad,
    Optimizer, OptimizerConfig, Prodigy, RAdam, RmsProp, Rprop, Schedule, Sgd, Shampoo, SignSgd,
    Signum, Sm3, Soap, Sophia, Yogi, optimizers,
};
use serde_json::json;

/// What an option may not be.
const NEGATIVE: f64 = -0.5;
const NAN: f64 = f64::NAN;
const INFINITE: f64 = f64::INFINITY;

type Build = Box<dyn Fn(f64) -> Box<dyn Optimizer>>;

/// An optimizer with an option: the optimizer's name, the option's, what it may not be beside what none
/// may, and what it may.
struct Option_(&'static str, &'static str, &'static [f64], f64, Build);

fn option<O: Optimizer + 'static>(
    [optimizer, name]: [&'static str; 2],
    wrong: &'static [f64],
    right: f64,
    build: impl Fn(f64) -> O + 'static,
) -> Option_ {
    Option_(optimizer, name, wrong, right, Box::new(move |x| Box::new(build(x))))
}

fn options() -> Vec<Option_> {
    let (adam, decay) = (["adamw", "beta1"], |decay| Adafactor { decay, ..Adafactor::default() });
    vec![
        option(adam, &[1.0, 1.5], 0.0, |x| Adam { beta1: x.into(), ..Adam::new(0.1) }),
        option(["adamw", "beta2"], &[1.0], 0.5, |x| Adam { beta2: x.into(), ..Adam::new(0.1) }),
        option(["adamw", "epsilon"], &[], 0.0, |epsilon| Adam {
            epsilon: epsilon.into(),
            ..Adam::new(0.1)
        }),
        option(adam, &[1.0], 0.9, |x| AdamW { beta1: x.into(), ..AdamW::new(0.1) }),
        option(["adamw", "weight_decay"], &[], 2.0, |x| AdamW {
            weight_decay: x.into(),
            ..AdamW::new(0.1)
        }),
        option(["adam", "beta2"], &[1.0], 0.9, |x| AdamWeightDecay {
            beta2: x.into(),
            ..AdamWeightDecay::new(0.1)
        }),
        option(["momentum", "momentum"], &[1.0], 0.0, |x| Momentum::new(0.1, x)),
        option(["adafactor", "beta1"], &[1.5], 1.0, |x| Adafactor {
            beta1: x.into(),
            ..Adafactor::default()
        }),
        option(["adafactor", "epsilon1"], &[], 0.0, |x| Adafactor {
            epsilon1: x.into(),
            ..Adafactor::default()
        }),
        option(["adafactor", "clipping_threshold"], &[0.5], 1.0, |x| Adafactor {
            clipping_threshold: Some(x.into()),
            ..Adafactor::default()
        }),
        option(["adafactor", "decay exponent"], &[1.5], 1.0, move |exponent| {
            decay(Decay::Pow { exponent, offset: 0 })
        }),
        option(["adafactor", "decay beta2"], &[1.0], 0.5, move |beta2| {
            decay(Decay::Adam { beta2 })
        }),
        option(["adafactor", "decay"], &[1.0], 0.5, move |x| decay(Decay::Given(x.into()))),
        option(["adafactor", "decay"], &[1.0], 0.5, move |x| decay(Decay::Given(x.into()))),
    ]
}

/// Options by their fields: what they may not be, and what they may.
macro_rules! fields {
    ($($name:literal $type:ident { $($field:ident: $wrong:expr, $right:expr);* })*) => {
        vec![$($(option([$name, stringify!($field)], &$wrong, $right, |x| $type {
            $field: x.into(),
            ..$type::new(0.1)
        })),*),*]
    };
}

/// Of each optimizer by name the options that another range than numbers from 0 on holds for, or one.
fn by_name() -> Vec<Option_> {
    let mut all = fields! {
        "lion" Lion { beta1: [1.0], 0.9; beta2: [1.0], 0.0 }
        "signum" Signum { beta: [1.0], 0.9 }
        "rprop" Rprop { eta_minus: [1.0], 0.5; eta_plus: [0.5], 1.0; least: [], 0.0 }
        "adagrad" Adagrad { epsilon: [], 1e-3; rate_decay: [], 0.5 }
        "adadelta" Adadelta { rho: [1.0], 0.9 }
        "rmsprop" RmsProp { decay: [1.0], 0.9; momentum: [1.0], 0.9; initial_scale: [], 1.0 }
        "adamax" Adamax { beta1: [1.0], 0.9; beta2: [1.0], 0.9 }
        "amsgrad" AmsGrad { beta1: [1.0], 0.9; beta2: [1.0], 0.9 }
        "nadam" NAdam { beta1: [1.0], 0.9; beta2: [1.0], 0.9 }
        "radam" RAdam { beta1: [1.0], 0.9; threshold: [3.5], 4.0 }
        "adabelief" AdaBelief { beta1: [1.0], 0.9; epsilon_root: [], 1e-8 }
        "yogi" Yogi { beta1: [1.0], 0.9; initial_accumulator: [], 0.1 }
        "adan" Adan { beta1: [1.0], 0.9; beta2: [1.0], 0.9; beta3: [1.0], 0.9 }
        "ademamix" AdEmaMix { beta1: [1.0], 0.9; beta2: [1.0], 0.9 }
        "adopt" Adopt { beta1: [1.0], 0.9; beta2: [1.0], 0.9 }
        "sophia" Sophia { beta1: [1.0], 0.9; gamma: [], 1.0 }
        "lars" Lars { momentum: [1.0], 0.9 }
        "lamb" Lamb { beta1: [1.0], 0.9; epsilon: [], 1e-3 }
        "novograd" NovoGrad { beta1: [1.0], 0.9; beta2: [1.0], 0.9 }
        "prodigy" Prodigy { beta1: [1.0], 0.9; d0: [0.0], 1e-3; growth: [0.0], 0.5 }
        "sm3" Sm3 { beta1: [1.5], 1.0; beta2: [1.5], 1.0 }
    };
    all.extend([
        option(["sgd", "weight_decay"], &[], 0.1, |x| Sgd {
            weight_decay: x.into(),
            ..Sgd::new(0.1)
        }),
        option(["sign_sgd", "weight_decay"], &[], 0.1, |x| SignSgd {
            weight_decay: x.into(),
            ..SignSgd::new(0.1)
        }),
        option(["momentum", "dampening"], &[1.5], 1.0, |dampening| Momentum {
            dampening: dampening.into(),
            ..Momentum::new(0.1, 0.9)
        }),
        option(["sophia", "clip_threshold"], &[], 1.0, |x| Sophia {
            clip_threshold: Some(x.into()),
            ..Sophia::new(0.1)
        }),
        option(["ademamix", "beta3"], &[1.0], 0.9, |x| AdEmaMix {
            beta3: x.into(),
            ..AdEmaMix::new(0.1)
        }),
        option(["muon", "momentum"], &[1.0], 0.9, |x| Muon {
            momentum: x.into(),
            matrices: pairs(),
            ..Muon::new(0.1)
        }),
        option(["muon", "epsilon"], &[], 1e-3, |epsilon| Muon {
            epsilon: epsilon.into(),
            matrices: pairs(),
            ..Muon::new(0.1)
        }),
        option(["shampoo", "beta1"], &[1.0], 0.9, |x| Shampoo {
            beta1: x.into(),
            matrices: pairs(),
            ..Shampoo::new(0.1)
        }),
        option(["soap", "beta2"], &[1.0], 0.9, |x| Soap {
            beta2: x.into(),
            matrices: pairs(),
            ..Soap::new(0.1)
        }),
    ]);
    all
}

/// All variables of two dims.
fn pairs() -> Matrices {
    Matrices { dims: MatrixDims::Pairs, ..Matrices::default() }
}

/// What is wrong with a graph that trains two variables with the optimizer.
fn issues(optimizer: &dyn Optimizer) -> Vec<(String, String)> {
    let g = mesh_ops::graph();
    let dims = [dim("x", 4), dim("y", 2)];
    let [v, w] = ["v", "w"].map(|name| g.variable(name, dims, F32, Initializer::ONES));
    optimizer.minimize((v.value() * w.value()).sum_all());
    let found = g.check().err().map(|report| report.issues).unwrap_or_default();
    found.into_iter().map(|issue| (issue.subject, issue.message)).collect()
}

#[test]
fn structs_refuse_what_configurations_refuse() {
    for Option_(optimizer, name, wrong, right, build) in options().into_iter().chain(by_name()) {
        assert_eq!(issues(&*build(right)), [], "{optimizer} {name} {right}");
        for wrong in wrong.iter().copied().chain([NEGATIVE, NAN, INFINITE]) {
            let found = issues(&*build(wrong));
            // Once, not for each variable.
            assert_eq!(found.len(), 1, "{optimizer} {name} {wrong}: {found:?}");
            let (subject, message) = &found[0];
            let said = format!("{name} is {wrong}; legal is ");
            let of_rate = subject == "learning_rate" || subject == "learning rate";
            assert!(of_rate || subject == optimizer && message.starts_with(&said), "{found:?}");
        }
    }
}

#[test]
fn every_optimizer_has_an_option_that_is_tried() {
    let tried: Vec<_> = options().into_iter().chain(by_name()).map(|option| option.0).collect();
    for entry in optimizers().iter().filter(|entry| !entry.wraps()) {
        assert!(tried.contains(&entry.name()), "{}", entry.name());
    }
}

#[test]
fn rates_are_finite_and_not_negative() {
    let optimizers: [fn(Schedule) -> Box<dyn Optimizer>; 4] = [
        |rate| Box::new(Sgd::new(rate)),
        |rate| Box::new(Momentum::new(rate, 0.9)),
        |rate| Box::new(AdamW::new(rate)),
        |rate| Box::new(Adafactor::default().learning_rate(rate)),
    ];
    for build in optimizers {
        for wrong in [NEGATIVE, NAN, INFINITE] {
            let found = issues(&*build(wrong.into()));
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].1.contains(&wrong.to_string()), "{found:?}");
        }
        assert_eq!(issues(&*build(0.1.into())), []);
    }
}

#[test]
fn options_that_the_decay_ignores_are_said() {
    for (decay, key) in [
        (json!({"optimizer_adafactor_decay_type": "pow"}), "optimizer_adafactor_beta2"),
        (json!({}), "optimizer_adafactor_beta2"),
        (json!({"optimizer_adafactor_decay_type": "Adam"}), "optimizer_adafactor_memory_exponent"),
        (json!({"ada_decay_rate": 0.9}), "optimizer_adafactor_memory_exponent"),
    ] {
        let mut config = decay.clone();
        config["opt_name"] = json!("adafactor");
        OptimizerConfig::from_json(&config.to_string()).unwrap();
        config[key] = json!(0.5);
        let said = OptimizerConfig::from_json(&config.to_string()).unwrap_err().to_string();
        assert!(said.contains(&format!("{key}: only an")), "{said}");
    }
}

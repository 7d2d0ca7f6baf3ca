//! Rows 1 to 12: `get_optimizer`, the function of the question how to wrap a mesh optimizer.

use super::guides::settles;
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer, OptimizerConfig, get_optimizer, microbatches};
use ndarray::{ArrayD, IxDyn, arr0, arr1};
use serde_json::{Value, json};
use std::f64::consts::PI;

const GUIDE: &str = "from-cross-shard-optimizer.md";

const STEPS: [f64; 12] = [0.0, 1.0, 2.0, 9.0, 10.0, 11.0, 40.0, 50.0, 79.0, 80.0, 81.0, 5_000.0];

#[track_caller]
fn config(value: Value) -> OptimizerConfig {
    serde_json::from_value(value).unwrap()
}

#[track_caller]
fn refused(value: Value, words: &[&str]) {
    let error = OptimizerConfig::from_json(&value.to_string()).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "no {word:?} in {error}");
    }
}

/// The configured rate at every step is that of a formula, in f64.
#[track_caller]
fn rates(value: Value, formula: impl Fn(f64) -> f64) {
    let g = mesh_ops::graph();
    let step = g.input("step", [], F64);
    let f = g.function("f", [step], [config(value).learning_rate().at_step(step)], []);
    let module = g.lower(&"d:2".parse().unwrap(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    for t in STEPS {
        let [rate] = session.call(&f, [arr0(t).view().into()]).unwrap();
        let (got, want) = (rate.item().unwrap(), formula(t));
        assert!((got - want).abs() <= 1e-12 * want.abs().max(1e-3), "step {t}: {got} not {want}");
    }
}

/// The values of variables of two elements after each step, and the warnings.
fn trained(
    optimizer: &dyn Optimizer,
    variables: &[(&str, [f32; 2])],
    grads: &[[f32; 2]],
    mesh: &str,
    layout: &str,
) -> Vec<Vec<f64>> {
    let g = mesh_ops::graph();
    let x = dim("x", 2);
    let grad = g.input("grad", [x], F32);
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, start)| (g.variable(name, [x], F32, Initializer::ZEROS), *start))
        .collect();
    let pairs: Vec<_> = variables.iter().map(|(v, _)| (Some(grad), *v)).collect();
    let f = g.function("train", [grad], [], optimizer.apply_grads(&pairs));
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    for (variable, start) in &variables {
        session.write(&variable.name(), &arr1(start).into_dyn()).unwrap();
    }
    for grad in grads {
        let [] = session.call(&f, [arr1(grad).view().into()]).unwrap();
    }
    let read = |name: String| session.read(&name).unwrap().to_f64().iter().copied().collect();
    variables.iter().map(|(variable, _)| read(variable.name())).collect()
}

#[track_caller]
fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 2e-6 * want.abs().max(1e-2), "{got} not {want}");
    }
}

#[test]
fn row_01_linear_decay_to_a_tenth() {
    let line = |end: f64| move |t: f64| 0.6 - 0.54 * t.min(end) / end;
    let linear = |more: Value| {
        let mut all = json!({"opt_name": "sgd", "lr": 0.6, "lr_decay": "linear"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    rates(linear(json!({"train_steps": 80})), line(80.0));
    rates(linear(json!({"train_steps": 80, "lr_decay_end": 50})), line(50.0));
    let polynomial =
        json!({"opt_name": "sgd", "lr": 0.6, "train_steps": 80, "lr_decay": "polynomial"});
    rates(polynomial.clone(), line(80.0));
    let with = |more: Value| {
        let mut all = polynomial.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    rates(with(json!({"lr_decay_power": 2.0})), |t| {
        let left = 1.0 - t.min(80.0) / 80.0;
        0.54 * left * left + 0.06
    });
    rates(with(json!({"lr_decay_cycle": true})), |t| {
        let end = if t == 0.0 { 80.0 } else { 80.0 * (t / 80.0).ceil() };
        0.54 * (1.0 - t / end) + 0.06
    });
    let endless = json!({"opt_name": "sgd", "lr": 0.6, "lr_decay": "linear"});
    refused(endless, &["lr_decay: ", "lr_decay_end or train_steps"]);
}

#[test]
fn row_02_cosine_decay_to_a_tenth() {
    let cosine = json!({"opt_name": "sgd", "lr": 0.6, "lr_decay": "cosine", "train_steps": 80});
    rates(cosine, |t| 0.6 * (0.9 * 0.5 * (1.0 + (PI * t.min(80.0) / 80.0).cos()) + 0.1));
    let sooner = json!({"opt_name": "sgd", "lr": 0.6, "lr_decay": "cosine", "lr_decay_end": 50});
    rates(sooner, |t| 0.6 * (0.9 * 0.5 * (1.0 + (PI * t.min(50.0) / 50.0).cos()) + 0.1));
}

#[test]
fn row_03_warm_up_of_the_decayed_rate() {
    let decayed = |t: f64| 0.6 - 0.54 * t.min(80.0) / 80.0;
    let linear = |steps: u64| {
        json!({"opt_name": "sgd", "lr": 0.6, "lr_decay": "linear", "train_steps": 80,
               "warmup_steps": steps})
    };
    rates(linear(10), |t| if t < 10.0 { decayed(t) * t / 10.0 } else { decayed(t) });
    rates(linear(0), decayed);
}

#[test]
fn row_04_the_learning_rate_is_a_replicated_number_of_that_name() {
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("x", 4)], F32, Initializer::ONES);
    let config = config(json!({"opt_name": "sgd", "lr": 0.5, "warmup_steps": 2}));
    let (rate, updates, _) = get_optimizer(&g, w.value().sum_all(), &config, None);
    assert!(rate.shape().is_scalar() && rate.dtype() == F32);
    g.function("train", [], [rate], updates);
    let module = g.lower(&"d:2".parse().unwrap(), &"x:d".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    session.set_replica_check(true).unwrap();
    for expected in [0.0, 0.25, 0.5, 0.5] {
        let fetched = session.call_named("train", &[]).unwrap();
        assert_eq!(fetched[0].0, "learning_rate");
        assert_eq!(fetched[0].1.item(), Some(expected));
    }
}

#[test]
fn row_05_gradients_from_elsewhere_replace_its_own() {
    let config = config(json!({"opt_name": "sgd", "lr": 1.0}));
    let run = |parts: Option<usize>, elsewhere: bool| {
        let g = mesh_ops::graph();
        let (batch, x) = (dim("batch", 8), dim("x", 3));
        let input = g.input("input", [batch, x], F32);
        let w = g.variable("w", [x], F32, Initializer::ONES);
        let (loss, mut grads) = match parts {
            Some(parts) => {
                let (loss, grads) = microbatches(&g, batch, parts, &[input], |part| {
                    part[0].einsum(&[w.value()], [batch.resized(8 / parts)]).square().mean()
                });
                (loss, Some(grads))
            }
            None => (input.einsum(&[w.value()], [batch]).square().mean(), None),
        };
        if elsewhere {
            grads = Some(vec![(Some(w.value() * 0.25), w)]);
        }
        let (_, updates, _) = get_optimizer(&g, loss, &config, grads);
        g.function("train", [input], [loss], updates);
        let module = g.lower(&"d:2".parse().unwrap(), &"batch:d".parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let data = ArrayD::from_shape_fn(IxDyn(&[8, 3]), |i| (i[0] * 3 + i[1]) as f32 / 16.0);
        session.call_named("train", &[("input", data.view().into())]).unwrap();
        session.read("w").unwrap().to_f64().iter().copied().collect::<Vec<_>>()
    };
    close(&run(Some(4), false), &run(None, false));
    // The values of the gradients do not matter.
    assert_eq!(run(None, true), [0.75; 3]);
    assert_eq!(run(Some(2), true), [0.75; 3]);
}

#[test]
fn row_06_gradients_are_cast_then_clipped_then_applied() {
    // Gradients of 3 and 4 in bf16: the norm is 5, and a fifth of 3 is no bf16.
    let run = |clipping: Value| {
        let g = mesh_ops::graph();
        let w = g.variable("w", [dim("x", 2)], BF16, Initializer::ZEROS);
        let factors = g.constant(arr1(&[3f32, 4.0]).into_dyn(), [dim("x", 2)]).cast(BF16);
        let config = config(json!({"opt_name": "sgd", "lr": 1.0, "gradient_clipping": clipping}));
        let (_, updates, grads) = get_optimizer(&g, (w.value() * factors).sum_all(), &config, None);
        let grad = grads[0].0.unwrap();
        assert_eq!(grad.dtype(), F32);
        g.function("train", [], [grad], updates);
        let module = g.lower(&"d:2".parse().unwrap(), &"slots/*:d".parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let fetched = session.call_named("train", &[]).unwrap();
        let list = |array: Array| array.to_f64().iter().copied().collect::<Vec<_>>();
        (list(fetched[0].1.clone()), list(session.read("w").unwrap()))
    };
    let (grads, weights) = run(json!(1.0));
    close(&grads, &[0.6, 0.8]);
    assert_eq!(weights, [-0.6015625, -0.80078125], "applied, and rounded once");
    for unclipped in [json!(null), json!(10.0)] {
        assert_eq!(run(unclipped), (vec![3.0, 4.0], vec![-3.0, -4.0]));
    }
    let absent = config(json!({"opt_name": "sgd", "lr": 1.0}));
    assert_eq!(absent.gradient_clipping(), None);
}

#[test]
fn row_07_names_of_optimizers_in_any_case() {
    let table: [(&[&str], &[&str]); 5] = [
        (&["adam", "Adam", "ADAM"], &["adam_m", "adam_v"]),
        (&["adamw", "AdamW"], &["adam_m", "adam_v", "adam_t"]),
        (&["adafactor", "Adafactor"], &["adafactor_vr", "adafactor_vc", "adafactor_v"]),
        (&["sgd", "SGD"], &[]),
        (&["momentum"], &["momentum"]),
    ];
    for (names, slots) in table {
        for name in names {
            let config = config(json!({"opt_name": name, "lr": 0.1}));
            assert_eq!(config.optimizer().slot_names(), slots, "{name}");
        }
    }
    let legal = "adam, adamw, "; // among others
    refused(json!({"opt_name": "best", "lr": 0.1}), &["opt_name: \"best\"", legal]);
    refused(json!({"opt_name": "adamm", "lr": 0.1}), &[legal, "did you mean `adam`?"]);
    refused(json!({"opt_name": 3, "lr": 0.1}), &["opt_name: 3", legal]);
    refused(json!({"lr": 0.1}), &["opt_name: it is missing", legal]);
}

#[test]
fn row_08_adam_spares_norms_and_biases() {
    let names =
        [("layer/kernel", [1.0, -2.0]), ("layer/bias", [1.0, -2.0]), ("norm/scale", [1.0, -2.0])];
    let grads = [[0.5, -0.25], [0.1, 0.1]];
    let configured = config(json!({"opt_name": "adam", "lr": 0.1, "weight_decay": 0.01}));
    // Computed by another program: w -= 0.1 (m / (sqrt(v) + 1e-6) + 0.01 w), and without the decay.
    let decayed = [0.3408709867, -1.5332792970];
    let plain = |start: f64, grads: [f64; 2]| {
        let (mut w, mut m, mut v) = (start, 0.0, 0.0);
        for g in grads {
            m = 0.9 * m + (1.0 - 0.9) * g;
            v = 0.999 * v + (1.0 - 0.999) * g * g;
            w -= 0.1 * m / (f64::sqrt(v) + 1e-6);
        }
        w
    };
    let spared = [plain(1.0, [0.5, 0.1]), plain(-2.0, [-0.25, 0.1])];
    for (mesh, layout) in [("", ""), ("d:2", "x:d"), ("d:2", "slots/*:d")] {
        let values = trained(&*configured.optimizer(), &names, &grads, mesh, layout);
        close(&values[0], &decayed);
        close(&values[1], &spared);
        close(&values[2], &spared);
        // The constructor excludes and decays no variable.
        let bare = AdamWeightDecay::new(0.1);
        let numbers = format!("{:?}", (&bare.weight_decay, &bare.beta1, &bare.beta2));
        assert_eq!(numbers, "(0.0, 0.9, 0.999)");
        assert_eq!(bare.epsilon.constant(), Some(1e-6));
        assert!(bare.exclude.is_empty());
        let values = trained(&bare.weight_decay(0.01), &names, &grads, mesh, layout);
        values.iter().for_each(|value| close(value, &decayed));
    }
}

#[test]
fn row_09_adafactor_takes_the_scheduled_rate_and_no_weight_decay() {
    // A rate that is 0 at first leaves the variable unchanged, with every optimizer.
    for name in ["adam", "adamw", "adafactor", "sgd", "momentum"] {
        let config = config(json!({"opt_name": name, "lr": 0.1, "warmup_steps": 2}));
        let run = |grads: &[[f32; 2]]| {
            trained(&*config.optimizer(), &[("w", [1.0, -2.0])], grads, "", "").remove(0)
        };
        assert_eq!(run(&[[0.5, -0.25]]), [1.0, -2.0], "{name}");
        assert_ne!(run(&[[0.5, -0.25]; 2]), [1.0, -2.0], "{name}");
    }
    let decayed = json!({"opt_name": "adafactor", "lr": 0.1, "weight_decay": 0.1});
    refused(decayed, &["weight_decay: ", "ada_decay_rate"]);
    config(json!({"opt_name": "adafactor", "lr": 0.1, "weight_decay": 0.0}));
    // v = 0.5 v + 0.5 g² from 0, u = g / sqrt(v) = sqrt(2), clipped to 1; the scale is rms(w).
    let constant = config(json!({"opt_name": "adafactor", "lr": 0.1, "ada_decay_rate": 0.5}));
    let values =
        trained(&*constant.optimizer(), &[("w", [1.0, 1.0])], &[[0.5, 0.5]; 2], "", "").remove(0);
    let second = 0.9 - 0.1 * 0.9 * (1.0 / 0.75f64.sqrt() / (1.0 / 0.75f64.sqrt()).max(1.0));
    close(&values, &[second, second]);
    settles(GUIDE, &["What the question's function does otherwise"]);
}

#[test]
fn row_10_use_tpu_is_a_note() {
    let notes = |use_tpu: bool| {
        config(json!({"opt_name": "sgd", "lr": 0.1, "use_tpu": use_tpu})).notes().to_vec()
    };
    assert_eq!(notes(false), [""; 0]);
    let note = notes(true);
    assert_eq!(note.len(), 1);
    for words in ["use_tpu", "no wrapper is needed", "docs/from-cross-shard-optimizer.md"] {
        assert!(note[0].contains(words), "{note:?}");
    }
    refused(json!({"opt_name": "sgd", "lr": 0.1, "use_tpu": "yes"}), &["use_tpu: \"yes\""]);
    settles(GUIDE, &["use_tpu"]);
}

#[test]
fn row_11_one_update_of_one_variable() {
    let g = mesh_ops::graph();
    let x = dim("x", 2);
    let w = g.variable("layer/w", [x], BF16, Initializer::ONES);
    let adam = AdamWeightDecay::new(0.1).weight_decay(0.01);
    let grad = g.input("grad", [x], F32);
    let updates = adam.apply_grad(grad.relayout(w.slots_key()), w);
    let said: Vec<_> = updates.iter().map(|update| format!("{update:?}")).collect();
    let names = ["layer/w", "layer/w/adam_m", "layer/w/adam_v"];
    assert_eq!(said, names.map(|name| format!("update of {name}")));
    assert!(g.trainable_variables().iter().all(|variable| variable.name() == "layer/w"));
    for name in ["adam_m", "adam_v"] {
        let slot = adam.slot(w, name).unwrap();
        assert_eq!((slot.dtype(), slot.shape()), (F32, w.shape()));
    }
    let f = g.function("f", [grad], [], updates);
    let module = g.lower(&"d:2".parse().unwrap(), &"slots/*:d".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    assert_eq!(session.read("layer/w/adam_m").unwrap().to_f64().sum(), 0.0);
    let [] = session.call(&f, [arr1(&[0.5f32, -0.25]).view().into()]).unwrap();
    let read =
        |name: &str| -> Vec<f64> { session.read(name).unwrap().to_f64().iter().copied().collect() };
    close(&read("layer/w/adam_m"), &[0.05, -0.025]);
    close(&read("layer/w/adam_v"), &[0.00025, 0.0000625]);
    let after = |g: f64| 1.0 - 0.1 * (0.1 * g / ((0.001 * g * g).sqrt() + 1e-6) + 0.01);
    for (got, want) in read("layer/w").iter().zip([0.5, -0.25].map(after)) {
        assert!((got - want).abs() < 1.0 / 256.0, "bf16: {got} not {want}");
    }

    // No gradient: a warning that names the variable, and no update.
    let g = mesh_ops::graph();
    let lonely = g.variable("lonely", [x], F32, Initializer::ONES);
    assert!(AdamWeightDecay::new(0.1).apply_grads(&[(None, lonely)]).is_empty());
    let warnings = g.warnings();
    assert!(warnings.len() == 1 && warnings[0].subject == "lonely", "{warnings:?}");
}

#[test]
fn row_12_rate_updates_and_clipped_gradients() {
    let g = mesh_ops::graph();
    let (batch, x) = (dim("batch", 4), dim("x", 2));
    let input = g.input("input", [batch, x], F32);
    let w = g.variable("w", [x], F32, Initializer::ONES);
    let other = g.variable("other", [x], F32, Initializer::ONES);
    let loss = input.einsum(&[w.value()], [batch]).sum_all();
    let config = config(json!({"opt_name": "adam", "lr": 0.1, "gradient_clipping": 1.0}));
    let (rate, updates, grads) = get_optimizer(&g, loss, &config, None);
    assert_eq!(updates.len(), 3, "of w and its two slots");
    assert_eq!(grads.iter().map(|(_, v)| v.name()).collect::<Vec<_>>(), ["w", "other"]);
    assert!(grads[1].0.is_none(), "{other:?} has none");
    g.function("train", [input], [rate, grads[0].0.unwrap()], updates);
    let module = g.lower(&"d:2".parse().unwrap(), &"batch:d".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let data = ArrayD::from_shape_fn(IxDyn(&[4, 2]), |i| if i[1] == 0 { 0.75f32 } else { 1.0 });
    let fetched = session.call_named("train", &[("input", data.view().into())]).unwrap();
    assert_eq!(fetched[0].1.item().unwrap() as f32, 0.1);
    close(fetched[1].1.to_f64().as_slice().unwrap(), &[0.6, 0.8]);
}

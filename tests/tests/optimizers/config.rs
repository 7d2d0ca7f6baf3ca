//! Configurations: legal files, their meaning, and the errors of the others.

use mesh_optimize::OptimizerConfig;
use serde_json::{Map, Value, json};

fn read(value: &Value) -> Result<OptimizerConfig, String> {
    OptimizerConfig::from_json(&value.to_string()).map_err(|error| error.to_string())
}

/// A configuration with more keys, or other values.
fn with(base: &Value, more: Value) -> Value {
    let mut all: Map<_, _> = base.as_object().unwrap().clone();
    all.extend(more.as_object().unwrap().clone());
    Value::Object(all)
}

#[track_caller]
fn refused(value: &Value, words: &[&str]) {
    let error = read(value).unwrap_err();
    assert_eq!(error.lines().count(), 1, "{error}");
    for word in words {
        assert!(error.contains(word), "no {word:?} in {error}");
    }
}

/// The optimizer that a configuration gives, as text.
fn made(value: &Value) -> String {
    format!("{:?}", read(value).unwrap())
}

/// Every key that belongs not only to Adafactor, as in a published model's file.
fn whole() -> Value {
    json!({
        "opt_name": "adam", "lr": 0.0006, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95,
        "epsilon": 1e-8, "ada_epsilon1": 1e-30, "ada_epsilon2": 1e-3, "lr_decay": "cosine",
        "lr_decay_end": 300000, "train_steps": 572300, "warmup_steps": 3000,
        "gradient_clipping": 1.0, "use_tpu": false, "train_batch_size": 512,
    })
}

#[test]
fn json_and_toml_say_the_same() {
    let config = OptimizerConfig::from_json(&whole().to_string()).unwrap();
    assert_eq!(config.gradient_clipping(), Some(1.0));
    assert_eq!((config.train_steps(), config.train_batch_size()), (Some(572_300), Some(512)));
    let lines: Vec<_> = whole()
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    let toml = OptimizerConfig::from_toml(&lines.join("\n")).unwrap();
    assert_eq!(format!("{config:?}"), format!("{toml:?}"));
    let within: OptimizerConfig = serde_json::from_value(whole()).unwrap();
    assert_eq!(format!("{config:?}"), format!("{within:?}"));
}

#[test]
fn files_go_by_their_ending() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("config");
    std::fs::create_dir_all(&dir).unwrap();
    let load = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        OptimizerConfig::load(&path).map_err(|error| error.to_string())
    };
    load("good.json", r#"{"opt_name": "sgd", "lr": 0.1}"#).unwrap();
    load("good.toml", "opt_name = 'sgd'\nlr = 0.1").unwrap();
    for (name, text, words) in [
        ("bad.json", "{\"lr\": }", "this is no JSON"),
        ("list.json", "[1]", "an object of keys and values"),
        ("bad.toml", "lr == 0.1", "this is no TOML"),
        ("nan.toml", "opt_name = 'adam'\nlr = 0.1\nbeta1 = nan", "beta1: a number is neither"),
        ("inf.toml", "opt_name = 'sgd'\n[lr_by_batch]\n64 = -inf", "lr_by_batch: a number is"),
        ("config.yaml", "lr: 0.1", "legal are .json and .toml"),
    ] {
        let error = load(name, text).unwrap_err();
        assert!(error.contains(words) && error.contains(name), "{error}");
    }
    let error = OptimizerConfig::load(&dir.join("absent.json")).unwrap_err().to_string();
    assert!(error.contains("absent.json") && error.contains("No such file"), "{error}");
}

#[test]
fn one_bad_key_is_named_with_what_is_legal() {
    let base = with(&whole(), json!({}));
    let table: &[(Value, &[&str])] = &[
        (json!({"learning_rte": 1}), &["learning_rte: there is no such key", "legal are", "lr"]),
        (json!({"weight_decy": 1}), &["weight_decy: ", "did you mean `weight_decay`?"]),
        (json!({"Beta1": 0.9}), &["Beta1: ", "did you mean `beta1`?"]),
        (json!({"lr": "fast"}), &["lr: \"fast\" is not legal", "a positive number"]),
        (json!({"lr": 0}), &["lr: 0 is not legal", "positive"]),
        (json!({"lr": -0.1}), &["lr: -0.1 is not legal", "positive"]),
        (json!({"weight_decay": -1}), &["weight_decay: -1", "from 0 on"]),
        (json!({"beta1": 1.0}), &["beta1: 1.0", "0 to below 1"]),
        (json!({"beta2": 1.5}), &["beta2: 1.5", "0 to below 1"]),
        (json!({"epsilon": -1e-9}), &["epsilon: -1e-9", "from 0 on"]),
        (json!({"ada_epsilon1": "1e-30"}), &["ada_epsilon1: \"1e-30\"", "a number"]),
        (json!({"ada_decay_rate": 1}), &["ada_decay_rate: 1", "below 1"]),
        (json!({"momentum": 1}), &["momentum: 1", "below 1"]),
        (json!({"nesterov": 1}), &["nesterov: 1", "true or false"]),
        (json!({"train_steps": 0}), &["train_steps: 0", "a whole number from 1 on"]),
        (json!({"train_steps": 1.5}), &["train_steps: 1.5", "a whole number from 1 on"]),
        (json!({"warmup_steps": -1}), &["warmup_steps: -1", "a whole number from 0 on"]),
        (json!({"train_batch_size": 0}), &["train_batch_size: 0", "1 on"]),
        (json!({"gradient_clipping": 0}), &["gradient_clipping: 0", "a positive number or null"]),
        (
            json!({"lr_decay": "steep"}),
            &[
                "lr_decay: \"steep\"",
                "linear, polynomial, cosine, exponential, stable, restarts, one_cycle or none",
            ],
        ),
        (json!({"lr_decay": "linaer"}), &["did you mean `linear`?"]),
        (json!({"lr_decay_power": 2}), &["lr_decay_power: ", "polynomial"]),
        (json!({"lr_decay_cycle": false}), &["lr_decay_cycle: ", "polynomial"]),
        (json!({"use_tpu": 1}), &["use_tpu: 1", "true or false"]),
        (json!({"optimizer_adafactor_decay_type": "exp"}), &["decay_type: \"exp\"", "pow or Adam"]),
        (json!({"optimizer_adafactor_beta2": 1}), &["optimizer_adafactor_beta2: 1", "below 1"]),
        (json!({"optimizer_adafactor_memory_exponent": 2}), &["memory_exponent: 2", "0 to 1"]),
        (json!({"optimizer_adafactor_beta1": 2}), &["optimizer_adafactor_beta1: 2", "0 to 1"]),
        (
            json!({"optimizer_adafactor_clipping_threshold": 0.5}),
            &["threshold: 0.5", "from 1 on, or none"],
        ),
        (json!({"optimizer_adafactor_factored": 0}), &["factored: 0", "true or false"]),
        (json!({"simulated_parameter_quantize_bits": 1}), &["bits: 1", "2 to 22, or 0"]),
        (json!({"simulated_parameter_quantize_bits": 23}), &["bits: 23", "2 to 22, or 0"]),
        (json!({"lr_by_batch": {"64": 0.1}}), &["lr_by_batch: there is lr already"]),
        (json!({"lr_by_batch": {}, "lr": null}), &["lr_by_batch: {}", "a table"]),
        (json!({"opt_name": "adafactor"}), &["weight_decay: ", "ada_decay_rate"]),
    ];
    for (more, words) in table {
        let value = with(&base, more.clone());
        if more.get("lr_by_batch") == Some(&json!({})) {
            assert!(read(&value).unwrap_err().contains(words[0]));
        } else {
            refused(&value, words);
        }
    }
}

/// Keys of other optimizers have no effect among the five that published files name; elsewhere they are errors.
#[test]
fn options_belong_to_optimizers() {
    read(&json!({"opt_name": "sgd", "lr": 0.1, "beta1": 0.5, "ada_epsilon1": 1e-20})).unwrap();
    let table: &[(Value, &[&str])] = &[
        (json!({"opt_name": "sgd", "depth": 1}), &["depth: sgd has no such option; delayed has"]),
        (
            json!({"opt_name": "lion", "momentum": 0.5}),
            &["momentum: lion has no such option; momentum, rmsprop, lars and muon have"],
        ),
        (
            json!({"opt_name": "lion", "epsilon": 0.5}),
            &["epsilon: lion has no such option; adagrad, adadelta, ", " others have"],
        ),
        (json!({"opt_name": "sgd", "exclud": []}), &["exclud: there is no such key"]),
        (
            json!({"opt_name": "adam", "exclude": "bias"}),
            &["exclude: \"bias\"", "a list of regular"],
        ),
        (json!({"opt_name": "adam", "inner": {}}), &["inner: there is no such key"]),
        (
            json!({"opt_name": "lion", "ada_decay_rate": 0.5}),
            &["ada_decay_rate: lion has no such option; adafactor has"],
        ),
        (
            json!({"opt_name": "delayed", "depth": 2}),
            &["inner: delayed is around another optimizer"],
        ),
        (json!({"opt_name": "delayed", "inner": 1}), &["inner: 1 is not legal", "an object"]),
        (
            json!({"opt_name": "delayed", "inner": {"opt_name": "momentun"}}),
            &["inner: opt_name: \"momentun\"", "did you mean `momentum`?"],
        ),
        (
            json!({"opt_name": "delayed", "inner": {"opt_name": "momentum", "momentum": 1}}),
            &["inner: momentum: 1 is not legal", "below 1"],
        ),
        (
            json!({"opt_name": "delayed", "inner": {"opt_name": "momentum", "beta1": 0.5}}),
            &["inner: beta1: momentum has no such option; "],
        ),
        (
            json!({"opt_name": "delayed", "beta2": 0.5, "inner": {"opt_name": "adam"}}),
            &["beta2: delayed has no such option; "],
        ),
    ];
    for (value, words) in table {
        refused(&with(value, json!({"lr": 0.1})), words);
    }
    let late = json!({"opt_name": "delayed", "depth": 3,
        "inner": {"opt_name": "adamw", "beta2": 0.5, "exclude": ["^w$"]}});
    refused(&late, &["lr: it is missing"]);
    let text = made(&with(&late, json!({"lr": 0.1})));
    for part in ["depth: 3", "AdamW", "beta2: 0.5", "exclude: [\"^w$\"]"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let own = json!({"opt_name": "delayed", "inner": {"opt_name": "adafactor"}});
    assert!(made(&own).contains("Adafactor"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = json!({"opt_name": "sdg", "lr": -1, "warmup": 3, "beta1": "no"});
    let error = OptimizerConfig::from_json(&wrong.to_string()).unwrap_err();
    let keys: Vec<_> =
        error.problems().iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(keys, ["opt_name", "lr", "beta1", "warmup"]);
}

#[test]
fn null_is_as_if_absent() {
    let small = json!({"opt_name": "adam", "lr": 0.1});
    let keys =
        ["weight_decay", "lr_decay", "warmup_steps", "gradient_clipping", "use_tpu", "beta1"];
    for key in keys {
        let mut null = Map::new();
        null.insert(key.to_owned(), Value::Null);
        assert_eq!(made(&with(&small, Value::Object(null))), made(&small), "{key}");
    }
}

#[test]
fn rates_by_batch() {
    let table = json!({"opt_name": "sgd", "lr_by_batch": {"64": 0.1, "128": 0.15}});
    for (batch, lr) in [(64, 0.1), (128, 0.15)] {
        let chosen = with(&table, json!({"train_batch_size": batch}));
        let given = json!({"opt_name": "sgd", "lr": lr, "train_batch_size": batch});
        assert_eq!(made(&chosen), made(&given));
    }
    refused(&with(&table, json!({"train_batch_size": 96})), &["lr_by_batch", "96", "64 and 128"]);
    refused(&table, &["lr_by_batch", "train_batch_size"]);
    for bad in [json!({"many": 0.1}), json!({"64": 0}), json!({"0": 0.1}), json!([0.1]), json!(3)] {
        let value = json!({"opt_name": "adafactor", "train_batch_size": 64, "lr_by_batch": bad});
        refused(&value, &["lr_by_batch: ", "a table from batch sizes to positive rates"]);
    }
    let toml = "opt_name = 'sgd'\ntrain_batch_size = 64\n[lr_by_batch]\n64 = 0.1\n128 = 0.15";
    let given = json!({"opt_name": "sgd", "lr": 0.1, "train_batch_size": 64});
    assert_eq!(format!("{:?}", OptimizerConfig::from_toml(toml).unwrap()), made(&given));
}

#[test]
fn a_rate_is_needed_but_for_adafactor() {
    for name in ["adam", "adamw", "sgd", "momentum"] {
        refused(&json!({"opt_name": name}), &["lr: it is missing", "adafactor"]);
    }
    read(&json!({"opt_name": "adafactor", "warmup_steps": 10})).unwrap();
    let decayed = json!({"opt_name": "adafactor", "lr_decay": "linear", "train_steps": 10});
    refused(&decayed, &["lr_decay: there is no lr"]);
}

#[test]
fn adafactor_of_either_origin() {
    let base = json!({"opt_name": "adafactor", "lr": 0.1});
    // Mesh TensorFlow's, with the keys of the question.
    let text =
        made(&with(&base, json!({"beta1": 0.3, "ada_epsilon1": 1e-20, "ada_epsilon2": 0.01})));
    for part in
        ["TwoLargest", "beta1: 0.3", "epsilon1: 1e-20", "epsilon2: 0.01", "Pow { exponent: 0.8"]
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(made(&with(&base, json!({"ada_decay_rate": 0.99}))).contains("Given(0.99)"));
    // tensor2tensor's.
    let theirs = json!({
        "optimizer_adafactor_decay_type": "Adam", "optimizer_adafactor_beta2": 0.99,
        "optimizer_adafactor_multiply_by_parameter_scale": false,
        "optimizer_adafactor_beta1": 0.5, "optimizer_adafactor_clipping_threshold": null,
        "simulated_parameter_quantize_bits": 8,
    });
    let text = made(&with(&base, theirs));
    let parts = [
        "Matrices",
        "Adam { beta2: 0.99 }",
        "multiply_by_parameter_scale: false",
        "beta1: 0.5, clipping_threshold: None",
        "quantize_bits: Some(8)",
        "momentum_in_variable_dtype: true",
    ];
    for part in parts {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let pow = with(
        &base,
        json!({"optimizer_adafactor_memory_exponent": 0.7, "optimizer_adafactor_decay_type": "pow"}),
    );
    assert!(made(&pow).contains("Pow { exponent: 0.7, offset: 0 }"));
    let whole = made(&with(&base, json!({"optimizer_adafactor_factored": false})));
    assert!(whole.contains("Never"), "{whole}");
    let off = made(&with(&base, json!({"simulated_parameter_quantize_bits": 0})));
    assert!(off.contains("quantize_bits: None"), "{off}");

    let two = json!({"beta1": 0.3, "optimizer_adafactor_beta1": 0.5});
    refused(&with(&base, two), &["optimizer_adafactor_beta1: beta1 says otherwise"]);
    let two = json!({"ada_decay_rate": 0.9, "optimizer_adafactor_decay_type": "pow"});
    refused(&with(&base, two), &["ada_decay_rate: optimizer_adafactor_decay_type"]);
}

//! Runs with a configuration file.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{
    Run, accuracies, apart, lines, losses, mnist_line, refused, run, scratch, write_pair,
};
use std::fs;
use std::path::Path;

fn get_optimizer(line: &str, more: &[&str]) -> Run {
    let flags: Vec<_> = line.split_whitespace().chain(more.iter().copied()).collect();
    run(env!("CARGO_BIN_EXE_get_optimizer"), &flags)
}

fn file(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn rates(metrics: &Path) -> Vec<f64> {
    lines(metrics).iter().filter_map(|line| line.get("lr")?.as_f64()).collect()
}

#[test]
fn the_built_in_configuration_trains_alike_on_every_layout() {
    let dir = scratch("get-optimizer");
    let metrics = dir.join("metrics");
    let train = |line: &str| {
        let out = get_optimizer(line, &["--metrics", metrics.to_str().unwrap()]).well().out;
        (out, losses(&metrics))
    };
    let (out, first) = train("--mesh= --layout=");
    assert!(out.contains("and sends\n  nothing\n"), "{out}");
    for words in ["adam", "update of hidden/kernel\n", "answers/bias/adam_v", "learning_rate 0.0"] {
        assert!(out.contains(words), "no {words:?} in {out}");
    }
    assert!(first[59] < 0.7 * first[0], "{first:?}");
    assert_eq!(rates(&metrics)[0], 0.0);
    assert!((rates(&metrics)[10] - 1e-3).abs() < 1e-5, "halfway up");
    // Four gradients and the loss are small enough to be reduced together. The gradient of a
    // variable whose state is split is reduce-scattered.
    let table = [
        ("--mesh d:4 --layout batch:d", "  1 all_reduce(d)\n"),
        ("--mesh d:4 --layout batch:d;slots/*:d", "  4 reduce_scatter(d)\n"),
        ("--mesh d:4 --layout batch:d;params/*:d;slots/*:d", "  4 reduce_scatter(d)\n"),
        ("--mesh d:2;m:2 --layout batch:d;hidden:m", "all_reduce(m)\n"),
    ];
    for (line, words) in table {
        let (out, losses) = train(line);
        assert!(out.contains(words), "no {words:?} in {out}");
        assert!(apart(&first, &losses) < 1e-3, "{line}\n{first:?}\n{losses:?}");
    }
}

#[test]
fn every_optimizer_has_a_name_in_files() {
    let dir = scratch("get-optimizer-names");
    for (name, rate) in
        [("sgd", 0.1), ("momentum", 0.05), ("adam", 0.003), ("adamw", 0.003), ("adafactor", 0.03)]
    {
        let toml = file(&dir, "config.toml", &format!("opt_name = '{name}'\nlr = {rate}"));
        let metrics = dir.join("metrics");
        get_optimizer("--steps 60 --config", &[&toml, "--metrics", metrics.to_str().unwrap()])
            .well();
        let losses = losses(&metrics);
        assert!(losses[59] < 0.7 * losses[0], "{name}: {losses:?}");
    }
    let noted = file(&dir, "tpu.json", r#"{"opt_name": "sgd", "lr": 0.1, "use_tpu": true}"#);
    let run = get_optimizer("--steps 1 --config", &[&noted]).well();
    assert!(run.err.contains("note: use_tpu: no wrapper is needed"), "{}", run.err);
    let batch =
        r#"{"opt_name": "sgd", "train_batch_size": 128, "lr_by_batch": {"64": 0.1, "128": 0.15}}"#;
    let batch = file(&dir, "batch.json", batch);
    let run = get_optimizer("--steps 1 --mesh d:4 --layout batch:d --config", &[&batch]).well();
    assert!(run.out.contains("learning_rate 0.150000"), "{}", run.out);
}

#[test]
fn files_that_cannot_be_are_refused() {
    let dir = scratch("get-optimizer-refused");
    let table = [
        (r#"{"opt_name": "adagard", "lr": 0.1}"#, &["opt_name", "did you mean `adagrad`"][..]),
        (
            r#"{"opt_name": "sgd", "lr": 0.1, "warmup": 3}"#,
            &["warmup: there is no such key", "did you mean"],
        ),
        (r#"{"opt_name": "adafactor", "weight_decay": 0.1}"#, &["weight_decay", "ada_decay_rate"]),
    ];
    for (text, words) in table {
        let path = file(&dir, "config.json", text);
        refused(&get_optimizer("--config", &[&path]), &[&["--config"], words].concat());
        let line = "--model linear --steps 1 --config";
        refused(&mnist_line(line, &[&path]), &[&["--config", "config.json"], words].concat());
    }
    for line in ["--steps 0", "--batch 0", "--config /no/such/file.json", "--config Cargo.lock"] {
        refused(&get_optimizer(line, &[]), &[]);
    }
    let good = file(&dir, "good.json", r#"{"opt_name": "sgd", "lr": 0.1, "train_batch_size": 64}"#);
    for (line, flag) in [
        ("--optimizer sgd", "--optimizer"),
        ("--lr 0.1", "--lr"),
        ("--weight-decay 0.1", "--weight-decay"),
        ("--batch 100", "--batch says 100"),
    ] {
        refused(&mnist_line(line, &["--config", &good]), &["--config", flag]);
    }
}

#[test]
fn mnist_trains_as_a_file_says() {
    let dir = scratch("mnist-config");
    write_pair(&dir, 75);
    let data = dir.to_str().unwrap();
    let metrics = dir.join("metrics");
    let config = r#"{"opt_name": "adam", "lr": 0.002, "lr_decay": "linear", "train_steps": 8,
                     "warmup_steps": 2, "weight_decay": 0.0, "gradient_clipping": 1.0}"#;
    let config = file(&dir, "optimizer.json", config);
    let mut first = Vec::new();
    let layouts = [
        ("", ""),
        ("d:4", "batch:d"),
        ("d:2;m:2", "batch:d;hidden1:m"),
        ("d:4", "batch:d;slots/*:d"),
    ];
    for (mesh, layout) in layouts {
        let flags = ["--mesh", mesh, "--layout", layout, "--data", data, "--config", &config];
        let more = [&flags[..], &["--metrics", metrics.to_str().unwrap()]].concat();
        mnist_line("--model mlp --batch 20 --steps 9", &more).well();
        let losses = losses(&metrics);
        if first.is_empty() {
            first.clone_from(&losses);
            let decayed = |t: f64| 0.002 * (1.0 - 0.9 * t / 8.0);
            let wanted: Vec<_> =
                (0..9).map(f64::from).map(|t| decayed(t) * (t / 2.0).min(1.0)).collect();
            for (got, want) in rates(&metrics).iter().zip(&wanted) {
                assert!((got - want).abs() < 1e-9, "{got} not {want}");
            }
        }
        assert!(apart(&first, &losses) < 1e-4, "{layout}\n{first:?}\n{losses:?}");
    }
}

/// bf16 activations with f32 parameters reach the accuracy of f32.
#[test]
fn mnist_in_bf16() {
    let dir = scratch("mnist-bf16");
    let reached = |dtype: &str, mesh: &str, layout: &str| {
        let metrics = dir.join("metrics");
        let more = ["--mesh", mesh, "--layout", layout, "--metrics", metrics.to_str().unwrap()];
        let line = format!("--model mlp --optimizer adam --epochs 1 --dtype {dtype}");
        mnist_line(&line, &more).well();
        *accuracies(&metrics).last().unwrap()
    };
    let wide = reached("f32", "d:2", "batch:d");
    assert!(wide > 0.9, "{wide}");
    for (mesh, layout) in [("d:2", "batch:d"), ("d:2", "hidden1:d;slots/*:d")] {
        let narrow = reached("bf16", mesh, layout);
        assert!((wide - narrow).abs() < 0.01, "{layout}: {narrow} not {wide}");
    }
}

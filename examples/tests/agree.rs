//! Layouts agree: every run and layout of the README with every optimizer; in f64 with random
//! seeds.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::readme::{self, Example};
use common::{
    Agreement, F64, LM_F32, MNIST_F32, apart, held_out, lm_line, losses, mnist_line, scratch,
    write_pair,
};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

/// Every optimizer of the programs.
const OPTIMIZERS: [&str; 3] = ["sgd", "adam", "adafactor"];

/// A random seed in f64 and the default seed in f32. A failing run is printed with its seed.
fn seed(figures: Agreement) -> String {
    match figures.dtype {
        "f64" => format!("--seed {}", std::hash::RandomState::new().hash_one(0) as u32),
        _ => String::new(),
    }
}

/// A run's losses, then its losses of held-out text.
fn numbers(program: &str, dir: &Path, line: &str) -> Vec<f64> {
    let file = dir.join("metrics");
    let more = ["--metrics", file.to_str().unwrap()];
    let run = if program == "lm" { lm_line(line, &more) } else { mnist_line(line, &more) };
    run.well();
    [losses(&file), held_out(&file)].concat()
}

/// Runs each example, and each model once on one processor, and compares.
fn agree(program: &str, dir: &Path, examples: &[Example], line: &str, figures: Agreement) {
    let Agreement { dtype, steps, within } = figures;
    let line = format!("{line} --dtype {dtype} --steps {steps} {}", seed(figures));
    let mut alone: Vec<(&str, Vec<f64>)> = Vec::new();
    for Example { model, layout } in examples {
        let command = |layout: &str| {
            let line = format!("{line} {model} {layout}");
            (numbers(program, dir, &line), line)
        };
        if alone.iter().all(|(known, _)| known != model) {
            let (first, line) = command(readme::ALONE);
            assert!(first.len() >= steps && first.iter().all(|loss| loss.is_finite()));
            let rounded = first[..steps].iter().all(|&loss| f64::from(loss as f32) == loss);
            assert_eq!(rounded, dtype == "f32", "{line}");
            alone.push((model, first));
        }
        let (_, first) = alone.iter().find(|(known, _)| known == model).unwrap();
        let (found, line) = command(layout);
        let difference = apart(first, &found);
        assert!(difference < within, "{program} {line}: {difference}\n{first:?}\n{found:?}");
    }
}

/// 60 training and 15 test examples.
fn small(test: &str) -> (PathBuf, String) {
    let dir = scratch(test);
    write_pair(&dir, 75);
    let data = format!("--batch 4 --hidden 32 --filters 2 --data {}", dir.display());
    (dir, data)
}

/// Runs `mnist` with every optimizer, and one that a file configures.
fn mnist_agrees(test: &str, examples: &[Example]) {
    let (dir, data) = small(test);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("optimizer.json");
    let by_file = format!("--config {}", file.display());
    let by_flags = OPTIMIZERS.map(|optimizer| format!("--optimizer {optimizer}"));
    for optimizer in by_flags.into_iter().chain([by_file]) {
        for figures in [F64, MNIST_F32] {
            agree("mnist", &dir, examples, &format!("{data} {optimizer}"), figures);
        }
    }
}

#[test]
fn mnist_under_every_run_of_the_readme() {
    let examples = readme::runs("mnist");
    assert!(examples.len() >= 6, "{examples:?}");
    mnist_agrees("agree-runs", &examples);
}

#[test]
fn mnist_under_every_layout_of_the_readme() {
    let examples = readme::layouts();
    assert!(examples.len() >= 6, "{examples:?}");
    mnist_agrees("agree-layouts", &examples);
}

#[test]
fn lm_under_every_run_of_the_readme() {
    let examples = readme::runs("lm");
    assert!(examples.len() >= 5, "{examples:?}");
    let dir = scratch("agree-lm");
    let text = dir.join("text");
    let said = "the quick brown fox jumps over the lazy dog, and so does the cat. ".repeat(40);
    std::fs::write(&text, said).unwrap();
    for optimizer in OPTIMIZERS {
        let line = format!(
            "--width 32 --depth 2 --heads 4 --hidden 48 --sequence 16 --batch 4 --warmup 5 --sample 0 \
             --text {} --optimizer {optimizer}",
            text.display(),
        );
        for figures in [F64, LM_F32] {
            agree("lm", &dir, &examples, &line, figures);
        }
    }
}

/// With `--dtype f64` no float of a program is an f32.
#[test]
fn all_floats_of_f64_are_f64() {
    for optimizer in OPTIMIZERS {
        let line = format!("--dtype f64 --explain full --optimizer {optimizer}");
        for model in ["conv", "mlp", "linear"] {
            let said = mnist_line(&format!("{line} --model {model}"), &[]).well().out;
            assert!(said.contains("f64[") && !said.contains("f32"), "{model} {line}:\n{said}");
        }
        for more in ["", "--scan --recompute"] {
            let said = lm_line(&format!("{line} {more}"), &[]).well().out;
            assert!(said.contains("f64[") && !said.contains("f32"), "lm {line} {more}:\n{said}");
        }
    }
}

/// The numbers in the README are those that these tests, `runs.rs` and `lm.rs` assert.
#[test]
fn the_readme_states_what_is_tested() {
    let text = readme::text().split_whitespace().collect::<Vec<_>>().join(" ");
    for (what, figures) in [
        ("With `--dtype f64`", F64),
        ("in f32, and with the default seed,", MNIST_F32),
        ("in f32, with the default seed,", LM_F32),
    ] {
        let sentence = format!(
            "{what} the losses of the first {} steps are within {:e}",
            figures.steps, figures.within
        );
        assert!(text.contains(&sentence), "README.md does not say: {sentence}");
    }
}

/// Counted by the program from its graph: two convolutions and three dense layers.
const PARAMETERS: usize =
    9 * 9 * 16 + 9 * 9 * 16 * 16 + (784 * 512 + 512) + (512 * 512 + 512) + (512 * 10 + 10);

/// The CNN's parameters, and what it has learnt of the embedded digits after a quarter of an epoch. README's
/// numbers of the whole run, which takes minutes here, are compared by `just nightly`.
#[test]
fn the_model_is_the_one_of_the_readme_and_learns() {
    assert_eq!(PARAMETERS, 691_738);
    let table = mnist_line("--explain variables", &[]).well().out;
    assert!(table.contains("\n691,738 parameters in all"), "{table}");
    let head = "691738 parameters  12000 training and 2000 test examples";
    assert!(readme::text().contains(head), "README.md does not say: {head}");
    let out = mnist_line("--steps 15", &[]).well().out;
    assert!(out.contains(head), "{out}");
    let accuracy = percent(&out);
    // Chance is 10 %.
    assert!(accuracy > LEARNT, "{out}");
}

/// About two thirds of what 15 steps reach.
const LEARNT: f64 = 25.0;

/// The accuracy that a run's last line gives.
fn percent(out: &str) -> f64 {
    let last = out.lines().rev().find_map(|line| line.strip_prefix("best test accuracy "));
    last.unwrap().trim_end_matches(" %").parse().unwrap()
}

/// README's first command, as long as it takes; its epochs' losses and accuracies are those of the page.
#[test]
fn the_readme_has_the_numbers_of_its_first_command() {
    if std::env::var_os("MESH_NIGHTLY").is_none() {
        tests::skip("nightly", "MESH_NIGHTLY is not set: the whole run takes minutes");
        return;
    }
    let out = mnist_line("--mesh all:2 --layout batch:all", &[]).well().out;
    let text = readme::text();
    let said =
        text.lines().filter(|line| line.starts_with("epoch ") || line.starts_with("best test"));
    let mut compared = 0;
    for line in said {
        // Not the seconds.
        let line = line.rsplit_once(" %").map_or(line, |(line, _)| line);
        assert!(out.contains(line), "README.md says {line:?}, but the run:\n{out}");
        compared += 1;
    }
    assert_eq!(compared, 3);
}

//! Runs of the language model.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use mesh_optimize::dataset::read::write_tokens;

use common::{LM_F32, apart, held_out, lines, lm_line, losses, scratch};
use std::fs;
use std::path::{Path, PathBuf};

/// Sizes that are small, and all different.
const SMALL: &str = "--width 32 --depth 2 --heads 4 --hidden 48 --sequence 16 --batch 8 --warmup 5";

/// A short text, so that evaluation is fast.
fn little(dir: &Path) -> String {
    let text = "the quick brown fox jumps over the lazy dog, and so does the cat. ".repeat(40);
    let file = dir.join("text");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Runs `lm` with a metrics file and returns its output.
fn metrics(dir: &Path, name: &str, line: &str, more: &[&str]) -> (PathBuf, String) {
    let file = dir.join(name);
    let more = [more, &["--metrics", file.to_str().unwrap()]].concat();
    let run = lm_line(&format!("{SMALL} {line}"), &more).well();
    assert!(run.err.is_empty(), "{}", run.err);
    (file, run.out)
}

/// The text that was written after training: prompt and sample.
fn sample_in(out: &str) -> String {
    out.split_once("\n\n").unwrap().1.to_owned()
}

#[test]
fn losses_do_not_depend_on_the_layout() {
    const LAYOUTS: [(&str, &str); 7] = [
        ("", ""),
        ("data:2", "batch:data"),
        ("model:2", "heads:model;d_ff:model;vocab:model"),
        ("data:2;model:2", "batch:data;heads:model;d_ff:model;vocab:model"),
        ("seq:4", "length:seq"),
        ("data:2", "batch:data;params/*:data;slots/*:data"),
        ("a:2;b:2", "length:a;d_model:b"),
    ];
    let dir = scratch("lm-layouts");
    let text = little(&dir);
    for (line, layouts) in [
        ("--sample 0 --strict", &LAYOUTS[..]),
        ("--sample 0 --strict --scan --recompute", &LAYOUTS[..5]),
    ] {
        let line = &format!("{line} --steps {}", LM_F32.steps);
        let mut first = (Vec::new(), Vec::new());
        for (mesh, layout) in layouts {
            let more = ["--text", &text, "--mesh", mesh, "--layout", layout];
            let (file, _) = metrics(&dir, "m", line, &more);
            let found = (losses(&file), held_out(&file));
            if first.0.is_empty() {
                assert!(found.0[0] > 5.0 && found.0[19] < 4.5, "{:?}", found.0);
                first.clone_from(&found);
            }
            let difference = apart(&first.0, &found.0).max(apart(&first.1, &found.1));
            println!("{line} {mesh} {layout}: {difference:.1e}");
            assert!(difference < LM_F32.within, "{line} {mesh} {layout}: {difference}");
        }
    }
}

#[test]
fn recomputing_changes_no_loss() {
    let dir = scratch("lm-recompute");
    let text = little(&dir);
    for line in ["--steps 10 --sample 0", "--steps 10 --sample 0 --scan"] {
        let kept = losses(&metrics(&dir, "kept", line, &["--text", &text]).0);
        let again = losses(&metrics(&dir, "again", line, &["--text", &text, "--recompute"]).0);
        // The order of sums is the same; the fusion differs.
        assert!(apart(&kept, &again) < 1e-5, "{line}: {kept:?} {again:?}");
    }
}

#[test]
fn the_same_seed_writes_the_same_bytes() {
    let dir = scratch("lm-seed");
    let line = "--steps 6 --sample 60 --prompt Once --eval-every 4 --text";
    let text = little(&dir);
    let (one, said) = metrics(&dir, "one", line, &[&text]);
    let (two, again) = metrics(&dir, "two", line, &[&text]);
    assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
    assert_eq!(sample_in(&said), sample_in(&again));
    assert!(sample_in(&said).starts_with("Once"), "{said}");
    let (three, other) = metrics(&dir, "three", line, &[&text, "--seed", "4"]);
    assert_ne!(losses(&three), losses(&one));
    assert_ne!(sample_in(&other), sample_in(&said));

    // The metrics file has a line per step and a line per evaluation.
    let steps: Vec<_> = lines(&one)
        .iter()
        .map(|line| (line["step"].as_u64().unwrap(), line.contains_key("held_out")))
        .collect();
    let expected = [(1, false), (2, false), (3, false), (4, false), (4, true), (5, false)];
    assert_eq!(steps, [&expected[..], &[(6, false), (6, true)]].concat());
}

#[test]
fn couriers_change_no_byte() {
    let dir = scratch("lm-couriers");
    let text = little(&dir);
    let line = "--mesh data:2 --layout batch:data --steps 4 --sample 0";
    let [auto, on, off] = ["auto", "on", "off"].map(|couriers| {
        let (file, _) = metrics(&dir, couriers, line, &["--text", &text, "--couriers", couriers]);
        fs::read(file).unwrap()
    });
    assert!(on == auto && off == auto);
}

#[test]
fn a_sample_is_the_same_under_every_layout() {
    let dir = scratch("lm-sample");
    let text = little(&dir);
    // Prompt and sample are longer than the cache of 16 positions.
    let prompt = "the quick brown fox, and so does the lazy cat";
    let line = "--steps 30 --sample 40 --temperature 0 --mesh";
    let sample = |mesh: &str, more: &[&str]| {
        let more = [&[mesh, "--text", &text, "--prompt", prompt, "--layout"], more].concat();
        let (_, out) = metrics(&dir, "m", line, &more);
        sample_in(&out)
    };
    let first = sample("", &[""]);
    assert!(first.starts_with(prompt) && first.chars().count() == prompt.len() + 41, "{first}");
    assert_eq!(sample("m:2", &["heads:m;d_ff:m;vocab:m"]), first);
    assert_eq!(sample("m:2", &["memory_length:m"]), first);
    let scanned = sample("", &["", "--scan"]);
    assert_eq!(sample("m:2", &["heads:m;d_ff:m;vocab:m", "--scan"]), scanned);
}

#[test]
fn every_optimizer_learns_the_tales() {
    let dir = scratch("lm-learns");
    for (optimizer, most) in [("adam", 2.7), ("adafactor", 2.9), ("sgd", 3.1)] {
        let line = format!("--steps 120 --sample 0 --optimizer {optimizer}");
        let (file, out) = metrics(&dir, "m", &line, &[]);
        let found = held_out(&file)[0];
        println!("{optimizer}: {found}");
        assert!(found < most, "{optimizer}: {found}");
        for piece in ["parameters", "training and", "bytes of the built-in text", "\nstep 50/120  "]
        {
            assert!(out.contains(piece), "no {piece:?} in\n{out}");
        }
        let last = out.lines().last().unwrap();
        assert!(last.contains("nats per byte") && last.contains("bytes/s"), "{last}");
    }
}

/// A token file with `tokens` and then a text's bytes.
fn tokens(dir: &Path, front: &[u16]) -> String {
    let bytes = fs::read(dir.join("text")).unwrap();
    let all: Vec<_> = front.iter().copied().chain(bytes.into_iter().map(u16::from)).collect();
    let file = dir.join("tokens");
    write_tokens(fs::File::create(&file).unwrap(), &all).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn tokens_that_are_bytes_teach_what_bytes_teach() {
    let dir = scratch("lm-tokens");
    let text = little(&dir);
    let tokens = tokens(&dir, &[]);
    let line = "--steps 6 --sample 12 --eval-every 4 --temperature 0";
    let prompt = "the";
    let (of_text, said) = metrics(&dir, "a", line, &["--text", &text, "--prompt", prompt]);
    let ids = prompt.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(" ");
    let more = ["--tokens", &tokens, "--vocab", "256", "--prompt", &ids];
    let (of_tokens, again) = metrics(&dir, "b", line, &more);
    assert_eq!(fs::read(&of_text).unwrap(), fs::read(&of_tokens).unwrap());
    assert!(again.contains("training and 264 held-out tokens of ") && again.contains("tokens/s"));
    assert!(again.contains("nats per token"), "{again}");
    let bytes: Vec<u8> =
        sample_in(&again).split_whitespace().map(|token| token.parse().unwrap()).collect();
    assert_eq!(bytes.len(), prompt.len() + 12);
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{FFFD}' } else { c };
    let text: String = String::from_utf8_lossy(&bytes).chars().map(shown).collect();
    assert_eq!(sample_in(&said), text + "\n");
}

#[test]
fn tokens_may_be_more_than_bytes() {
    let dir = scratch("lm-vocabulary");
    little(&dir);
    let tokens = tokens(&dir, &[50_256]);
    let line = "--steps 3 --sample 5 --vocab 50258 --mesh m:2 --layout vocab:m --tokens";
    let (file, out) = metrics(&dir, "m", line, &[&tokens]);
    // The logarithm of 50,258 is 10.8.
    assert!((10.0..12.0).contains(&losses(&file)[0]), "{out}");
    // By default the sample continues the file's first token.
    let sample = sample_in(&out);
    assert!(sample.starts_with("50256 ") && sample.split_whitespace().count() == 6, "{sample}");
}

#[test]
fn explain_says_what_would_be_done() {
    let line = "--explain full --mesh data:64;model:4 --batch 64 --layout";
    let layout = "batch:data;heads:model;d_ff:model;vocab:model";
    let text = lm_line(line, &[layout]).well().out;
    for piece in ["256 processors", "batch:64@data", "heads:4@model", "\nnext "] {
        assert!(text.contains(piece), "no {piece:?} in\n{text}");
    }
    // Without more it is a page, whatever the number of layers.
    let page = lm_line("--explain --depth 8 --mesh data:64;model:4 --batch 64 --layout", &[layout]);
    let page = page.well().out;
    assert!(page.lines().count() < 100 && page.contains(" x 8 "), "{page}");
}

//! `plan`, and meshes and layouts that `mnist` and `lm` find.

#![allow(clippy::unwrap_used, reason = "a failure fails its test")]

mod common;

use common::{lm_line, run, scratch};
use std::fs;

fn plan(line: &str) -> common::Run {
    let arguments: Vec<_> = line.split_whitespace().collect();
    run(env!("CARGO_BIN_EXE_plan"), &arguments)
}

/// Llama-8B's sizes, of which 4,096 processors can be planned here.
const LARGE: &str = "lm --depth 32 --width 4096 --heads 32 --hidden 14336 --vocab 128256 --sequence 8192 \
                     --batch 64 --recompute --axes 1";

#[test]
fn a_plan_is_text_json_and_a_page() {
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../machines/h100x8.toml");
    let out = plan(&format!("{LARGE} --processors 64 --machine {machine} --json")).well().out;
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["mesh"], "a:64");
    assert_eq!(found["certificate"]["proven"], true);
    assert!(found["memory_bytes"].as_u64().unwrap() <= 80_000_000_000);
    let dir = scratch("plan");
    let page = dir.join("page.html");
    let line = format!("mnist --model mlp --processors 2 --html {}", page.display());
    let out = plan(&line).well().out;
    assert!(out.contains("proven to be the best"), "{out}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("class=\"front\"") && page.contains("class=\"best\""));
}

/// A step of 16.8 million tokens: no tensor that somebody makes is as large as what a product goes through.
#[test]
fn what_a_cluster_computes_is_priced() {
    let line = LARGE.replace("--batch 64", "--batch 2048").replace("--axes 1", "");
    let layout = "--mesh a:2048;b:2 --layout batch:a;params/*:a;slots/*:a;heads:b;d_ff:b;vocab:b";
    let out = plan(&format!("{line} {layout} --json")).well().out;
    let priced: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(priced["memory_bytes"].as_u64().unwrap() <= 80_000_000_000, "{out}");
}

#[test]
fn a_layout_is_priced() {
    let out = plan("mnist --model mlp --mesh a:2 --layout batch:a").well().out;
    assert!(out.contains("--mesh \"a:2\" --layout \"batch:a\""), "{out}");
    let out = plan("mnist --model mlp --mesh a:2 --layout batch:a --json").well().out;
    let priced: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(priced["layout"], "batch:a");
    assert_eq!(priced["collectives"][0]["form"], "all_reduce");
    let refused = plan("mnist --model mlp --mesh a:3 --layout hidden1:a");
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("cannot be split over a into 3 equal parts"), "{}", refused.err);
}

#[test]
fn what_nobody_has_is_refused() {
    for (line, message) in [
        ("mnist --processors 0", "no mesh of 0 processors"),
        ("lm --processors 2 --memory 10kB", "no layout fits"),
        ("lm --processors 2 --machine /dev/null", "/dev/null"),
        ("lm --heads 3", "--heads 3"),
    ] {
        let refused = plan(line);
        assert!(refused.code.is_some_and(|code| code > 0), "{line}");
        assert!(refused.err.contains(message), "{line}: {}", refused.err);
        assert!(!refused.err.contains("panicked"), "{line}: {}", refused.err);
    }
}

#[test]
fn a_model_is_trained_as_planned() {
    let line = "--width 32 --depth 2 --heads 4 --sequence 16 --batch 8 --steps 2 --sample 0";
    let run = lm_line(&format!("{line} --mesh auto:2 --layout auto"), &[]).well();
    assert!(run.err.contains("--mesh \"a:2\""), "{}", run.err);
    assert!(run.out.contains("mesh a:2"), "{}", run.out);
    let mixed = lm_line(&format!("{line} --mesh auto:2 --layout batch:a"), &[]);
    assert!(mixed.err.contains("--layout auto"), "{}", mixed.err);
}

//! The short examples: they learn, and no layout changes what they learn.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{apart, refused, run};

/// What a program prints: the losses of its steps, and its last line.
fn printed(program: &str, flags: &str) -> (Vec<f64>, String) {
    let flags: Vec<_> = flags.split(' ').collect();
    let run = run(program, &flags).well();
    let losses = run.out.lines().filter_map(|line| line.strip_prefix("step ")?.split_once("loss "));
    let losses = losses.map(|(_, loss)| loss.parse().unwrap()).collect();
    (losses, run.out.lines().last().unwrap().to_owned())
}

/// Printed with five places; Adam amplifies roundings of f32 where gradients are small.
const WITHIN: f64 = 1e-4;

/// Losses of so many steps agree under two layouts, and fall.
fn learns(program: &str, flags: &str, steps: usize, layouts: [&str; 2]) -> [String; 2] {
    let flags = |layout: &str| format!("{flags} --steps {steps} --strict {layout}");
    let [(one, said), (other, said_too)] =
        layouts.map(|layout| printed(program, flags(layout).trim()));
    assert_eq!(one.len(), steps, "{program}");
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (early, late) = (mean(&one[..steps / 3]), mean(&one[steps - steps / 3..]));
    assert!(late < 0.95 * early, "{program}: {one:?}");
    assert!(apart(&one, &other) < WITHIN, "{program}: {one:?} {other:?}");
    [said, said_too]
}

#[test]
fn a_vision_transformer() {
    let program = env!("CARGO_BIN_EXE_vit");
    let both = "--mesh rows:2;cols:2 --layout batch:rows;heads:cols;hidden:cols";
    let said = learns(program, "--depth 1", 12, ["--mesh a:1", both]);
    assert!(said[0].starts_with("right on unseen digits: 0."), "{said:?}");
}

#[test]
fn a_recurrent_network() {
    let program = env!("CARGO_BIN_EXE_char_rnn");
    let layouts = ["--mesh all:4 --layout batch:all", "--mesh a:2;b:2 --layout batch:a;bytes:b"];
    let [one, other] = learns(program, "--state 32 --write 20", 8, layouts);
    assert_eq!(one, other, "what it writes");
}

#[test]
fn a_state_space_model() {
    let program = env!("CARGO_BIN_EXE_mamba");
    let split = "--mesh a:2;b:2 --layout batch:a;length:b";
    let flags = "--model 16 --state 4 --depth 1 --write 20";
    let [one, other] = learns(program, flags, 8, ["--mesh all:2 --layout inner:all", split]);
    assert_eq!(one, other, "what it writes");
}

#[test]
fn an_encoder_and_a_decoder() {
    let program = env!("CARGO_BIN_EXE_seq2seq");
    let both = "--mesh a:2;b:2 --layout batch:a;heads:b;hidden:b";
    let [one, other] = learns(program, "--depth 1", 8, ["--mesh all:2 --layout batch:all", both]);
    assert!(one.contains("of 32 unseen words are right"), "{one}");
    assert_eq!(one, other);
}

#[test]
fn a_u_net_split_in_space() {
    let program = env!("CARGO_BIN_EXE_unet3d");
    let split = "--mesh a:2;b:2 --layout depth:a;height:b";
    let [one, other] = learns(program, "--channels 4", 12, ["--mesh a:1", split]);
    assert!(one.starts_with("dice of unseen volumes 0."), "{one}");
    assert_eq!(one, other);
}

#[test]
fn a_residual_network_with_metrics() {
    let program = env!("CARGO_BIN_EXE_resnet");
    let split = "--mesh a:2;b:2 --layout batch:a;classes:b";
    let layouts = ["--mesh a:1", split];
    // After these few steps the layouts' roundings, which batch norms amplify, grow tenfold a step.
    let [one, other] = learns(program, "--channels 8", 5, layouts);
    for metric in ["accuracy 0.", "top3 0.", "f1[9] 0."] {
        assert!(one.contains(metric) && other.contains(metric), "{one} {other}");
    }
}

#[test]
fn a_recurrent_network_that_reads_both_ways() {
    let program = env!("CARGO_BIN_EXE_lstm");
    let split = "--mesh a:2;b:2 --layout batch:a;state:b";
    let said = learns(program, "--state 16", 30, ["--mesh a:1", split]);
    assert!(said.iter().all(|said| said.contains("accuracy 0.")), "{said:?}");
}

#[test]
fn a_diffusion_model() {
    let program = env!("CARGO_BIN_EXE_diffusion");
    let split = "--mesh a:2;b:2 --layout batch:a;height:b";
    let page = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("diffusion.html");
    let flags = format!("--channels 4 --report {}", page.display());
    let [one, other] = learns(program, &flags, 12, ["--mesh a:1", split]);
    assert_eq!(one, other, "its samples");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<img alt=\"samples\"") && !page.contains("http"), "{page}");
}

#[test]
fn wrong_flags_are_refused() {
    for program in [env!("CARGO_BIN_EXE_vit"), env!("CARGO_BIN_EXE_unet3d")] {
        let refusal = |flags: &str| run(program, &flags.split(' ').collect::<Vec<_>>());
        refused(&refusal("--mesh a:b"), &["--mesh", "a:b"]);
        refused(&refusal("--mesh a:3 --layout batch:a"), &["batch"]);
        refused(&refusal("--steps 0"), &["--steps"]);
        refused(&refusal("--mesh a:2 --layout stray:a --strict"), &["stray"]);
    }
}

/// Mesh TensorFlow's layouts: the batch, the hidden dim, both.
#[test]
fn the_toy_model() {
    let program = env!("CARGO_BIN_EXE_toy");
    let both = "--mesh x:2;y:2 --layout batch:x;hidden:y";
    let layouts =
        ["--mesh a:1", "--mesh all:8 --layout batch:all", "--mesh all:8 --layout hidden:all"];
    for layout in layouts {
        learns(program, "--hidden 16", 20, [layout, both]);
    }
}

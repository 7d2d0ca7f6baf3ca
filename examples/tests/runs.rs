//! Runs of the binaries: their results, files and output.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{MNIST_F32, accuracies, apart, lines, losses, mnist_line, run, scratch, write_pair};
use std::fs;
use std::path::{Path, PathBuf};

/// Runs `mnist` for a metrics file.
fn metrics(dir: &Path, name: &str, line: &str, more: &[&str]) -> PathBuf {
    let file = dir.join(name);
    mnist_line(line, &[more, &["--metrics", file.to_str().unwrap()]].concat()).well();
    file
}

/// A small data set on disk: 60 training and 15 test examples.
fn small(dir: &Path) -> String {
    write_pair(dir, 75);
    dir.to_str().unwrap().to_owned()
}

#[test]
fn the_same_command_twice_writes_the_same_bytes() {
    let dir = scratch("twice");
    let mlp = "--model mlp --mesh r:2;c:2 --layout batch:r;hidden1:c --batch 40 --steps 5 --seed 3";
    let linear = "--model linear --batch 20 --optimizer sgd --epochs 2 --data";
    let data = small(&dir);
    for (line, more) in [(mlp, vec![]), (linear, vec![data.as_str()])] {
        let [one, two] = ["one", "two"].map(|name| metrics(&dir, name, line, &more));
        assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap(), "{line}");
    }
    // Another seed gives another run.
    let other = metrics(&dir, "other", linear, &[&data, "--seed", "1"]);
    assert_ne!(losses(&other), losses(&dir.join("one")));
}

#[test]
fn a_line_a_step_and_a_line_an_epoch() {
    let dir = scratch("lines");
    let file = metrics(&dir, "m", "--model linear --batch 25 --epochs 3 --data", &[&small(&dir)]);
    let said: Vec<_> = lines(&file)
        .iter()
        .map(|line| {
            let mut keys: Vec<_> = line.keys().map(String::as_str).collect();
            keys.sort_unstable();
            (keys.join(" "), line["step"].as_u64().unwrap(), line.get("epoch").cloned())
        })
        .collect();
    // 60 examples make two batches of 25 per epoch; the other ten are left out.
    let expected: Vec<_> = [(1, 0), (2, 0), (2, 1), (3, 0), (4, 0), (4, 2), (5, 0), (6, 0), (6, 3)]
        .into_iter()
        .map(|(step, epoch)| match epoch {
            0 => ("loss lr step".to_owned(), step, None),
            _ => ("accuracy epoch step".to_owned(), step, Some(epoch.into())),
        })
        .collect();
    assert_eq!(said, expected);
    assert!(accuracies(&file).iter().all(|accuracy| (0.0..=1.0).contains(accuracy)));

    // --steps takes precedence over --epochs, and the unfinished epoch is evaluated.
    let line = "--model linear --batch 25 --steps 3 --epochs 1 --data";
    let file = metrics(&dir, "m", line, &[dir.to_str().unwrap()]);
    assert_eq!((losses(&file).len(), accuracies(&file).len()), (3, 2));
}

#[test]
fn losses_do_not_depend_on_the_layout() {
    const LAYOUTS: [(&str, &str); 8] = [
        ("", ""),
        ("all:4", "batch:all"),
        ("r:2;c:2", "batch:r;hidden1:c"),
        ("all:8", "hidden1:all"),
        ("x:2;y:4", "hidden1:x;hidden2:y"),
        ("x:2;y:2", "batch:x+y"),
        ("d:4", "batch:d;slots/*:d"),
        ("d:4", "batch:d;params/*:d;slots/*:d"),
    ];
    const BLOCKS: [(&str, &str); 1] = [("b1:2;b2:2", "row_blocks:b1;col_blocks:b2")];
    let dir = scratch("layouts");
    let data = small(&dir);
    let conv: Vec<_> = LAYOUTS.into_iter().chain(BLOCKS).collect();
    let cases = [
        ("--model mlp --batch 40", None, &LAYOUTS[..]),
        ("--model mlp --batch 40 --optimizer adam", None, &LAYOUTS[..]),
        ("--model conv --batch 8 --filters 4 --hidden 64", Some(data.as_str()), &conv[..]),
    ];
    for (line, data, layouts) in cases {
        let line = &format!("{line} --steps {}", MNIST_F32.steps);
        let mut first: Vec<f64> = Vec::new();
        for (mesh, layout) in layouts {
            let mut more = vec!["--mesh", mesh, "--layout", layout];
            more.extend(data.iter().flat_map(|data| ["--data", data]));
            let losses = losses(&metrics(&dir, "m", line, &more));
            if first.is_empty() {
                assert!(losses[0] > 2.0 && losses.iter().all(|loss| loss.is_finite()));
                first.clone_from(&losses);
            }
            let difference = apart(&first, &losses);
            println!("{line} {mesh} {layout}: {difference:.1e}");
            assert!(
                difference < MNIST_F32.within,
                "{line} {mesh} {layout}: {difference}\n{first:?}\n{losses:?}"
            );
        }
    }
}

#[test]
fn an_example_counts_once_in_evaluation() {
    let dir = scratch("once");
    // 2,000 is not divisible by 150, so the last batch is padded. Neither the initial values nor,
    // with a tiny learning rate, the evaluation depend on the batch size.
    let evaluate = |batch: &str, more: &[&str]| {
        let line = "--model linear --optimizer sgd --lr 1e-12 --steps 1 --seed 5 --batch";
        accuracies(&metrics(&dir, "m", line, &[&[batch], more].concat()))[0]
    };
    let expected = evaluate("200", &[]);
    let count = expected * 2000.0;
    assert!((count - count.round()).abs() < 1e-9 && count > 0.0, "{expected}");
    for batch in ["150", "1999", "7000"] {
        assert_eq!(evaluate(batch, &[]), expected, "{batch}");
    }
    let split = ["--mesh", "r:2;c:5", "--layout", "batch:r;classes:c"];
    assert_eq!(evaluate("150", &split), expected);
}

#[test]
fn evaluation_under_another_layout_gives_the_same_accuracy() {
    let dir = scratch("eval-layout");
    for model in ["mlp", "linear"] {
        let line =
            format!("--model {model} --mesh r:2;c:2 --layout batch:r --steps 20 --batch 100");
        let same = metrics(&dir, "same", &line, &[]);
        for layout in ["", "batch:c", "pixels:c", "batch:r+c", "params/*:r"] {
            let other = metrics(&dir, "other", &line, &["--eval-layout", layout]);
            assert_eq!(fs::read(&same).unwrap(), fs::read(&other).unwrap(), "{model} {layout}");
        }
    }
}

#[test]
fn explain_says_what_would_be_done() {
    let line = "--explain full --model mlp --mesh r:2;c:2 --layout batch:r;hidden1:c";
    let text = mnist_line(line, &[]).well().out;
    for piece in [
        "layout batch:r;hidden1:c",
        "mesh r:2;c:2: 4 processors",
        "f32[100, 256] of [batch:200@r, hidden1:512@c]",
        "pending sum over c",
        "all_reduce(r)",
        // 2 * 100 * 784 * 256.
        "40,140,800",
        "mnist.rs:",
        "flops",
        "peak memory",
        "\ntrain ",
        "\nevaluate ",
    ] {
        assert!(text.contains(piece), "no {piece:?} in\n{text}");
    }
    assert_eq!(text.matches("  total ").count(), 2);
    assert_eq!(text.matches("  collectives: ").count(), 2);
    assert!(!text.contains("accuracy"));

    let one = mnist_line("--explain full --model linear --mesh", &["", "--layout", ""]).well().out;
    assert!(one.contains("1 processor;") && one.contains("collectives: none"), "{one}");

    // How its convolutions run on threads.
    let text = mnist_line("--explain full --model conv", &[]).well().out;
    assert!(text.contains("kernels that were chosen:\n    conv: "), "{text}");

    // Evaluation has a layout of its own.
    let line = "--explain full --model linear --mesh r:2 --layout batch:r --eval-layout pixels:r";
    let text = mnist_line(line, &[]).well().out;
    let (training, evaluation) = text.split_once("evaluation layout pixels:r").unwrap();
    assert!(training.contains("batch:200@r") && !training.contains("\nevaluate"));
    assert!(evaluation.contains("pixels:784@r") && !evaluation.contains("\ntrain"));
}

#[test]
fn explain_runs_nothing() {
    // No machine here could start as many processors, and the data do not exist.
    let line =
        "--explain full --mesh all:4096 --layout batch:all --batch 8192 --data /no/such/directory";
    let started = std::time::Instant::now();
    let text = mnist_line(line, &[]).well().out;
    assert!(text.contains("4096 processors") && text.contains("batch:8192@all"));
    // It takes tens of milliseconds; the margin is for a busy machine.
    assert!(started.elapsed().as_secs() < 10);
}

#[test]
fn dot_draws_the_graph() {
    let file = scratch("dot").join("graph.dot");
    let run = mnist_line("--model mlp --dot", &[file.to_str().unwrap()]).well();
    assert!(run.out.is_empty(), "{}", run.out);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("digraph") && text.trim_end().ends_with('}'), "{text}");
    assert!(text.contains("hidden1") && text.contains("->"));
}

#[test]
fn help_states_the_defaults() {
    let text = mnist_line("--help", &[]).well().out;
    let option = |flag: &str| {
        let start = text.find(&format!("--{flag} <")).unwrap_or_else(|| panic!("no --{flag}"));
        let rest = &text[start..];
        let end = rest[2..].find("\n      --").map_or(rest.len(), |end| end + 2);
        rest[..end].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (flag, default) in [
        ("mesh", "`all:n`, n the largest divisor of the batch"),
        ("layout", "`batch:all`"),
        ("eval-layout", "By default that of training"),
        ("model", "[default: conv]"),
        ("optimizer", "[default: adafactor]"),
        ("lr", "0.001 for adam, Adafactor's own schedule for adafactor"),
        ("weight-decay", "by default the optimizer's own"),
        ("batch", "[default: 200]"),
        ("epochs", "[default: 6]"),
        ("steps", "by default after all epochs"),
        ("seed", "[default: 3]"),
        ("data", "By default digits are generated"),
    ] {
        assert!(option(flag).contains(default), "--{flag}: {default:?} in {}", option(flag));
    }
}

#[test]
fn the_default_mesh_divides_the_batch() {
    // Only 1 and 7 divide 7, so the mesh does not depend on the number of cores.
    let data = scratch("default-mesh");
    let run = mnist_line("--model linear --steps 1 --batch 7 --data", &[&small(&data)]).well();
    let first = run.out.lines().next().unwrap();
    assert!(first.starts_with("one processor") || first.starts_with("mesh all:7"), "{first}");
    assert!(first.contains("batch:all") && first.contains("7850 parameters"), "{first}");
    assert!(first.contains("60 training and 15 test examples"), "{first}");
}

#[test]
fn output_says_how_training_goes() {
    let dir = scratch("output");
    let line = "--model linear --batch 20 --epochs 8 --data";
    let out = mnist_line(line, &[&small(&dir)]).well().out;
    assert!(out.contains("\nstep 20/24  loss "), "{out}");
    assert!(out.contains("\nepoch 8  step 24  loss "), "{out}");
    let last = out.lines().last().unwrap();
    assert!(last.starts_with("best test accuracy ") && last.ends_with(" %"), "{last}");
    // There is no terminal, so there is no bar.
    assert!(out.is_ascii(), "{out}");
}

#[test]
fn quickstart_learns() {
    let out = run(env!("CARGO_BIN_EXE_quickstart"), &[]).well().out;
    let last = out.lines().last().unwrap();
    let right: f64 = last.strip_prefix("right on unseen examples: ").unwrap().parse().unwrap();
    assert!(right >= 0.95, "{out}");
}

#[test]
fn slices_draws_who_holds_what() {
    let slices = |flags: &[&str]| run(env!("CARGO_BIN_EXE_slices"), flags).well().out;
    let out = slices(&[]);
    assert!(
        out.starts_with("[batch:8@rows, hidden:16@cols] on 8 processors, 16 elements"),
        "{out}"
    );
    assert!(out.contains("rows=1 cols=2        batch[4..8] hidden[8..12]"), "{out}");
    assert!(out.contains("| 4 | 5 | 6 | 7 |"), "{out}");
    // The first axis of a list is the major one.
    let flags = ["--tensor", "batch:8", "--mesh", "a:2;b:2", "--layout", "batch:b+a"];
    let out = slices(&flags);
    assert!(out.contains("a=0 b=1              batch[4..6]"), "{out}");
    let out = slices(&["--tensor", "batch:4", "--mesh", "a:2", "--layout", ""]);
    assert_eq!(out.matches("batch[0..4]").count(), 2, "{out}");
}

#[test]
#[cfg(unix)]
fn a_closed_pipe_is_no_failure() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    // Each writes more than a pipe can buffer, or nearly as much.
    let mnist = [env!("CARGO_BIN_EXE_mnist"), "--explain", "full", "--mesh", "b1:2;b2:2"];
    let slices = [env!("CARGO_BIN_EXE_slices"), "--tensor", "batch:8", "--layout", ""];
    let slices = [&slices[..], &["--mesh", "rows:64;cols:64"]].concat();
    for command in [&mnist[..], &slices] {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut start = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut start).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("error"), "{output:?}");
    }
}

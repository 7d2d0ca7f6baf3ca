//! `mnist --strategy`: each strategy gives its mesh and layout, and the losses of one processor.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{apart, losses, mnist_line, refused, scratch};

/// Strategy, mesh, layout.
const TABLE: &[(&str, &str, &str)] = &[
    ("one_device", "", ""),
    ("mirrored:2", "all:2", "batch:all"),
    ("mirrored:[0]", "all:1", "batch:all"),
    ("multi_worker:2x2", "host:2;local:2", "batch:host+local"),
    ("tpu:2x2", "x:2;y:2", "batch:x+y"),
    ("tpu:2x1x4", "x:2;y:1;z:4", "batch:x+y+z"),
    ("central_storage:2", "all:2", "batch:all;params/*:all@0;slots/*:all@0"),
    ("parameter_server:2", "all:2", "batch:all;params/*:all@each;slots/*:all@each"),
];

/// Every strategy of the table trains as one processor does, and as the flags that it stands for.
fn train_to_the_losses_of_one_processor(name: &str, line: &str) {
    let dir = scratch(name);
    let run = |more: &[&str]| {
        let file = dir.join("m");
        let more = [more, &["--metrics", file.to_str().unwrap()]].concat();
        let out = mnist_line(line, &more).well().out;
        (out, losses(&file))
    };
    let (_, one) = run(&["--mesh", "", "--layout", ""]);
    assert_eq!(one.len(), 6);
    for (strategy, mesh, layout) in TABLE {
        let (out, losses) = run(&["--strategy", strategy]);
        let ways = if mesh.starts_with("host") { "hierarchical" } else { "direct" };
        let flags = ["--mesh", mesh, "--layout", layout, "--cross-device-ops", ways];
        let stands_for =
            format!("--mesh \"{mesh}\" --layout \"{layout}\" --cross-device-ops {ways}");
        let said = format!("strategy {strategy} is {stands_for}\n");
        assert!(out.starts_with(&said), "{said}{out}");
        // Rounding differs between layouts, and six steps of a normalising optimizer amplify it.
        assert!(apart(&one, &losses) < 1e-4, "{strategy}: {one:?}\n{losses:?}");
        let (_, same) = run(&flags);
        assert_eq!(losses, same, "{strategy}");
    }
}

#[test]
fn strategies_train_to_the_losses_of_one_processor() {
    train_to_the_losses_of_one_processor("strategies", "--model mlp --batch 40 --steps 6");
}

#[test]
fn strategies_train_so_with_weight_decay() {
    let line = "--model mlp --batch 40 --steps 6 --optimizer adam --weight-decay 0.01";
    train_to_the_losses_of_one_processor("strategies-decay", line);
}

#[test]
fn staleness_is_that_of_one_processor() {
    let dir = scratch("staleness");
    let run = |strategy: &str| {
        let file = dir.join("m");
        let line = "--model linear --batch 40 --steps 8 --optimizer adam --strategy";
        mnist_line(line, &[strategy, "--metrics", file.to_str().unwrap()]).well();
        losses(&file)
    };
    let [prompt, one, four] =
        ["parameter_server:1", "parameter_server:1;staleness:2", "parameter_server:4;staleness:2"]
            .map(run);
    assert_ne!(prompt, one);
    assert!(apart(&one, &four) < 1e-4, "{one:?}\n{four:?}");
}

#[test]
fn sums_may_be_made_in_any_way() {
    let dir = scratch("cross-device-ops");
    let run = |more: &[&str]| {
        let file = dir.join("m");
        let line = "--model linear --batch 40 --steps 6 --optimizer sgd --metrics";
        let out = mnist_line(line, &[&[file.to_str().unwrap()], more].concat()).well().out;
        (out, losses(&file))
    };
    let (_, one) = run(&["--mesh", "", "--layout", ""]);
    for way in ["direct", "ring", "hierarchical", "reduce_to_one"] {
        for strategy in ["mirrored:4", "multi_worker:2x2", "central_storage:2"] {
            let (out, losses) = run(&["--strategy", strategy, "--cross-device-ops", way]);
            assert!(out.lines().next().unwrap().ends_with(&format!("--cross-device-ops {way}")));
            assert!(apart(&one, &losses) < 1e-4, "{strategy} {way}: {one:?}\n{losses:?}");
        }
    }
}

#[test]
fn what_cannot_be() {
    let table: &[(&str, &[&str])] = &[
        ("--strategy mirrored:2 --mesh all:2", &["--strategy", "--mesh", "cannot be used with"]),
        ("--strategy mirrored:2 --layout batch:all", &["--strategy", "--layout"]),
        ("--strategy mirror:2", &["--strategy", "`mirror:2`", "mirrored:N", "tpu:XxY"]),
        ("--strategy mirrored:0", &["--strategy", "no processors"]),
        ("--strategy tpu:2y2", &["--strategy", "a topology", "`tpu:2x2`"]),
        ("--cross-device-ops nccl", &["--cross-device-ops", "`nccl`", "direct, ring"]),
        ("--strategy mirrored:3", &["batch", "200", "over all into 3"]),
    ];
    for (line, words) in table {
        refused(&mnist_line(line, &[]), words);
    }
}

#[test]
fn the_guide_names_what_runs() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/from-tf-distribute.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.contains("--bin mnist --")).collect();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let cells: Vec<_> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let strategy = cells[4].rsplit(' ').next().unwrap();
        let line = (strategy, cells[2], cells[3]);
        assert!(TABLE.contains(&line), "{row}");
    }
}

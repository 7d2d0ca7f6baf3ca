//! Printed programs and error reports, as text to be read.

use mesh_ops::prelude::*;
use mesh_optimize::{Optimizer, Sgd};
use tests::on_host;

/// One dense layer and its training step: small enough to read whole.
fn layer(g: &Graph) {
    let (batch, x, y) = (dim("batch", 8), dim("x", 4), dim("y", 6));
    let input = g.input("input", [batch, x], F32);
    let target = g.input("target", [batch, y], F32);
    let error = input.dense(y, "layer").relu() - target;
    let loss = (error * error).mean();
    g.function("train", [input, target], [loss], Sgd::new(0.1).minimize(loss));
}

/// The layer's program as it is lowered, and as a host runs it.
fn printed(mesh: &str, layout: &str) -> [String; 2] {
    let g = mesh_ops::graph();
    layer(&g);
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let compiled = &on_host(&module)[0].program;
    [module.print("train").unwrap(), compiled.display(module.mesh()).to_string()]
}

#[test]
fn programs_read_well() {
    let [_, compiled] = printed("d:2", "batch:d;params/*:d;slots/*:d");
    insta::assert_snapshot!("sharded_state", compiled);
}

#[test]
fn the_documented_programs_are_the_printed_ones() {
    let document = include_str!("../../../docs/program.md");
    for program in printed("rows:2;cols:2", "batch:rows;y:cols") {
        assert!(document.contains(program.trim_end()), "docs/program.md should hold:\n{program}");
    }
    let here = include_str!("printed.rs");
    let layer = &here[here.find("/// One dense layer").unwrap()..];
    let layer = &layer[..layer.find("\n}\n").unwrap() + 3];
    assert!(document.contains(layer), "docs/program.md should hold:\n{layer}");
}

/// Sums over a split dim, small enough to be read whole in any language.
fn sums(g: &Graph) {
    let (batch, x) = (dim("batch", 4), dim("x", 8));
    let input = g.input("input", [batch, x], F32);
    g.function("sums", [input], [input.sum([x])], []);
}

#[test]
fn the_documented_text_for_compilers_is_the_printed_one() {
    let g = mesh_ops::graph();
    sums(&g);
    let (mesh, layout) = ("rows:2;cols:2".parse().unwrap(), "batch:rows;x:cols".parse().unwrap());
    let module = g.lower(&mesh, &layout).unwrap();
    let options = mesh_core::program::StableHloOptions::default();
    let text = module.stablehlo("sums", &options).unwrap();
    let document = include_str!("../../../docs/program.md");
    assert!(document.contains(text.trim_end()), "docs/program.md should hold:\n{text}");
}

/// The page of `explain`, on four processors of a machine of two by two chips of which the places are a ring.
#[test]
fn a_page_explains() {
    let g = mesh_ops::graph();
    layer(&g);
    let mesh = Mesh::new([("rows", 2), ("cols", 2)]).unwrap();
    let mesh = mesh.with_order(mesh_core::names::in_boxes(&[2, 2], &[2, 2]).unwrap()).unwrap();
    let module = g.lower(&mesh, &"batch:rows".parse().unwrap()).unwrap();
    insta::assert_snapshot!("explained", without_lines(&module.explain().to_string()));
}

/// Everything that is wrong with a graph or layout, with the lines of these files left out.
pub fn refused(build: impl Fn(&Graph), mesh: &str, layout: &str) -> String {
    let g = mesh_ops::graph();
    build(&g);
    let report = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap_err();
    // A report shows the first issues only.
    let issues: Vec<_> = report.issues.iter().map(ToString::to_string).collect();
    without_lines(&issues.join("\n\n"))
}

/// A report with `FILE` for each line of a file of this folder.
pub fn without_lines(report: &str) -> String {
    let mut text = String::new();
    for line in report.lines() {
        let Some((before, after)) = line.split_once("tests/tests/pages/") else {
            text.push_str(&format!("{line}\n"));
            continue;
        };
        let after =
            after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || ":_.".contains(c));
        text.push_str(&format!("{before}FILE{after}\n"));
    }
    text
}

#[test]
fn errors_read_well() {
    let build_errors = |g: &Graph| {
        let (a, b) = (dim("a", 4), dim("b", 6));
        let x = g.input("x", [a, b], F32);
        let n = g.input("n", [a], I32);
        let wrong = x + g.input("y", [a, b.resized(5)], F32);
        let mixed = x * n;
        let _silent = (wrong + mixed).relu().sum([a]);
        g.input("x", [a], F32);
        g.input("empty", [dim("none", 0)], F32);
        g.input("twice", [a, a], F32);
        let logits = x.dense(dim("a:b", 3), "layer");
        g.function("f", [x], [logits.cast(I32), x.exp()], []);
        g.gradients(&[x.sum_all()], &[x], Some(&[]));
        x.matmul(&[x]).reshape([dim("c", 7)]);
    };
    insta::assert_snapshot!("building", refused(build_errors, "", ""));
    let two_layers = |g: &Graph| {
        let (batch, x, h) = (dim("batch", 10), dim("x", 8), dim("h", 8));
        let input = g.input("input", [batch, x], F32);
        let output = input.dense(h, "first").relu().dense(dim("x", 8), "second");
        g.function("f", [input], [output.slice(dim("x", 3), 1)], []);
    };
    insta::assert_snapshot!("not_divisible", refused(two_layers, "a:4", "batch:a"));
    insta::assert_snapshot!("clash", refused(two_layers, "a:2", "h:a;x:a"));
    insta::assert_snapshot!("whole", refused(two_layers, "a:2", "x:a"));
    insta::assert_snapshot!("unknown_axes", refused(two_layers, "rows:2;cols:2", "batch:row;h:b"));
}

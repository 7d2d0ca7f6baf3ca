//! The numbers and errors of `docs/layouts.md`.
//!
//! Between `<!-- name -->` and `<!-- end -->` the page holds what is computed here;
//! `UPDATE_DOCS=1 cargo test -p tests --test pages` writes it. Its programs are doc tests.

use mesh_core::lower::{Target, relayout_cost};
use mesh_core::names::{Axis, Placement, ReduceKind};
use mesh_ops::conv::Conv;
use mesh_ops::layers::attention::{AttentionOptions, LocalAttention, MultiHead};
use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
use mesh_ops::layers::{Around, FeedForward, Norm, Parameters, TransformerLayer, conv_layer};
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Muon, Optimizer, Sgd};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Two dense layers and a training step with Adam.
fn perceptron(g: &Graph) {
    let (batch, pixels) = (dim("batch", 64), dim("pixels", 256));
    let (hidden, classes) = (dim("hidden", 512), dim("classes", 16));
    let image = g.input("image", [batch, pixels], F32);
    let label = g.input("label", [batch], I32);
    let logits = image.dense(hidden, "hidden").relu().dense(classes, "logits");
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    let updates = AdamWeightDecay::new(1e-3).minimize(loss);
    g.function("train", [image, label], [loss], updates);
}

/// A step of gradient descent on the mean square of what a layer makes of `x`.
fn trained<'g>(g: &'g Graph, x: Tensor<'g>, y: Tensor<'g>) {
    let loss = y.square().mean();
    g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
}

fn text(g: &Graph) -> Tensor<'_> {
    g.input("x", [dim("batch", 8), dim("length", 64), dim("model", 64)], F32)
}

fn block() -> TransformerLayer {
    let model = dim("model", 64);
    TransformerLayer {
        norm: Norm::Rms,
        attention: MultiHead::new(model, dim("heads", 8), dim("kv", 8)),
        feed_forward: FeedForward::new(model, dim("hidden", 256)),
    }
}

fn transformer(g: &Graph) {
    let (x, layer) = (text(g), block());
    let weights = layer.weights(&Parameters::like(x), "layer");
    trained(g, x, layer.apply(x, dim("length", 64), &weights, &Around::default()));
}

/// The same, each position seeing itself and the 15 before it.
fn local(g: &Graph) {
    let (x, layer, length) = (text(g), block(), dim("length", 64));
    let weights = layer.weights(&Parameters::like(x), "layer");
    let local = Some(LocalAttention::new(length, 16).in_blocks_of(16));
    let around = Around { attention: AttentionOptions::default(), local, ..Around::default() };
    trained(g, x, layer.apply(x, length, &weights, &around));
}

fn image(g: &Graph) {
    let dims = "batch:8;h:64;w:64;colour:4".parse::<Shape>().unwrap();
    let x = g.input("x", dims, F32);
    let conv = Conv::over([("h", "fh"), ("w", "fw")]);
    let y = conv_layer(x, &conv, [3, 3], dim("feature", 16), "first").relu();
    trained(g, x, conv_layer(y, &conv, [3, 3], dim("other", 16), "second"));
}

fn mixture(g: &Graph) {
    let x = text(g);
    let (batch, length, model) = (dim("batch", 8), dim("length", 64), dim("model", 64));
    let (hidden, experts) = (dim("hidden", 256), dim("experts", 8));
    let mixture = MixtureOfExperts::new(model, hidden, experts, Gating::Switch);
    let weights = mixture.weights(&Parameters::like(x), "experts");
    let (y, losses) = mixture.apply(x, &[batch, length], &weights, None);
    trained(g, x, y * (losses.balance * 0.01 + 1.0));
}

/// Three kernels, one of them square, and a training step with Muon for these and AdamW for biases.
fn matrices(g: &Graph) {
    let (batch, x, hidden, y) =
        (dim("batch", 64), dim("x", 256), dim("hidden", 512), dim("y", 256));
    let input = g.input("x", [batch, x], F32);
    let h = input.dense(hidden, "up").relu().dense(y, "down").relu();
    let loss = h.dense(dim("out", 256), "square").square().mean();
    g.function("train", [input], [loss], Muon::new(1e-3).minimize(loss));
}

fn lowered(build: fn(&Graph), mesh: &str, layout: &str) -> Module {
    let g = mesh_ops::graph();
    build(&g);
    g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap()
}

/// Bytes in kB, with one place.
fn kilobytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e3)
}

/// One line for each layout: collectives, bytes received, bytes of variables and of values.
fn costs(build: fn(&Graph), layouts: &[(&str, &str)]) -> String {
    let mut text = "| mesh | layout | collectives of one step | kB received | kB of variables | \
                    kB of values |\n|---|---|---|---:|---:|---:|\n"
        .to_owned();
    for (mesh, layout) in layouts {
        let explain = lowered(build, mesh, layout).explain_for(&Target::host()).unwrap();
        let function = &explain.functions[0];
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (form, axes, _) in function.collectives() {
            *counts.entry(format!("{form}({axes})")).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(form, count)| format!("{count} {form}")).collect();
        let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
        let _ = writeln!(
            text,
            "| `{mesh}` | `{layout}` | {counts} | {} | {} | {} |",
            kilobytes(function.total().sent),
            kilobytes(explain.variable_bytes as u64),
            kilobytes(function.arena_bytes.unwrap() as u64)
        );
    }
    text
}

/// What moving a tensor of B bytes over one axis of n costs, as a share of B.
fn relayouts() -> String {
    type Place = fn(&Placement, Axis) -> Placement;
    type Share = fn(usize, usize) -> usize;
    let whole: Place = |p, _| p.clone();
    let split: Place = |p, axis| p.clone().split("x".into(), &[axis]);
    let other: Place = |p, axis| p.clone().split("y".into(), &[axis]);
    let pending: Place = |p, axis| p.clone().with_pending(ReduceKind::Sum, &[axis]);
    let owned: Place = |p, axis| p.clone().with_owner(axis, 0);
    let table: [(&str, Place, &str, Place, &str, &str, Share); 10] = [
        ("whole", whole, "split", split, "each processor keeps its part", "0", |_, _| 0),
        (
            "whole",
            whole,
            "pending",
            pending,
            "one processor keeps it, the others have zeros",
            "0",
            |_, _| 0,
        ),
        ("split", split, "whole", whole, "all-gather", "(n-1)/n B", |b, n| b * (n - 1) / n),
        ("split", split, "split along another dim", other, "all-to-all", "(n-1)/n² B", |b, n| {
            b * (n - 1) / n / n
        }),
        ("pending", pending, "split", split, "reduce-scatter", "(n-1)/n B", |b, n| b * (n - 1) / n),
        ("pending", pending, "whole", whole, "all-reduce", "2 (n-1)/n B", |b, n| {
            2 * b * (n - 1) / n
        }),
        ("pending", pending, "pending", pending, "nothing", "0", |_, _| 0),
        (
            "pending",
            pending,
            "owned",
            owned,
            "reduce to the owner, which receives",
            "(n-1) B",
            |b, n| b * (n - 1),
        ),
        ("whole", whole, "owned", owned, "the owner keeps it", "0", |_, _| 0),
        ("owned", owned, "whole", whole, "broadcast", "B", |b, _| b),
    ];
    let mut text = "| from | to | what happens | bytes received |\n|---|---|---|---|\n".to_owned();
    let shape: Shape = "x:64;y:64".parse().unwrap();
    for (from, is, to, wanted, what, share, bytes) in table {
        for n in [2, 4, 8] {
            let mesh: Mesh = format!("a:{n}").parse().unwrap();
            let (axis, nowhere) = (mesh.axis("a").unwrap(), Placement::replicated());
            let (is, wanted) = (is(&nowhere, axis), wanted(&nowhere, axis));
            let cost = relayout_cost(&mesh, &shape, 4, &is, &wanted);
            assert_eq!(cost, Some(bytes(64 * 64 * 4, n)), "{from} to {to} over {n}");
        }
        let _ = writeln!(text, "| {from} | {to} | {what} | {share} |");
    }
    text
}

fn fenced(text: &str) -> String {
    format!("```text\n{}\n```\n", text.trim_end())
}

/// An error report without places.
fn refused(build: fn(&Graph), mesh: &str, layout: &str) -> String {
    let g = mesh_ops::graph();
    build(&g);
    let report = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap_err().to_string();
    let kept = report.lines().filter(|line| !line.trim_start().starts_with("at tests/"));
    let plain = |line: &str| line.split(", tests/").next().unwrap_or(line).to_owned();
    fenced(&kept.map(plain).collect::<Vec<_>>().join("\n"))
}

fn warned(build: fn(&Graph), mesh: &str, layout: &str) -> String {
    let module = lowered(build, mesh, layout);
    let lines: Vec<_> = module.warnings().iter().map(ToString::to_string).collect();
    fenced(&lines.join("\n"))
}

/// Sequences of 64 positions.
fn sequences(g: &Graph) -> Tensor<'_> {
    g.input("x", [dim("batch", 8), dim("length", 64), dim("model", 16)], F32)
}

fn tail(g: &Graph) {
    let x = sequences(g);
    g.function("f", [x], [x.slice(dim("length", 32), 32)], []);
}

fn joined(g: &Graph) {
    let x = sequences(g);
    let memory = g.input("memory", [dim("batch", 8), dim("length", 16), dim("model", 16)], F32);
    g.function("f", [memory, x], [memory.concat(&[x], "length")], []);
}

fn shifted(g: &Graph) {
    let x = sequences(g);
    g.function("f", [x], [x.shift(dim("length", 64), 1, false)], []);
}

/// A recurrent layer.
fn recurrent(g: &Graph) {
    let (batch, length, model) = (dim("batch", 8), dim("length", 64), dim("model", 16));
    let x = g.input("x", [batch, length, model], F32);
    let start = g.fill(0.0, [batch, model], F32);
    let ([last], []) = g.scan(length, [start], [x], |[h], [x]| ([(h + x).tanh()], []));
    g.function("last", [x], [last], []);
}

/// Scores of every position against every other.
fn scores(g: &Graph) {
    let (length, model) = (dim("length", 16), dim("model", 8));
    let x = g.input("x", [length, model], F32);
    let y = x.einsum(&[x.rename(length, "other")], [length, dim("other", 16)]);
    g.function("scores", [x], [y], []);
}

fn one_layer(g: &Graph) {
    let (batch, x, y) = (dim("batch", 8), dim("x", 16), dim("y", 32));
    let input = g.input("input", [batch, x], F32);
    let output = input.dense(y, "layer").relu();
    g.function("f", [input], [output.mean()], []);
}

fn blocks() -> Vec<(&'static str, String)> {
    let all = "all:4";
    let both = "data:2;model:2";
    let data = "data:4";
    vec![
        (
            "perceptron",
            costs(
                perceptron,
                &[
                    (all, ""),
                    (data, "batch:data"),
                    ("model:4", "hidden:model"),
                    (both, "batch:data;hidden:model"),
                    (data, "batch:data;slots/*:data"),
                    (data, "batch:data;params/*:data;slots/*:data"),
                    (data, "batch:data;params/*:data@each;slots/*:data@each"),
                ],
            ),
        ),
        (
            "transformer",
            costs(
                transformer,
                &[
                    (all, "batch:all"),
                    (all, "heads:all;hidden:all"),
                    (both, "batch:data;heads:model;hidden:model"),
                    (all, "length:all"),
                    (both, "batch:data;length:model"),
                ],
            ),
        ),
        ("local", costs(local, &[(all, "length:all;length_blocks:all"), (all, "batch:all")])),
        (
            "image",
            costs(image, &[(all, "batch:all"), (all, "h:all"), ("rows:2;cols:2", "h:rows;w:cols")]),
        ),
        ("parts", {
            let of = |build| costs(build, &[(all, "length:all")]);
            let [tail, joined, shifted] = [of(tail), of(joined), of(shifted)];
            let row = |table: &str| table.lines().last().unwrap().replacen("`all:4`", "ROW", 1);
            let head = tail.lines().take(2).collect::<Vec<_>>().join("\n");
            let head = head.replacen("mesh", "op", 1);
            let rows = [("slice", tail), ("concat", joined), ("shift", shifted)];
            let rows = rows.map(|(op, table)| row(&table).replacen("ROW", &format!("`{op}`"), 1));
            format!("{head}\n{}\n", rows.join("\n"))
        }),
        (
            "matrices",
            costs(
                matrices,
                &[
                    ("data:4", "batch:data"),
                    ("data:4", "batch:data;slots/*:data"),
                    ("data:4", "batch:data;params/*:data;slots/*:data"),
                    ("data:4", "batch:data;slots/*:data@each"),
                    ("data:4", "batch:data;params/*:data@each;slots/*:data@each"),
                    ("model:4", "hidden:model"),
                ],
            ),
        ),
        (
            "mixture",
            costs(
                mixture,
                &[
                    (all, "batch:all"),
                    (all, "batch:all;batch_at_experts:all"),
                    (all, "batch:all;experts:all"),
                ],
            ),
        ),
        ("relayouts", relayouts()),
        ("clash", refused(scores, "a:4", "length:a;other:a")),
        ("not divisible", refused(one_layer, "a:3", "batch:a")),
        ("unknown", {
            let axis = refused(one_layer, "rows:2;cols:2", "batch:row");
            let dim = warned(one_layer, "rows:2;cols:2", "batch:rows;yy:cols");
            format!("{axis}{dim}")
        }),
        ("whole", refused(recurrent, "a:4", "length:a")),
        ("twice", {
            let g = mesh_ops::graph();
            g.input("scores", [dim("length", 16), dim("length", 16)], F32);
            let report = g.check().unwrap_err().to_string();
            fenced(report.lines().next().unwrap())
        }),
        ("explain", {
            let table =
                lowered(one_layer, "data:4", "batch:data").explain_for(&Target::host()).unwrap();
            fenced(&from_line_one(&format!("{table}\n{}", table.listing())))
        }),
    ]
}

/// Places of this file as places of a file that begins where the first of them is.
fn from_line_one(table: &str) -> String {
    let mut pieces = table.split("tests/tests/pages/layouts_page.rs:");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    let mut first = None;
    for piece in pieces {
        let digits = piece.chars().take_while(char::is_ascii_digit).count();
        let line: u32 = piece[..digits].parse().unwrap();
        let first = *first.get_or_insert(line);
        let _ = write!(text, "model.rs:{}{}", line - first + 1, &piece[digits..]);
    }
    text
}

/// The page with the blocks filled in.
fn filled(page: &str, blocks: &[(&str, String)]) -> String {
    let mut page = page.to_owned();
    for (name, text) in blocks {
        let open = format!("<!-- {name} -->\n");
        let begin = page.find(&open).unwrap_or_else(|| panic!("no block {name}")) + open.len();
        let end = begin + page[begin..].find("<!-- end -->").unwrap();
        page.replace_range(begin..end, &format!("\n{text}\n"));
    }
    page
}

#[test]
fn the_page_holds_what_is_computed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/layouts.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let filled = filled(&page, &blocks());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &filled).unwrap();
    }
    assert!(
        page == filled || std::env::var_os("UPDATE_DOCS").is_some(),
        "docs/layouts.md is out of date; UPDATE_DOCS=1 cargo test -p tests --test pages"
    );
}

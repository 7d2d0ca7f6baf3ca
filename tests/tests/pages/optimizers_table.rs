//! The list in `docs/optimizers.md`: every optimizer that has a name, from its room and from graphs.
//!
//! `UPDATE_DOCS=1 cargo test -p tests --test pages` writes it. What stands before the list is written by hand.

use crate::catalogue::sources;
use mesh_ops::einsum::contract;
use mesh_ops::prelude::*;
use mesh_optimize::{Entry, Optimizer, OptimizerConfig, optimizers};
use serde_json::json;
use std::fmt::Write as _;

/// The heading under which everything is made.
const HEADING: &str = "\n## The list\n";

const INTRODUCTION: &str = "
A test makes this list from the rooms and from graphs (`tests/tests/pages/optimizers_table.rs`), and fails when
it is out of date.

* **slots**: what an optimizer keeps of a float32 matrix of 1,024 by 1,024 with its default options, in bytes for
  each element. A layout's `slots/` rules divide it.
* **moves**: bytes for each element that an update reads and writes at least: gradient, variable, slots.
* **flops**: operations for each element, roots and divisions as dear as `explain` counts them.
";

/// What an update of a large matrix keeps and does, for each element.
struct Measured {
    slots: Vec<(String, f64)>,
    flops: f64,
}

impl Measured {
    fn kept(&self) -> f64 {
        self.slots.iter().fold(0.0, |sum, (_, bytes)| sum + bytes)
    }

    /// The gradient is read, the variable and the slots are read and written.
    fn moved(&self) -> f64 {
        4.0 + 8.0 + 2.0 * self.kept()
    }
}

fn measured(entry: &Entry) -> Measured {
    let mut config = json!({"opt_name": entry.name(), "lr": 0.1});
    if entry.wraps() {
        config["inner"] = json!({"opt_name": "sgd"});
    }
    let optimizer = OptimizerConfig::from_json(&config.to_string()).unwrap().optimizer();
    let g = mesh_ops::graph();
    let dims = [dim("rows", 1024), dim("cols", 1024)];
    let grad = g.input("gradient", dims, F32);
    let w = g.variable("w", dims, F32, Initializer::ZEROS);
    // By this product `w` is known for a matrix; the function does not need it.
    let x = g.input("x", [dims[0]], F32);
    contract(x, &[w.value()], [dims[0]]);
    g.function("train", [grad], [], optimizer.apply_grads(&[(Some(grad), w)]));
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let each = |number: f64| number / w.shape().size() as f64;
    let slots = module.variables().iter().filter_map(|variable| {
        let name = variable.name.strip_prefix("w/")?;
        let bytes = variable.shape.size() * variable.dtype.size();
        Some((name.to_owned(), each(bytes as f64)))
    });
    let slots = slots.collect();
    Measured { slots, flops: each(module.explain().functions[0].total().flops as f64) }
}

/// A number of few digits: `4`, `0.008`, 0 for less than a thousandth.
fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn table(text: &mut String, entries: &[(&Entry, Measured)]) {
    let adam = entries.iter().find(|(entry, _)| entry.name() == "adamw").unwrap();
    let (moved, flops) = (adam.1.moved(), adam.1.flops);
    text.push_str(
        "\n| | slots | moves | beside adamw | flops | beside adamw |\n|---|---|---|---|---|---|\n",
    );
    for (entry, measured) in entries {
        let _ = writeln!(
            text,
            "| [`{0}`](#{0}) | {1} | {2} | {3:.2} | {4} | {5:.2} |",
            entry.name(),
            short(measured.kept()),
            short(measured.moved()),
            measured.moved() / moved,
            short(measured.flops),
            measured.flops / flops,
        );
    }
}

fn section(text: &mut String, entry: &Entry, measured: &Measured) {
    let about = entry.about();
    let _ = write!(
        text,
        "\n### {}\n\n{}.\n\n```text\n{}\n```\n\n",
        entry.name(),
        about.paper,
        about.formula
    );
    let slots = measured.slots.iter().map(|(name, bytes)| match &*short(*bytes) {
        "0" => format!("`{name}` (a scalar)"),
        bytes => format!("`{name}` ({bytes} bytes)"),
    });
    let slots = slots.collect::<Vec<_>>();
    let slots = if slots.is_empty() { "none".to_owned() } else { slots.join(", ") };
    let _ = writeln!(text, "Slots: {slots}. Usual rate: {}. {}", about.rate, about.peers);
    let options = entry.options();
    if !options.is_empty() {
        text.push_str("\n| option | default | legal |\n|---|---|---|\n");
    }
    for option in options {
        let default = option.default.replace('|', "\\|");
        let _ = writeln!(text, "| `{}` | `{default}` | {} |", option.name, option.legal);
    }
}

#[test]
fn every_optimizer_has_its_section() {
    let entries: Vec<_> = optimizers().iter().map(|entry| (entry, measured(entry))).collect();
    let mut made = format!("{HEADING}{INTRODUCTION}");
    table(&mut made, &entries);
    entries.iter().for_each(|(entry, measured)| section(&mut made, entry, measured));
    let path = sources::workspace().join("docs/optimizers.md");
    let committed = std::fs::read_to_string(&path).unwrap();
    let (head, list) = committed.split_at(committed.find(HEADING).unwrap_or(committed.len()));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{made}")).unwrap();
    } else {
        let how = "UPDATE_DOCS=1 cargo test -p tests --test pages";
        assert!(list == made, "docs/optimizers.md is not what the rooms say; {how}");
    }
}

//! `docs/parity.md`: what Mesh TensorFlow has, what stands for it here, and the test that proves it.
//!
//! `UPDATE_DOCS=1 cargo test -p tests --test pages` writes it.

use crate::catalogue::sources;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

const INTRODUCTION: &str = "\
# Parity with Mesh TensorFlow

What a user of Mesh TensorFlow relies on, as its source has it, and what stands for it here. A test makes
this page (`tests/tests/pages/parity.rs`; `UPDATE_DOCS=1 cargo test -p tests --test pages` writes it). It fails
when a name in the middle column is defined nowhere in the sources, or when a proof is no test.

The general proof of an op is stronger than one test: the conformance suite runs each under the legal
layouts of several meshes and compares with a naive evaluator ([ops.md](ops.md)).

| # | what | here | proof |
|---|---|---|---|
";

/// A line for each row, in the order of Mesh TensorFlow's documentation and source: what it is | what stands
/// for it, with the names of the sources in backticks | `file::test`, or nothing where nothing proves it.
const ROWS: &str = include_str!("parity.txt");

struct Row {
    what: &'static str,
    here: &'static str,
    proof: &'static str,
}

/// The rows with their numbers.
fn rows() -> impl Iterator<Item = (usize, Row)> {
    (1..).zip(ROWS.lines().map(|line| {
        let mut cells = line.split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_default();
        Row { what: cell(), here: cell(), proof: cell() }
    }))
}

/// Rows that the page says are missing, so that none goes missing unnoticed.
const MISSING: &[usize] = &[65, 75, 78, 84];

/// Folders with sources of the library and its programs.
const SOURCES: &[&str] = &["mesh_core/src", "mesh_ops/src", "mesh_optimize/src", "examples/src"];

fn generated() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (number, Row { what, here, proof }) in rows() {
        let proof = match proof.split_once("::") {
            Some((path, test)) => format!("[`{test}`](../{path})"),
            None => "none".to_owned(),
        };
        let _ = writeln!(page, "| {number} | {what} | {here} | {proof} |");
    }
    let proven = rows().filter(|(_, row)| !row.proof.is_empty()).count();
    let _ = write!(page, "\n{proven} of {} rows have their proof.\n", rows().count());
    page
}

#[test]
fn the_page_is_what_the_rows_say() {
    let page = generated();
    let path = sources::workspace().join("docs/parity.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/parity.md is not what its rows say; UPDATE_DOCS=1 cargo test -p tests --test pages"
    );
}

#[test]
fn every_row_has_its_proof_or_says_that_it_has_none() {
    assert_eq!(rows().count(), 90);
    let mut missing = Vec::new();
    for (number, row) in rows() {
        match row.proof.split_once("::") {
            Some((path, test)) => {
                let text = sources::room(path);
                let stated = text.contains(&format!("fn {test}(")) && text.contains("#[test]");
                assert!(stated, "row {number}: {path} has no test {test}");
            }
            None => missing.push(number),
        }
    }
    assert_eq!(missing, MISSING);
}

#[test]
fn what_stands_for_a_row_is_defined() {
    let sources: Vec<_> = SOURCES.iter().flat_map(|folder| sources::sources(folder)).collect();
    let mut unknown = BTreeSet::new();
    for (_, row) in rows() {
        for name in row.here.split('`').skip(1).step_by(2) {
            let last = name.rsplit("::").next().unwrap_or(name);
            let kinds = ["fn", "struct", "enum", "trait", "type", "const", "mod", "pub"];
            let defined = kinds.iter().any(|kind| {
                let start = format!("{kind} {last}");
                sources.iter().any(|(_, text)| {
                    let mut found = text.match_indices(&start);
                    found.any(|(at, _)| !text[at + start.len()..].starts_with(is_word))
                })
            });
            let variant = format!("    {last}");
            let variant = |text: &String| {
                text.lines().any(|line| {
                    line.starts_with(&variant) && !line[variant.len()..].starts_with(is_word)
                })
            };
            if !defined && !sources.iter().any(|(_, text)| variant(text)) {
                unknown.insert(name);
            }
        }
    }
    assert!(unknown.is_empty(), "defined nowhere: {unknown:?}");
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

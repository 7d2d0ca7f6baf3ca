//! How long files are, and what none of them says.

use crate::sources::{is_test_file, production, sources, workspace};
use std::fs;

/// The longest a source file may be, tests not counted.
const LINES_MOST: usize = 400;

#[test]
fn safety_lines_state_facts() {
    let phrases = ["same contract", "as above", "as stated", "caller's promise"];
    for (path, text) in sources("mesh_core/src/exec") {
        for (number, line) in (1..).zip(text.lines()) {
            let said = line.split_once("SAFETY:").map_or("", |(_, said)| said);
            let vague = phrases.iter().find(|phrase| said.contains(*phrase));
            assert_eq!(vague, None, "{path}:{number} does not say what holds there");
        }
    }
}

#[test]
fn files_fit_in_a_head() {
    let mut long = Vec::new();
    for crate_ in ["mesh_core", "mesh_ops", "mesh_optimize", "examples"] {
        for (path, text) in sources(&format!("{crate_}/src")) {
            // Comments count; tests do not.
            let shown = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
            let lines = shown.lines().count();
            if !is_test_file(&path) && lines > LINES_MOST {
                long.push(format!("{path}: {lines} lines"));
            }
        }
    }
    assert!(long.is_empty(), "over {LINES_MOST} lines: {long:#?}");
}

#[test]
fn no_test_is_skipped_or_hopes_for_a_panic() {
    // Spelled apart, so that this file does not find itself.
    let (skipped, panics) = (["#[ign", "ore"].concat(), ["#[should", "_panic"].concat());
    for crate_ in ["mesh_core", "mesh_ops", "mesh_optimize", "examples", "tests"] {
        for (path, text) in sources(crate_) {
            assert!(!text.contains(&skipped), "{path} skips a test");
            assert!(!text.contains(&panics), "{path} has a test that hopes for a panic");
        }
    }
}

/// The rooms of the libraries and of the programs.
const ROOMS: [&str; 4] = ["mesh_core/src", "mesh_ops/src", "mesh_optimize/src", "examples/src"];

#[test]
fn nobody_panics_because_nobody_listens() {
    // `println!` and `eprintln!` panic where the reader has gone or a disk is full. The first program is
    // as its readers would write it.
    const ALLOWED: [&str; 1] = ["examples/src/bin/quickstart.rs"];
    for (path, code) in ROOMS.into_iter().flat_map(production) {
        for macro_name in ["print!(", "println!("] {
            let used = code.contains(macro_name) && !ALLOWED.contains(&path.as_str());
            assert!(!used, "{path} uses {macro_name}..): write to `io::stderr()` and let it fail");
        }
    }
}

#[test]
fn no_name_is_too_long_to_be_shown() {
    // `format!` panics where a width or a precision is above 65,535.
    const BOUNDED: [(&str, &str); 4] = [
        ("mesh_core/src/lower/explain/page.rs", ".min(WIDEST)"),
        ("mesh_core/src/lower/summary.rs", "clamp(20, 60)"),
        ("mesh_core/src/lower/explain/listing.rs", "clamp(20, 40)"),
        ("mesh_optimize/src/training/report/text.rs", "(-5..12).contains(&exponent)"),
    ];
    for (path, code) in ROOMS.into_iter().flat_map(production) {
        let widths = code.match_indices('$').filter(|(at, _)| {
            let before = &code[..*at];
            let name = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
            let name = &before[name.len()..];
            // `{text:<width$}`, but not a constant, nor a macro's `$x`.
            let spec = before[..at - name.len()].ends_with([':', '<', '>', '^', '.', '0', '+']);
            spec && !name.is_empty() && name.chars().any(char::is_lowercase)
        });
        let bounded = BOUNDED.iter().any(|(known, by)| *known == path && code.contains(by));
        assert!(bounded || widths.count() == 0, "{path} pads to a width from data");
    }
}

#[test]
fn the_glossary_is_in_order_and_linked() {
    let read = |name: &str| fs::read_to_string(workspace().join(name)).unwrap();
    let glossary = read("docs/glossary.md");
    let terms = glossary.lines().filter_map(|line| line.strip_prefix("| **")?.split("**").next());
    let terms: Vec<_> = terms.map(str::to_lowercase).collect();
    assert!(terms.len() > 50 && terms.is_sorted_by(|a, b| a < b), "{terms:#?}");
    for page in ["README.md", "ARCHITECTURE.md"] {
        assert!(read(page).contains("(docs/glossary.md)"), "{page} does not link the glossary");
    }
}

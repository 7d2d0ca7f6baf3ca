//! The programs that README.md and `docs/*.md` show are whole: each compiles if it is pasted into a
//! file.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The text between two fences of a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    /// The line of the opening fence, from 1.
    pub(crate) line: usize,
    /// The word after the opening fence: `rust`, `toml`.
    pub(crate) language: String,
    pub(crate) text: String,
}

/// The fenced blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (line, text) in (1..).zip(page.lines()) {
        let fence = text.trim_start().strip_prefix("```");
        open = match (open, fence) {
            (None, None) => None,
            (None, Some(language)) => {
                Some(Block { line, language: language.to_owned(), text: String::new() })
            }
            (Some(block), Some(_)) => {
                found.push(block);
                None
            }
            (Some(mut block), None) => {
                block.text.push_str(text);
                block.text.push('\n');
                Some(block)
            }
        };
    }
    assert_eq!(open, None, "a fence is not closed");
    found
}

/// README.md and the pages of `docs/`: paths from the workspace, and texts.
fn pages() -> Vec<(String, String)> {
    let root = workspace();
    let folder = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        folder.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    paths.push(root.join("README.md"));
    paths.sort();
    let page = |path: &PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    paths.iter().map(page).collect()
}

/// Why a Rust block cannot be pasted as it is, or is not compiled here as it is.
fn fault(block: &Block) -> Option<&'static str> {
    let hidden = |line: &str| line.trim() == "#" || line.trim_start().starts_with("# ");
    // Without `mpirun` and the feature `mpi`, or a plugin and the feature `xla`, such a program ends with an error.
    let needs_more = ["Session::mpi", "Session::xla"].iter().any(|made| block.text.contains(made));
    match block.language.as_str() {
        "" => return Some("says no language: rustdoc takes it for Rust, other readers for text"),
        "rust" => {}
        "rust,no_run" if needs_more => {}
        "rust,no_run" => return Some("is not run"),
        language if language.starts_with("rust") => return Some("may not compile"),
        _ => return None,
    }
    if block.text.lines().any(hidden) {
        return Some("has lines that rustdoc hides and Markdown shows");
    }
    let mains = block.text.lines().filter(|line| line.starts_with("fn main()")).count();
    if mains == 1 { None } else { Some("is no program: it needs one `fn main()`") }
}

/// The doc tests of `tests/src/lib.rs` compile and run the programs; this test is about their form.
#[test]
fn programs_of_pages_can_be_pasted() {
    let doc_tests = fs::read_to_string(workspace().join("tests/src/lib.rs")).unwrap();
    let mut programs = 0;
    for (name, page) in pages() {
        assert!(!page.contains("\n~~~"), "{name}: blocks stand between fences of ```");
        let blocks = blocks(&page);
        for block in &blocks {
            let fault = fault(block);
            assert_eq!(fault, None, "{name}:{}: this block {}", block.line, fault.unwrap_or(""));
        }
        let of_rust = blocks.iter().filter(|block| block.language.starts_with("rust")).count();
        let included = doc_tests.contains(&format!("include_str!(\"../../{name}\")"));
        assert!(included || of_rust == 0, "{name} is no doc test of tests/src/lib.rs");
        programs += of_rust;
    }
    assert!(programs > 10, "{programs} programs were found");
}

#[test]
fn what_cannot_be_pasted_is_found() {
    let fault_of = |page: &str| fault(&blocks(page)[0]).map(|text| text.split(':').next().unwrap());
    let program = "use mesh_ops::prelude::*;\n\nfn main() {\n    let g = mesh_ops::graph();\n}\n";
    let table = [
        ("```text\n# no program\n```\n".to_owned(), None),
        (format!("```rust\n{program}```\n"), None),
        (
            format!("1. list\n\n   ```rust\n# use a::b;\n{program}   ```\n"),
            Some("has lines that rustdoc hides and Markdown shows"),
        ),
        (
            format!("```rust\n{program}    # g.check();\n```\n"),
            Some("has lines that rustdoc hides and Markdown shows"),
        ),
        (
            format!("```rust\n#\n{program}```\n"),
            Some("has lines that rustdoc hides and Markdown shows"),
        ),
        ("```rust\nlet g = mesh_ops::graph();\n```\n".to_owned(), Some("is no program")),
        (format!("```\n{program}```\n"), Some("says no language")),
        (format!("```rust,ignore\n{program}```\n"), Some("may not compile")),
        (format!("```rust,no_run\n{program}```\n"), Some("is not run")),
        ("```rust,no_run\nfn main() {\n    Session::mpi();\n}\n```\n".to_owned(), None),
    ];
    for (page, expected) in table {
        assert_eq!(fault_of(&page), expected, "{page}");
    }
}

/// README's first block of a language.
pub(crate) fn first_of_readme(language: &str) -> String {
    let page = fs::read_to_string(workspace().join("README.md")).unwrap();
    blocks(&page).into_iter().find(|block| block.language == language).unwrap().text
}

#[test]
fn quickstart_is_the_first_program_of_readme() {
    let path = "examples/src/bin/quickstart.rs";
    let file = fs::read_to_string(workspace().join(path)).unwrap();
    let (head, program) = file.split_once("\n\n").unwrap();
    // The comment of a crate, and the permission to print.
    let is_head = |line: &str| line.starts_with("//!") || line.starts_with("#![expect(");
    assert!(head.lines().all(is_head), "{path} begins with {head}");
    assert!(program == first_of_readme("rust"), "README.md's first program is not {path}");
}

//! The sources of the workspace, and what they name.

use std::fs;
use std::path::{Path, PathBuf};
use tests::circles::circle;

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every source file under a folder or file of the workspace, with its path from there.
pub(crate) fn sources(under: &str) -> Vec<(String, String)> {
    let (root, mut found) = (workspace(), Vec::new());
    let mut folders = vec![root.join(under)];
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            folders.extend(entries.filter(|p| !p.ends_with("target")));
        } else if path.extension().is_some_and(|e| e == "rs") {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no sources under {under}");
    found
}

pub(crate) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/")
        || name == "tests.rs"
        || name.ends_with("_tests.rs")
        || path.starts_with("tests/")
}

/// Without comments, and without what `#[cfg(test)]` hides.
pub(crate) fn code(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = line.len() - line.trim_start().len();
            // Up to the end of the item: a line that ends a statement, or the closing brace.
            for hidden in lines.by_ref() {
                let depth = hidden.len() - hidden.trim_start().len();
                let ends = hidden.ends_with(';') || hidden.trim() == "}";
                if depth == indent && ends {
                    break;
                }
            }
            continue;
        }
        let line = line.split("//").next().unwrap_or(line);
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Production code under a folder: paths and code.
pub(crate) fn production(under: &str) -> Vec<(String, String)> {
    let files = sources(under).into_iter().filter(|(path, _)| !is_test_file(path));
    files.map(|(path, text)| (path, code(&text))).collect()
}

/// Words of Rust source: identifiers, split at `_` and at capitals, in lower case.
pub(crate) fn words(code: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before = ' ';
    for c in code.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric() {
            words.last_mut().unwrap().push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What rooms of its crate a file names.
pub(crate) fn rooms(code: &str) -> Vec<String> {
    used_of(code, "crate::")
}

/// What stands behind a path in a source: `a` and `b` behind `names::` in `names::{a::c, b}`.
pub(crate) fn used_of(code: &str, path: &str) -> Vec<String> {
    let flat: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for (i, _) in flat.match_indices(path) {
        let rest = &flat[i + path.len()..];
        let list = match rest.strip_prefix('{') {
            // `use crate::{names::Mesh, graph}`: heads of the entries at depth one.
            Some(inner) => heads(inner),
            None => vec![
                rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next()
                    .unwrap_or("")
                    .to_owned(),
            ],
        };
        found.extend(list);
    }
    found
}

fn heads(inner: &str) -> Vec<String> {
    let (mut depth, mut heads, mut head) = (0, Vec::new(), Some(String::new()));
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.extend(head.replace(String::new())),
            c if depth == 0 && (c.is_alphanumeric() || c == '_') => {
                if let Some(head) = &mut head {
                    head.push(c);
                }
            }
            ':' if depth == 0 => heads.extend(head.take()),
            _ => {}
        }
    }
    heads.extend(head);
    heads.retain(|head| !head.is_empty());
    heads
}

#[test]
fn the_readers_above_read() {
    let text = "use a; // crate::no\n#[cfg(test)]\nmod tests {\n    use crate::hidden;\n}\nuse crate::{names::Mesh, lower};\nlet x = crate::split::Role;";
    assert_eq!(rooms(&code(text)), ["names", "lower", "split"]);
    let files = |of_b: &str| {
        let given = [
            ("x/mod.rs", "mod a;\nmod b;\npub use a::{A, Other};\npub(crate) use b::B;"),
            ("x/a.rs", "use super::b::{B, C};\npub struct A(B);"),
            ("x/b.rs", of_b),
            ("x/c/mod.rs", "mod d;\npub use d::D;\npub struct C(D);"),
            ("x/c/d.rs", "use std::fmt;\npub struct D;"),
        ];
        given.map(|(path, code)| (path.to_owned(), code.to_owned()))
    };
    for code in ["pub struct B;", "use crate::x::c::{C, D};", "use super::{c, y::A};", "x::A"] {
        assert_eq!(circle(&files(code)), None, "{code}");
    }
    let through = ["use super::A;", "use crate::x::{c::D, A};", "fn f() -> super::A {}"];
    for code in through.into_iter().chain(["use super::{B, c, a as other};"]) {
        let want = ["x/a.rs", "x/b.rs"].map(str::to_owned).to_vec();
        assert_eq!(circle(&files(code)), Some(want), "{code}");
    }
    let mut own = files("");
    own[4].1.push_str("use super::C;");
    assert_eq!(circle(&own).map(|found| found.len()), Some(2), "a module and its child");
    assert_eq!(
        words("fn MaxPool(one_hot: OneHot2)"),
        ["fn", "max", "pool", "one", "hot", "one", "hot2"]
    );
}

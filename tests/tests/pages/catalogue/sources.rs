//! Reads the rooms' sources: tables, first sentences, public names.

use mesh_ops::testing;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every source under a folder of the workspace by path, without tests and the testing room.
pub fn sources(under: &str) -> BTreeMap<String, String> {
    let root = workspace();
    let (mut folders, mut found) = (vec![root.join(under)], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "testing" && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let relative = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                found.insert(relative, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// The path of a room of `mesh_ops`: `elementwise::relu` is a file, `conv` a folder.
pub fn path_of(room: &str) -> String {
    let path = format!("mesh_ops/src/{}", room.replace("::", "/"));
    let file = format!("{path}.rs");
    if workspace().join(&file).exists() { file } else { format!("{path}/mod.rs") }
}

pub fn room(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of the first table in a module's doc, without the line below the head.
pub fn table(source: &str) -> Vec<Vec<String>> {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let rows = lines.map(str::trim).skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).filter(|line| !line.starts_with("|-"));
    rows.map(cells).collect()
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| plain(cell.trim())).collect()
}

/// Without links: `[`x`](path)` and `[`x`]` are `x`.
pub fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("[`") {
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find("`]").map(|end| at + end) else { break };
        out.push_str(&rest[at + 1..=end]);
        rest = &rest[end + 2..];
        if let Some(path) = rest.strip_prefix('(') {
            rest = path.split_once(')').map_or("", |(_, after)| after);
        }
    }
    out + rest
}

/// A cell of an op room's table: `shape`, `split`, `linear`, `gradient`.
pub fn cell(source: &str, key: &str) -> Option<String> {
    table(source).into_iter().find(|row| row[0] == key).map(|row| row[1].clone())
}

/// The first sentence of the doc comment before a line that starts with `item`.
pub fn first_sentence(source: &str, item: &str) -> Option<String> {
    let lines: Vec<_> = source.lines().collect();
    let at = lines.iter().position(|line| {
        line.trim_start()
            .strip_prefix(item)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })?;
    let before = lines[..at].iter().rev().map(|line| line.trim());
    let attached = before.take_while(|line| line.starts_with("///") || line.starts_with("#["));
    let mut doc: Vec<_> = attached.filter_map(|line| line.strip_prefix("///")).collect();
    doc.reverse();
    let paragraph = doc.iter().map(|line| line.trim()).take_while(|line| !line.is_empty());
    let paragraph = paragraph.collect::<Vec<_>>().join(" ");
    let end = paragraph.find(". ").unwrap_or(paragraph.len());
    let sentence = plain(paragraph[..end].trim_end_matches('.'));
    (!sentence.is_empty()).then_some(sentence)
}

/// A function's signature, up to its body.
fn signature(source: &str, at: usize) -> &str {
    let rest = &source[at..];
    &rest[..rest.find(['{', ';']).unwrap_or(rest.len())]
}

/// The free public functions of `mesh_ops` that take or make tensors, with the file of each:
/// stated as such, or, where a macro states them, exported by the list of rooms.
pub fn public_functions() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (path, text) in sources("mesh_ops/src") {
        for (at, _) in text.match_indices("\npub fn ") {
            let signature = signature(&text, at + 1);
            let name = signature["pub fn ".len()..].split(['<', '(']).next().unwrap_or_default();
            if signature.contains("Tensor<") {
                found.insert(name.to_owned(), path.clone());
            }
        }
    }
    for room in testing::rooms() {
        for name in room.exports().iter().filter(|name| name.starts_with(char::is_lowercase)) {
            found.entry((*name).to_owned()).or_insert_with(|| path_of(room.name()));
        }
    }
    // These are exported, but have no tensors.
    found.retain(|name, _| !["memory_dim", "split_into_groups"].contains(&name.as_str()));
    found
}

/// The public types of layers with public methods that make tensors.
pub fn layer_types() -> Vec<String> {
    let mut found = Vec::new();
    for text in sources("mesh_ops/src/layers").values() {
        for (at, _) in text.match_indices("\nimpl") {
            let block = &text[at + 1..];
            let (head, body) = block.split_once('{').unwrap();
            let body = body.split("\n}").next().unwrap_or_default();
            let makes = body.match_indices("    pub fn ").any(|(at, _)| {
                let result = signature(body, at).split_once("->").map(|(_, result)| result);
                result.is_some_and(|result| result.contains("Tensor<"))
            });
            let name = head.trim_start_matches("impl").trim();
            let name = name.strip_prefix("<'g>").unwrap_or(name).trim();
            if makes && !name.contains(" for ") {
                let name = name.split('<').next().unwrap_or_default().trim().to_owned();
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        }
    }
    found
}

//! The builders in `tests/tests/golden/`, as their sources state them: what each calls, and what its instances are given.

use crate::catalogue::sources::workspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A line of a list of builders.
pub struct Builder {
    pub name: String,
    /// The functions, methods and types that it names where they are called, made or handed on, and those that its
    /// file's own functions name for it.
    pub calls: BTreeSet<String>,
    /// The file of its instances.
    family: String,
}

impl Builder {
    /// The elements of every input of floats.
    pub fn floats(&self) -> Vec<Vec<f64>> {
        let mut found = Vec::new();
        for folder in ["", "edges/"] {
            let path = format!("tests/golden/{folder}{}.json", self.family);
            let file: Value = serde_json::from_str(&read(&path)).unwrap();
            let is_own = |instance: &&Value| {
                let name = instance["name"].as_str().unwrap();
                name.split('/').next() == Some(&self.name)
            };
            for instance in file["instances"].as_array().unwrap().iter().filter(is_own) {
                let inputs = instance["inputs"].as_array().unwrap().iter();
                let floats = inputs.filter(|input| input["kind"] == "float");
                found.extend(floats.map(|input| numbers(&input["data"])));
            }
        }
        found
    }
}

fn numbers(data: &Value) -> Vec<f64> {
    let number = |x: &Value| x.as_f64().unwrap_or_else(|| x.as_str().unwrap().parse().unwrap());
    data.as_array().unwrap().iter().map(number).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every builder.
pub fn builders() -> Vec<Builder> {
    let mut found = Vec::new();
    let main = read("tests/tests/golden/main.rs");
    let block = main.split("\nfamilies! {").nth(1).unwrap().split("\n}").next().unwrap();
    for line in block.lines().filter_map(|line| line.trim().strip_suffix(';')) {
        let (family, list) = line.split_once(" = ").unwrap();
        let (module, list) = list.split_once("::").unwrap();
        let text = read(&format!("tests/tests/golden/{module}.rs"));
        let items = items(&text);
        let lines = lines(&items[list]);
        assert!(!lines.is_empty(), "{module}::{list} has no builders");
        found.extend(lines.into_iter().map(|(name, body)| {
            let mut calls = BTreeSet::new();
            reached(&body, &items, &mut calls);
            Builder { name, calls, family: family.to_owned() }
        }));
    }
    found
}

/// The functions and constants of a file, without comments, by name.
fn items(text: &str) -> BTreeMap<String, String> {
    let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut name = None;
    for line in code {
        let stated = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let of = ["fn ", "const "].iter().find_map(|word| stated.strip_prefix(word));
        if let Some(rest) = of {
            let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            name = Some(rest[..end].to_owned());
        } else if line.starts_with(char::is_alphabetic) {
            name = None;
        }
        if let Some(name) = &name {
            found.entry(name.clone()).or_default().extend([line, "\n"]);
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The name and the body of every line of a list: `("name", body),`.
fn lines(list: &str) -> Vec<(String, String)> {
    let starts = list.match_indices("(\"").filter_map(|(at, _)| {
        let begins = list[..at].ends_with("\n    ") || list[..at].ends_with("&[");
        let (name, rest) = list[at + 2..].split_once('"')?;
        let body = rest.strip_prefix(',')?.trim_start();
        let builds = body.starts_with('|') || body.starts_with(char::is_alphabetic);
        (begins && builds && name.chars().all(is_word))
            .then(|| (at, name.to_owned(), list.len() - body.len()))
    });
    let starts: Vec<_> = starts.collect();
    let end = |i: usize| starts.get(i + 1).map_or(list.len(), |(at, ..)| *at);
    let line = |(i, (_, name, from)): (usize, &(usize, String, usize))| {
        (name.clone(), list[*from..end(i)].to_owned())
    };
    starts.iter().enumerate().map(line).collect()
}

/// What a body names where it calls, makes or hands it on, and what the items that it reaches name.
fn reached(body: &str, items: &BTreeMap<String, String>, found: &mut BTreeSet<String>) {
    let words = words(body);
    let bound = bound(&words);
    for (i, word) in words.iter().enumerate() {
        let (before, after) = (i.checked_sub(1).map(|i| &*words[i]), words.get(i + 1));
        let after = after.map_or("", |word| word);
        let is_type = word.starts_with(char::is_uppercase);
        let is_called = match after {
            "(" => true,
            "::" => is_type || words.get(i + 2).is_some_and(|next| next == "<"),
            "{" => is_type,
            "," | "]" | ")" => before != Some(".") && !bound.contains(word),
            _ => false,
        };
        if is_called
            && found.insert(word.clone())
            && let Some(item) = items.get(word)
        {
            reached(item, items, found);
        }
    }
    let signs = [("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "div")];
    let used = signs.iter().filter(|(sign, _)| body.contains(&format!(" {sign} ")));
    found.extend(used.map(|(_, name)| (*name).to_owned()));
    if body.contains("-i.x") {
        found.insert("neg".to_owned());
    }
}

/// Words and signs, without what texts say.
fn words(body: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (i, code) in body.split('"').enumerate() {
        if i % 2 == 1 {
            found.push("\"\"".to_owned());
            continue;
        }
        let mut rest = code.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let len = if word > 0 {
                word
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            found.push(rest[..len].to_owned());
            rest = rest[len..].trim_start();
        }
    }
    found
}

/// Names that stand for values: those of patterns, of closures' parameters, and of functions' parameters.
fn bound(words: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut in_pattern, mut in_closure) = (false, false);
    for (i, word) in words.iter().enumerate() {
        match &**word {
            "let" => in_pattern = true,
            "=" | ";" => in_pattern = false,
            "|" => in_closure = !in_closure,
            _ => {}
        }
        let is_parameter = words.get(i + 1).is_some_and(|next| next == ":");
        let is_name = word.starts_with(|c: char| c.is_lowercase() || c == '_');
        if is_name && (in_pattern || in_closure || is_parameter) {
            found.insert(word.clone());
        }
    }
    found
}

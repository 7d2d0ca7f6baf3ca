//! What doc comments of public functions have.

use crate::sources::{is_test_file, sources};

/// A `pub fn`, or a method of a `pub trait`.
struct PublicFunction {
    /// Path, line and name.
    at: String,
    name: String,
    /// The doc comment, without slashes.
    doc: String,
    /// Whether its own line, or an attribute above it, has `#[track_caller]`.
    blames_caller: bool,
    /// Whether it stands outside `impl` and takes or makes tensors.
    of_tensors: bool,
    returns_result: bool,
    in_trait: bool,
}

fn public_functions(path: &str, text: &str) -> Vec<PublicFunction> {
    let (mut found, mut doc, mut in_trait) = (Vec::new(), String::new(), false);
    let mut attributes = String::new();
    let lines: Vec<&str> = text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        let item = line.trim_start();
        if !line.starts_with(' ') && !item.is_empty() && !item.starts_with("///") {
            in_trait = item.starts_with("pub trait") || (in_trait && item != "}");
        }
        if let Some(text) = item.strip_prefix("///") {
            doc += text;
            doc.push('\n');
            continue;
        }
        if item.starts_with("#[") {
            attributes += item;
            continue;
        }
        let method = in_trait && line.starts_with("    fn ");
        let name = item.split_once("fn ").filter(|(before, _)| {
            let public = before.starts_with("pub ") && !before.contains(['(', '"', '/']);
            public || (method && before.is_empty())
        });
        let (doc, attributes) = (std::mem::take(&mut doc), std::mem::take(&mut attributes));
        let Some((_, rest)) = name else { continue };
        let name = rest.split(['(', '<']).next().unwrap_or(rest).to_owned();
        let ends = |line: &&str| line.ends_with(['{', '}', ';']);
        let last = i + lines[i..].iter().position(ends).unwrap_or(0);
        let signature = lines[i..=last].join(" ");
        let blames_caller = attributes.contains("track_caller");
        let of_tensors = !line.starts_with(' ') && signature.contains("Tensor<");
        let signature = signature.split(" where ").next().unwrap_or(&signature);
        let returned = signature.rsplit_once("-> ").map_or("", |(_, returned)| returned);
        let returned = returned.split(['<', ' ', '{', ';']).next().unwrap_or(returned);
        let returns_result = returned.rsplit("::").next() == Some("Result");
        let at = format!("{path}:{} {name}", i + 1);
        found.push(PublicFunction {
            at,
            name,
            doc,
            blames_caller,
            of_tensors,
            returns_result,
            in_trait: method,
        });
    }
    found
}

/// The public functions under a folder. Modules of tests at the end of files do not count.
fn documented(under: &str) -> Vec<(String, Vec<PublicFunction>)> {
    let files = sources(under).into_iter().filter(|(path, _)| !is_test_file(path));
    files
        .map(|(path, text)| {
            let shown = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
            let functions = public_functions(&path, shown);
            (path, functions)
        })
        .collect()
}

#[test]
fn functions_say_when_they_fail() {
    let mut silent = Vec::new();
    for crate_ in ["mesh_core/src", "mesh_ops/src", "mesh_optimize/src"] {
        for (_, functions) in documented(crate_) {
            let lacks = |f: &PublicFunction| f.returns_result && !f.doc.contains("# Errors");
            silent.extend(functions.into_iter().filter(lacks).map(|f| f.at));
        }
    }
    assert!(silent.is_empty(), "no section `# Errors`: {silent:#?}");
}

/// The code of the examples in a source's doc comments.
fn examples(text: &str) -> String {
    let (mut code, mut inside) = (String::new(), false);
    for line in text.lines() {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            inside = false;
            continue;
        };
        match doc.trim_start().strip_prefix("```") {
            Some(language) => inside = !inside && language.is_empty(),
            None if inside => code += &format!("{doc}\n"),
            None => {}
        }
    }
    code
}

/// Whether `code` calls a function of this name.
fn calls(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].chars().next();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_') && matches!(after, Some('(' | ':'))
    })
}

/// A function has an example of its own, or an example of its room calls it: that of its type mostly.
/// Functions of tensors have their own. (Methods of `testing` are shown by the cases of the rooms.)
#[test]
fn functions_are_called_in_examples() {
    let mut without = Vec::new();
    for root in ["mesh_ops/src/", "mesh_optimize/src/"] {
        let room = |path: &str| {
            let inside = path.strip_prefix(root).unwrap_or(path);
            inside.split('/').next().unwrap_or(inside).to_owned()
        };
        let texts = sources(root);
        for (path, functions) in documented(root) {
            if path.starts_with("mesh_ops/src/testing/") {
                continue;
            }
            let here = room(&path);
            let in_room = texts.iter().filter(|(path, _)| room(path) == here);
            let code: String = in_room.map(|(_, text)| examples(text)).collect();
            let lacks = |f: &PublicFunction| {
                let shown = f.doc.contains("```\n") || (!f.of_tensors && calls(&code, &f.name));
                !f.in_trait && !shown
            };
            without.extend(functions.into_iter().filter(lacks).map(|f| f.at));
        }
    }
    assert!(without.is_empty(), "no example calls {without:#?}");
}

#[test]
fn functions_of_tensors_blame_the_caller() {
    let mut silent = Vec::new();
    for (_, functions) in documented("mesh_ops/src") {
        let lacks = |f: &PublicFunction| f.of_tensors && !f.blames_caller;
        silent.extend(functions.into_iter().filter(lacks).map(|f| f.at));
    }
    assert!(silent.is_empty(), "no `#[track_caller]`: {silent:#?}");
}

#[test]
fn the_readers_of_docs_read() {
    let text = "/// Doc.\n///\n/// ```\n/// let x = a.get(1);\n/// ```\n#[inline]\npub fn get(\n    f: impl Fn() -> Self,\n) -> io::Result<u8>\nwhere\n    F: Fn() -> u8,\n{\n}\npub trait T {\n    /// Says.\n    fn say(&self) -> Result<(), E>;\n}\nimpl T for S {\n    fn say(&self) -> Result<(), E> {}\n}\npub(crate) fn no() -> Result<()> {}\n";
    let found = public_functions("p", text);
    let shown: Vec<_> = found.iter().map(|f| (f.at.as_str(), f.returns_result)).collect();
    assert_eq!(shown, [("p:7 get", true), ("p:16 say", true)]);
    assert!(found[0].doc.contains("Doc.") && found[1].doc.contains("Says.") && found[1].in_trait);
    assert!(calls(&examples(text), "get") && !calls(&examples(text), "ge"));
}

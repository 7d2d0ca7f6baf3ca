//! Circles among the files of a folder, read off their paths (`super::a::B`, `crate::x::{y, z}`).

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use std::collections::{BTreeMap, BTreeSet};

/// A module's path from the crate: `["names", "layout"]`.
type Module = Vec<String>;

/// What a file says of others.
#[derive(Default)]
struct File {
    path: String,
    /// The full path of each name that it passes on.
    passed_on: BTreeMap<String, Vec<String>>,
    /// The full paths that it uses itself.
    used: Vec<Vec<String>>,
}

/// Files of which each uses every other, by way of some of them, if there are such. `files` are those of a crate's
/// folder, each with its path from the crate's `src` and its code, without comments.
///
/// A name that a module passes on (`pub use`) counts as used where it is declared.
pub fn circle(files: &[(String, String)]) -> Option<Vec<String>> {
    let modules: BTreeSet<Module> = files.iter().map(|(path, _)| module(path)).collect();
    let read = |(path, code): &(String, String)| (module(path), read(path, code, &modules));
    let files: BTreeMap<Module, File> = files.iter().map(read).collect();
    let position = |module: &Module| files.keys().position(|known| known == module);
    let uses = files.values().enumerate().flat_map(|(user, file)| {
        let used = file.used.iter().filter_map(|path| declared(path, &files, 0));
        used.filter_map(move |used| Some((user as u32, position(&used)? as u32)))
    });
    let uses = DiGraph::<(), ()>::from_edges(uses.collect::<Vec<_>>());
    let circle = tarjan_scc(&uses).into_iter().find(|circle| circle.len() > 1)?;
    let paths: Vec<_> = files.values().map(|file| file.path.clone()).collect();
    let mut found: Vec<_> = circle.iter().map(|file| paths[file.index()].clone()).collect();
    found.sort();
    Some(found)
}

fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// The module that declares what a path names, if it is one of these.
fn declared(path: &[String], files: &BTreeMap<Module, File>, depth: usize) -> Option<Module> {
    let known = (1..=path.len()).rev().find(|&length| files.contains_key(&path[..length]))?;
    let module = &path[..known];
    let passed_on = path.get(known).and_then(|name| files[module].passed_on.get(name));
    match passed_on {
        Some(from) if depth < 8 => declared(from, files, depth + 1),
        _ => Some(module.to_vec()),
    }
}

fn read(path: &str, code: &str, modules: &BTreeSet<Module>) -> File {
    let here = module(path);
    let mut file = File { path: path.to_owned(), ..File::default() };
    let (mut rest, mut shown) = (String::new(), Vec::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some((is_shown, first)) = use_of(line) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut tree = first.to_owned();
        while !tree.ends_with(';') {
            let Some(line) = lines.next() else { break };
            tree.push_str(line.trim());
        }
        let paths = branches(&tree).into_iter().filter_map(|path| full(&here, path, modules));
        if is_shown { shown.extend(paths) } else { file.used.extend(paths) }
    }
    let words: BTreeSet<&str> = rest.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for path in shown {
        let name = path.last().cloned().unwrap_or_default();
        if words.contains(name.as_str()) {
            file.used.push(path.clone());
        }
        file.passed_on.insert(name, path);
    }
    // Paths that stand in the code itself.
    for (at, _) in rest.match_indices("::") {
        let begin = rest[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_');
        let begin = begin.map_or(0, |before| before + 1);
        // `pub(in path)` names who may see, not what is used.
        if !rest[..begin].ends_with("::") && !rest[..begin].ends_with("(in ") {
            let end = rest[begin..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let path = &rest[begin..end.map_or(rest.len(), |end| begin + end)];
            let path = path.split("::").map(str::to_owned).collect();
            file.used.extend(full(&here, path, modules));
        }
    }
    file
}

/// What a line begins to `use`, and whether others are shown it.
fn use_of(line: &str) -> Option<(bool, &str)> {
    let line = line.trim();
    match line.strip_prefix("pub") {
        None => Some((false, line.strip_prefix("use ")?)),
        Some(rest) => {
            let (to, tree) = rest.split_once("use ")?;
            (to.trim().is_empty() || to.starts_with('(')).then_some((true, tree))
        }
    }
}

/// A path from the crate, of one that begins at a module; nothing if it leads out of the crate.
fn full(here: &Module, path: Vec<String>, modules: &BTreeSet<Module>) -> Option<Vec<String>> {
    let mut base = here.clone();
    let mut path = path.into_iter().filter(|part| !part.is_empty()).peekable();
    match path.peek()?.as_str() {
        "crate" => {
            base.clear();
            path.next();
        }
        "self" => drop(path.next()),
        "super" => {
            while path.next_if(|part| part == "super").is_some() {
                base.pop();
            }
        }
        child => {
            let child: Module = here.iter().cloned().chain([child.to_owned()]).collect();
            modules.contains(&child).then_some(())?;
        }
    }
    base.extend(path);
    Some(base)
}

/// Every path of the tree of a `use`, without what it is renamed to.
fn branches(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim().trim_end_matches(';');
    let (head, list) = tree.split_once('{').unwrap_or((tree, ""));
    let head = head.split(" as ").next().unwrap_or_default();
    let head: Vec<String> =
        head.split("::").map(|part| part.trim().to_owned()).filter(|p| !p.is_empty()).collect();
    let Some((inner, _)) = list.rsplit_once('}') else { return vec![head] };
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    let tails = parts.flat_map(|part| branches(part));
    tails.map(|tail| head.iter().cloned().chain(tail).collect()).collect()
}

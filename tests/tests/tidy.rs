//! The laws that can be read off the sources.

use std::fs;
use std::path::{Path, PathBuf};
use tests::circles::circle;

/// The longest a source file may be, tests not counted.
const LINES_MOST: usize = 400;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every source file under a folder or file of the workspace, with its path from there.
fn sources(under: &str) -> Vec<(String, String)> {
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

fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/")
        || name == "tests.rs"
        || name.ends_with("_tests.rs")
        || path.starts_with("tests/")
}

/// Without comments, and without what `#[cfg(test)]` hides.
fn code(text: &str) -> String {
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
fn production(under: &str) -> Vec<(String, String)> {
    let files = sources(under).into_iter().filter(|(path, _)| !is_test_file(path));
    files.map(|(path, text)| (path, code(&text))).collect()
}

/// Words of Rust source: identifiers, split at `_` and at capitals, in lower case.
fn words(code: &str) -> Vec<String> {
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
fn rooms(code: &str) -> Vec<String> {
    used_of(code, "crate::")
}

/// What stands behind a path in a source: `a` and `b` behind `names::` in `names::{a::c, b}`.
fn used_of(code: &str, path: &str) -> Vec<String> {
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
fn one_room_names_mpi() {
    for (path, code) in production("mesh_core/src").into_iter().chain(production("examples/src")) {
        let named = code.contains("use mpi::") || code.contains("ffi::MPI_");
        assert!(!named || path.starts_with("mesh_core/src/exec/mpi/"), "{path} names MPI");
    }
}

#[test]
fn one_file_of_the_executor_names_what_threads_share() {
    const NAMED: [&str; 6] =
        ["std::sync", "core::sync", "alloc::sync", "std::thread", "spin_loop", "thread::park"];
    for (path, code) in production("mesh_core/src/exec") {
        let flat: String = code.split_whitespace().collect();
        let named = NAMED.iter().find(|name| flat.contains(**name));
        let hidden =
            used_of(&code, "std::").into_iter().find(|used| used == "sync" || used == "thread");
        let is_sync = path == "mesh_core/src/exec/sync.rs";
        assert!(is_sync || (named, &hidden) == (None, &None), "{path} names {named:?} {hidden:?}");
    }
}

#[test]
fn comm_threads_and_ranks_stand_one_upon_the_other() {
    let table: [(&str, &[&str]); 2] = [("comm", &["threads", "mpi"]), ("threads", &["mpi"])];
    for (room, forbidden) in table {
        for (path, code) in production(&format!("mesh_core/src/exec/{room}")) {
            let used = [used_of(&code, "super::"), used_of(&code, "exec::")].concat();
            let stray = used.iter().find(|used| forbidden.contains(&used.as_str()));
            assert_eq!(stray, None, "{path}: exec/{room}/ may not use it");
        }
    }
}

#[test]
fn rooms_of_core_use_what_stands_before_them() {
    let table: [(&str, &[&str]); 4] = [
        ("split", &["graph", "lower", "passes", "exec", "session"]),
        ("program", &["graph", "lower", "split", "passes", "exec", "session"]),
        ("passes", &["graph", "lower", "split", "exec", "session"]),
        ("exec", &["graph", "lower", "split", "session"]),
    ];
    for (room, forbidden) in table {
        for (path, code) in production(&format!("mesh_core/src/{room}")) {
            let used = rooms(&code);
            let stray = used.iter().find(|used| forbidden.contains(&used.as_str()));
            assert_eq!(stray, None, "{path}: {room}/ may not use it");
        }
    }
}

#[test]
fn the_graph_knows_of_lowering_what_an_op_sees() {
    for (path, code) in production("mesh_core/src/graph") {
        let used = used_of(&code, "lower::");
        let seen = ["LocalCx", "PlaceCx", "PlacedCx", "Placing", "Shares"];
        let stray = used.iter().find(|used| !seen.contains(&used.as_str()));
        assert_eq!(stray, None, "{path}: graph/ knows an op's contexts only");
    }
}

#[test]
fn files_of_a_room_stand_in_an_order() {
    for room in ["exec", "graph", "names"] {
        let files = production(&format!("mesh_core/src/{room}")).into_iter();
        let in_crate = |path: String| path["mesh_core/src/".len()..].to_owned();
        let files: Vec<_> = files.map(|(path, code)| (in_crate(path), code)).collect();
        assert_eq!(circle(&files), None, "these files use each other in a circle");
    }
}

#[test]
fn the_executor_knows_no_layout() {
    let strangers = ["Layout", "Rules", "Placement", "Slice", "Shape", "Dimension", "DimName"];
    for (path, code) in production("mesh_core/src/exec") {
        let used = used_of(&code, "names::");
        let stray = used.iter().find(|used| strangers.contains(&used.as_str()));
        assert_eq!(stray, None, "{path}: exec/ knows extents and groups only");
    }
}

#[test]
fn optimizers_know_no_mesh() {
    let strangers = [
        "mesh",
        "meshes",
        "layout",
        "layouts",
        "axis",
        "axes",
        "placement",
        "processor",
        "processors",
        "collective",
        "collectives",
    ];
    // What they share, beside the rooms.
    let shared = [
        "descent.rs",
        "trust.rs",
        "weight_decay.rs",
        "optimizer.rs",
        "adafactor/",
        "wrappers/",
        "muon/",
        "matrices.rs",
        "roots.rs",
    ];
    let mut rooms = 0;
    for (path, code) in production("mesh_optimize/src") {
        if code.contains("Optimizer for") || shared.iter().any(|name| path.contains(name)) {
            let other_names = ["mesh_core", "mesh_ops", "Mesh TensorFlow"];
            let code = other_names.iter().fold(code, |code, name| code.replace(name, ""));
            let stray = words(&code).into_iter().find(|word| strangers.contains(&word.as_str()));
            assert_eq!(stray, None, "{path}: an optimizer says nothing of where tensors lie");
            rooms += 1;
        }
    }
    assert!(rooms >= 30, "{rooms} rooms of optimizers");
}

/// Its formula, options and examples aside; `config.rs` beside it says their names.
#[test]
fn muon_is_a_short_room() {
    const MOST: usize = 120;
    let [(_, code)] = &production("mesh_optimize/src/muon/mod.rs")[..] else { panic!("one file") };
    let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= MOST, "{lines} lines");
}

#[test]
fn names_know_nobody() {
    for (path, code) in production("mesh_core/src/names") {
        let used = rooms(&code);
        assert!(used.iter().all(|used| used == "names"), "{path} uses {used:?}");
    }
}

#[test]
fn core_knows_no_mathematical_op() {
    let ops = [
        "einsum",
        "matmul",
        "relu",
        "gelu",
        "tanh",
        "sigmoid",
        "softmax",
        "softplus",
        "swish",
        "conv2d",
        "concat",
        "onehot",
        "embedding",
        "attention",
        "norm",
        "dropout",
        "cumsum",
        "transformer",
        "dense",
    ];
    for room in ["graph", "split", "lower", "passes"] {
        for (path, code) in production(&format!("mesh_core/src/{room}")) {
            let words = words(&code);
            let named = ops.iter().find(|op| words.iter().any(|word| word == *op));
            assert_eq!(named, None, "{path} names an op");
        }
    }
}

#[test]
fn unsafe_code_lives_in_the_executor() {
    for crate_ in ["mesh_core", "mesh_ops", "mesh_optimize", "examples"] {
        for (path, code) in production(&format!("{crate_}/src")) {
            let names = words(&code).iter().any(|word| word == "unsafe");
            let lifts = code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code");
            let inside = path.starts_with("mesh_core/src/exec/");
            assert!(inside || !(names || lifts), "{path} has unsafe code");
        }
    }
}

#[test]
fn one_room_calls_plugins() {
    let room = "mesh_core/src/exec/xla/ffi";
    for (path, code) in production("mesh_core/src") {
        let calls = code.contains("libloading") || code.contains("PJRT_");
        let lifts = code.contains("unsafe") && path.starts_with("mesh_core/src/exec/xla/");
        assert!(path.starts_with(room) || !(calls || lifts), "{path} reaches into plugins");
    }
}

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

#[test]
fn the_readers_of_docs_read() {
    let text = "/// Doc.\n///\n/// ```\n/// let x = a.get(1);\n/// ```\n#[inline]\npub fn get(\n    f: impl Fn() -> Self,\n) -> io::Result<u8>\nwhere\n    F: Fn() -> u8,\n{\n}\npub trait T {\n    /// Says.\n    fn say(&self) -> Result<(), E>;\n}\nimpl T for S {\n    fn say(&self) -> Result<(), E> {}\n}\npub(crate) fn no() -> Result<()> {}\n";
    let found = public_functions("p", text);
    let shown: Vec<_> = found.iter().map(|f| (f.at.as_str(), f.returns_result)).collect();
    assert_eq!(shown, [("p:7 get", true), ("p:16 say", true)]);
    assert!(found[0].doc.contains("Doc.") && found[1].doc.contains("Says.") && found[1].in_trait);
    assert!(calls(&examples(text), "get") && !calls(&examples(text), "ge"));
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

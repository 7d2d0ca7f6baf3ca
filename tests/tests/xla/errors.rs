//! What cannot be a plugin, or cannot be had of one, is said in words.

use mesh_core::session::{Plugin, PluginError};
use mesh_ops::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{fast, plugin};

/// A folder for a test's files.
fn folder(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Builds a library of this source, in Rust.
fn library(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (written, built) = (folder.join(format!("{name}.rs")), folder.join(format!("{name}.so")));
    fs::write(&written, source).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(rustc);
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort", "-o"]);
    let output = rustc.arg(&built).arg(&written).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    built
}

/// A library with the entry of a plugin, whose table is of a size and version, and has no functions.
fn table(folder: &Path, name: &str, size: usize, (major, minor): (i32, i32)) -> PathBuf {
    let source = format!(
        "#[repr(C)] pub struct Table(usize, usize, usize, usize, i32, i32, [usize; 150]);
         static TABLE: Table = Table({size}, 0, 24, 0, {major}, {minor}, [0; 150]);
         #[unsafe(no_mangle)] pub extern \"C\" fn GetPjrtApi() -> *const Table {{ &TABLE }}"
    );
    library(folder, name, &source)
}

#[track_caller]
fn refused(path: &Path, words: &[&str]) -> PluginError {
    let error = Plugin::open(path).unwrap_err();
    let text = error.to_string();
    for word in words.iter().copied().chain([path.to_str().unwrap()]) {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    error
}

#[test]
fn files_that_are_no_plugins_are_refused() {
    let folder = folder("no-plugins");
    let missing = refused(&folder.join("missing.so"), &["cannot be read", "No such file"]);
    assert!(matches!(missing, PluginError::Unreadable { .. }));
    refused(&folder, &["cannot be read", "directory"]);
    for (name, content) in [("empty", &b""[..]), ("text", b"a text file, longer than a header")] {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        assert!(matches!(refused(&path, &["no shared library"]), PluginError::NoLibrary { .. }));
    }
    let other = library(&folder, "other", "pub fn nothing() {}");
    let without = refused(&other, &["is a library, but no PJRT plugin", "GetPjrtApi"]);
    assert!(matches!(without, PluginError::NoPlugin { .. }));
    let null = "#[unsafe(no_mangle)] pub extern \"C\" fn GetPjrtApi() -> usize { 0 }";
    refused(&library(&folder, "null", null), &["no PJRT plugin"]);

    // The number of the machine stands in the header, behind the type.
    let mut bytes = fs::read(&other).unwrap();
    bytes[18..20].copy_from_slice(&8u16.to_le_bytes());
    let foreign = folder.join("foreign.so");
    fs::write(&foreign, &bytes).unwrap();
    let foreign = refused(&foreign, &["for machine 8", std::env::consts::ARCH]);
    assert!(matches!(foreign, PluginError::Architecture { .. }));
    bytes.truncate(200);
    bytes[18..20].copy_from_slice(&fs::read(&other).unwrap()[18..20]);
    let cut = folder.join("cut.so");
    fs::write(&cut, &bytes).unwrap();
    assert!(matches!(refused(&cut, &["cannot be loaded"]), PluginError::Unloadable { .. }));
}

#[test]
fn plugins_of_other_versions_are_refused() {
    let folder = folder("other-versions");
    for (name, version, words) in
        [("older", (0, 40), "of version 0.40"), ("newer", (1, 0), "of version 1.0")]
    {
        let path = table(&folder, name, 1240, version);
        let error = refused(&path, &[words, "0.81 or a later one of 0.x"]);
        assert!(matches!(error, PluginError::Version { version: found, .. } if found == version));
    }
    let short = refused(&table(&folder, "short", 400, (0, 115)), &["is damaged", "400 bytes"]);
    assert!(matches!(short, PluginError::Short { size: 400, .. }));
    let empty = refused(&table(&folder, "empty", 1240, (0, 115)), &["does not start"]);
    assert!(matches!(empty, PluginError::Start { .. }), "{empty}");
    assert!(empty.to_string().contains("has no PJRT_Plugin_Initialize"), "{empty}");
}

/// A function of a parameter, on a mesh.
fn module(mesh: &str) -> Module {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 4)], F32);
    g.function("double", [x], [x * 2.0], []);
    g.lower(&mesh.parse().unwrap(), &Layout::default()).unwrap()
}

#[test]
fn a_mesh_larger_than_the_devices_is_refused() {
    let Some(plugin) = plugin() else { return };
    let error = Session::xla(&module("a:4"), 0, &plugin.clone().devices(2)).unwrap_err();
    let text = error.to_string();
    for words in
        ["the mesh has 4 processors", "there are 2 devices of platform cpu, as is asked for"]
    {
        assert!(text.contains(words), "{text}");
    }
    Session::xla(&module("a:4"), 0, &plugin.devices(8)).unwrap();
}

#[test]
fn what_the_compiler_refuses_names_the_function() {
    let Some(plugin) = plugin() else { return };
    let odd = fast(&plugin).flag("xla_no_such_flag", "1");
    let text = Session::xla_with(&module("a:2"), 0, &odd).unwrap_err().to_string();
    for words in ["XLA does not compile `double` for cpu", "xla_no_such_flag"] {
        assert!(text.contains(words), "{text}");
    }
    let text = fast(&plugin).compile_for(&module("a:2"), "v5e:4x4").unwrap_err().to_string();
    assert!(text.contains("topology `v5e:4x4`"), "{text}");
}

/// A function takes more memory than any machine has. If it writes no variable, it is refused, and the session goes
/// on from the variables as they were; else the session stops, and says why.
#[test]
fn a_device_without_room_loses_nothing() {
    let Some(plugin) = plugin() else { return };
    /// Elements along either side of a product that takes 4 TiB.
    const SIDE: usize = 1 << 20;
    let g = mesh_ops::graph();
    let w = g.state("w", [dim("w", 4)], F32, Initializer::ONES);
    let count = g.function("count", [], [w.value()], [w.assign_add(w.value())]);
    let (x, y) = (dim("x", SIDE), dim("y", SIDE));
    let [a, b] = [("a", x), ("b", y)].map(|(name, side)| g.input(name, [side, dim("k", 2)], F32));
    let product = a.einsum(&[b], [x, y]);
    let sorted = product.top_k(y, dim("best", 1)).0;
    let large = g.function("large", [a, b], [sorted.sum_all()], []);
    let writing = g.function("writing", [a, b], [sorted.sum_all()], [w.assign(w.value() * 0.0)]);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::xla_with(&module, 7, &fast(&plugin)).unwrap();
    let [_] = session.call(&count, []).unwrap();
    let zeros = Array::zeros(F32, &[SIDE, 2]);
    let refused = |session: &mut Session, function| {
        let error = session.call(function, [zeros.view(), zeros.view()]).unwrap_err();
        assert!(error.to_string().contains("Out of memory"), "{error}");
        error
    };
    refused(&mut session, &large);
    let [kept] = session.call(&count, []).unwrap();
    assert_eq!(kept.to_f64().sum(), 8.0);
    let why = refused(&mut session, &writing);
    assert_eq!(session.call(&count, []).unwrap_err(), why);
}

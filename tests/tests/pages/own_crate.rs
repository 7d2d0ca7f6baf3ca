//! README's section on crates of your own is true: a crate is made of its text and checked; with `MESH_NIGHTLY` it
//! is built and run. The program runs as a doc test in any case.

use crate::pasted::{first_of_readme, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of the checkout in README's manifest.
const CHECKOUT: &str = "../mesh/";

/// A new folder outside of the workspace, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("mesh-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// A crate whose manifest ends with these lines and whose only source file is this one.
    fn new_crate(&self, name: &str, manifest: &str, (file, text): (&str, &str)) -> PathBuf {
        let folder = self.0.join(name);
        fs::create_dir_all(folder.join("src")).unwrap();
        // The manifest that `cargo new` writes.
        let package =
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        fs::write(folder.join("Cargo.toml"), format!("{package}\n{manifest}")).unwrap();
        fs::write(folder.join("src").join(file), text).unwrap();
        folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What cargo wrote to standard output and to standard error.
fn cargo(folder: &Path, target: &Path, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(folder).args(arguments).arg("--offline");
    let done = command.env("CARGO_TARGET_DIR", target).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "cargo {arguments:?}\n{out}\n{error}");
    (out, error)
}

/// The lines of a manifest from one table up to the next of another name.
fn tables(manifest: &str, name: &str) -> String {
    let mut within = false;
    let mut text = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            within = line.starts_with(&format!("[{name}"));
        }
        if within {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The crate is compiled with the workspace's profile instead of README's; the next test is about that one. It
/// depends on this package as well, with this build's features, and on what else asks for features of shared crates: so
/// the crates that Mesh depends on have the features with which they are built already.
#[test]
fn a_crate_of_readme_s_text_compiles_and_trains() {
    let scratch = Scratch::new("own-crate");
    let root = workspace();
    let dependencies = first_of_readme("toml");
    assert!(dependencies.contains(CHECKOUT), "README depends on other paths:\n{dependencies}");
    let dependencies = dependencies.replace(&tables(&dependencies, "profile"), "");
    let dependencies = dependencies.replace(CHECKOUT, &format!("{}/", root.display()));
    let features = [("mpi", cfg!(feature = "mpi")), ("xla", cfg!(feature = "xla"))];
    let features = features.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
    let built = format!(
        "[dependencies]\ntests = {{ path = {:?}, features = {:?} }}\n",
        root.join("tests"),
        features.collect::<Vec<_>>()
    );
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let asks = ["clap = ", "proptest = "];
    let asks = manifest.lines().filter(|line| asks.iter().any(|name| line.starts_with(name)));
    let built = asks.fold(built, |built, line| built + line + "\n");
    let dependencies = dependencies.replacen("[dependencies]\n", &built, 1);
    let own = scratch.new_crate("own", &dependencies, ("main.rs", &first_of_readme("rust")));
    // The versions are those that are on this machine.
    fs::copy(root.join("Cargo.lock"), own.join("Cargo.lock")).unwrap();

    let profile = scratch.0.join("profile.toml");
    // Mesh itself is compiled again; where it is built, without optimisation that takes half the time.
    let unoptimised = ["mesh_core", "mesh_ops", "mesh_optimize", "tests"];
    let kept = tables(&manifest, "profile.dev");
    // What the environment sets stays so: this file would come before it.
    let set = std::env::var_os("CARGO_PROFILE_DEV_DEBUG").map(|_| "debug =".to_owned());
    let replaced = unoptimised.iter().map(|name| format!("{name}.")).chain(set);
    let replaced: Vec<_> = replaced.collect();
    let is_kept = |line: &&str| replaced.iter().all(|start| !line.starts_with(start));
    let kept = kept.trim_end().lines().filter(is_kept).map(|line| format!("{line}\n"));
    let unoptimised = unoptimised.map(|name| format!("{name}.opt-level = 0\n"));
    fs::write(&profile, kept.chain(unoptimised).collect::<String>()).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let nightly = std::env::var_os("MESH_NIGHTLY").is_some();
    let command = if nightly { "run" } else { "check" };
    let (out, _) = cargo(&own, target, &[command, "--config", profile.to_str().unwrap()]);
    if !nightly {
        return;
    }
    let losses = out.lines().filter_map(|line| line.split_once("loss "));
    let losses: Vec<f64> = losses.map(|(_, loss)| loss.parse().unwrap()).collect();
    assert_eq!(losses.len(), 10, "{out}");
    // At first the classifier knows nothing of the ten classes: the loss is about ln 10.
    assert!(losses[0] > 1.5 && losses[9] < 0.1 * losses[0], "{out}");
}

/// README's profile: a crate in Mesh's place is fully optimised, your own a little.
#[test]
fn the_profile_of_readme_optimises_dependencies() {
    let scratch = Scratch::new("own-profile");
    let profile = tables(&first_of_readme("toml"), "profile");
    let depends = format!("[dependencies]\nmesh = {{ path = \"../mesh\" }}\n\n{profile}");
    scratch.new_crate("mesh", "", ("lib.rs", "pub fn nothing() {}\n"));
    let program = "fn main() {\n    mesh::nothing();\n}\n";
    let own = scratch.new_crate("own", &depends, ("main.rs", program));
    let (_, verbose) = cargo(&own, &scratch.0.join("target"), &["build", "--verbose"]);
    let level = |name: &str| {
        let of_crate = |line: &&str| line.contains(&format!("--crate-name {name} "));
        let line = verbose.lines().find(of_crate).unwrap();
        let level = line.split_once("opt-level=").unwrap().1;
        level.split(' ').next().unwrap().to_owned()
    };
    assert_eq!((level("own"), level("mesh")), ("1".into(), "3".into()), "{verbose}");
}

//! Tests that need more than Rust: what is not there is noted, or, where it is expected, a failure.

use std::fs::OpenOptions;
use std::io::Write;

/// Names what a machine is expected to have, separated by spaces: `mpi`, `python`, `browser`, `data`,
/// `namespaces`, `xla`. A test that lacks one of these fails.
pub const EXPECTED: &str = "MESH_EXPECTS";

/// Names a file to which each test that is skipped adds a line.
const NOTED: &str = "MESH_SKIPPED";

/// Says that the test that calls does nothing, for a machine without `what`.
///
/// # Panics
///
/// If this machine is expected to have it.
pub fn skip(what: &str, reason: &str) {
    assert!(!is_expected(what), "{EXPECTED} has {what}, but {reason}");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let line = format!("skipped for lack of {what}: {test}: {}\n", reason.replace('\n', " "));
    print!("{line}");
    if let Ok(file) = std::env::var(NOTED) {
        let noted = OpenOptions::new().create(true).append(true).open(&file);
        let noted = noted.and_then(|mut file| file.write_all(line.as_bytes()));
        noted.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

/// Whether this machine is expected to have `what`.
pub fn is_expected(what: &str) -> bool {
    let expected = std::env::var(EXPECTED).unwrap_or_default();
    expected.split_whitespace().any(|name| name == what)
}

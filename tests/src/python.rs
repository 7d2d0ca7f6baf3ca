//! Finds a Python that can read what was written.

use std::process::Command;

/// The variable that names the Python to use. If it is set, a Python without the packages is a
/// failure. Otherwise `python3` is used, and a test that needs packages it lacks is skipped.
const PYTHON: &str = "MESH_PYTHON";

/// A Python that can import these modules; otherwise notes that the test is skipped, and returns `None`.
pub fn python(modules: &str) -> Option<String> {
    let asked = std::env::var(PYTHON);
    let python = asked.clone().unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    let problem = match found {
        Ok(output) if output.status.success() => return Some(python),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(asked.is_err(), "{PYTHON}={python}: {problem}");
    let problem = problem.lines().last().unwrap_or_default();
    crate::skip("python", &format!("{python} has no {modules}: {problem}"));
    None
}

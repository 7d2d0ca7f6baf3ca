//! What the committed tables of the conformance suite say: its cases, their ops, and what they call.

use super::sources::workspace;
use std::collections::BTreeSet;
use std::fs;

/// A case, with the table that it stands in.
#[derive(Default)]
struct Proven {
    table: String,
    case: String,
    ops: BTreeSet<String>,
    calls: BTreeSet<String>,
}

/// Every case of the committed tables.
pub struct Proofs(Vec<Proven>);

impl Proofs {
    pub fn read() -> Self {
        let mut all: Vec<Proven> = Vec::new();
        let folder = workspace().join("tests/tests/snapshots/conformance");
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let table = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            for line in text.lines() {
                let (Some(line), Some(proven)) = (line.strip_prefix("    "), all.last_mut()) else {
                    all.push(Proven {
                        table: table.clone(),
                        case: line.to_owned(),
                        ..Proven::default()
                    });
                    continue;
                };
                match line.strip_prefix("calls: ") {
                    Some(calls) => proven.calls.extend(calls.split(", ").map(str::to_owned)),
                    None => {
                        proven.ops.extend(line.split_once('(').map(|(name, _)| name.to_owned()))
                    }
                }
            }
        }
        Self(all)
    }

    /// Whether some case makes the op.
    pub fn has_op(&self, op: &str) -> bool {
        self.0.iter().any(|proven| proven.ops.contains(op))
    }

    /// What is wrong with a proof, which is the name of a case, of a table, or of a test as
    /// `folder/file.rs::test`: that it is not there, or that it does not call the function. A method is
    /// known by its type where the call names it.
    pub fn fault(&self, function: &str, proof: &str) -> Option<String> {
        let (owner, method) = function.split_once("::").unwrap_or(("", function));
        if let Some((file, test)) = proof.split_once("::") {
            let path = workspace().join("tests/tests").join(file);
            let text = fs::read_to_string(path).unwrap();
            let stated = text.contains(&format!("#[test]\nfn {test}()"));
            let called = stated && text.contains(&format!("{method}("));
            return (!called).then(|| format!("{function}: no test {test} in {file} calls it"));
        }
        let named = |proven: &&Proven| proven.case == proof || proven.table == proof;
        let calls: BTreeSet<_> = self.0.iter().filter(named).flat_map(|case| &case.calls).collect();
        let is_it = |call: &String| match call.split_once("::") {
            Some((of, called)) => of == function || of == owner && called == method,
            None => call == method,
        };
        let called = calls.iter().any(|call| is_it(call));
        (!called).then(|| format!("{function}: conformance case {proof} calls {calls:?}"))
    }
}

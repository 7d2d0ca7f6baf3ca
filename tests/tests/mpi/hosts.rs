//! Two simulated hosts: network namespaces that a virtual cable connects.

use super::{ENDS_WITHIN, Ended, Programs, programs};
use std::path::Path;
use std::process::Command;

/// The exit code of the script where namespaces are not allowed.
const SKIPPED: Option<i32> = Some(77);

fn on_two_hosts(programs: &Programs, ranks: usize, what: &str) -> Ended {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("ranks/two_hosts.sh");
    let mut job = Command::new("sh");
    job.arg(script).arg(ranks.to_string()).arg(&programs.ranks).arg(what);
    super::ended(&mut job)
}

#[test]
fn two_hosts_give_the_bits_of_threads_and_end_when_their_cable_is_cut() {
    let Some(programs) = programs() else { return };
    let Ended { code, text, .. } = on_two_hosts(programs, 4, "same-apart");
    if code == SKIPPED {
        tests::skip("namespaces", &text);
        return;
    }
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("modules are the same").count(), 4, "{text}");
    let Ended { code, text, took, .. } = on_two_hosts(programs, 2, "cut");
    assert!(code != Some(0) && took < ENDS_WITHIN, "{code:?} after {took:?}:\n{text}");
    assert!(text.contains("rank 1 did not get here within 2 s"), "{text}");
    assert!(!text.contains("nothing went wrong"), "{text}");
}

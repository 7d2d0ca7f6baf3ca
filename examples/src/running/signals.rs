//! Ends a run when a signal asks for it.

use signal_hook::consts::signal;
use signal_hook::flag;
use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The signals: Ctrl-C, a request to end, and the closing of the terminal.
#[cfg(unix)]
const ENDING: [c_int; 3] = [signal::SIGINT, signal::SIGTERM, signal::SIGHUP];
#[cfg(not(unix))]
const ENDING: [c_int; 2] = [signal::SIGINT, signal::SIGTERM];

/// A flag that becomes true when the process is asked to end. The second request ends the process
/// at once.
///
/// Signals that were ignored when the process started stay ignored: `nohup` ignores the closing of
/// the terminal, and a shell without job control ignores Ctrl-C for processes in the background.
pub(super) fn asked_to_end() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in ENDING.into_iter().filter(|&signal| is_heeded(signal)) {
        // The order matters: at the first signal the flag is not set yet.
        flag::register_conditional_shutdown(signal, 128 + signal, asked.clone())?;
        flag::register(signal, asked.clone())?;
    }
    Ok(asked)
}

/// Whether this process does not ignore a signal. Linux can tell. Elsewhere the closing of a
/// terminal is left to the system, which ends the process unless `nohup` has forbidden that.
fn is_heeded(signal: c_int) -> bool {
    match std::fs::read_to_string("/proc/self/status").ok().as_deref().and_then(ignored) {
        Some(ignored) => ignored >> (signal - 1) & 1 == 0,
        None => [signal::SIGINT, signal::SIGTERM].contains(&signal),
    }
}

/// The set of ignored signals in the text of `/proc/PID/status`: bit `n - 1` stands for signal `n`.
fn ignored(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read() {
        let status = "Name:\tlm\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), Some(0x1001));
        for odd in ["", "SigIgn:", "SigIgn: x", "SigIgn: 11111111111111111"] {
            assert_eq!(ignored(odd), None);
        }
    }
}

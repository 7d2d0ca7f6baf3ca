//! Messages of a run for people.

use crate::ranks::speaks;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes the program's answer and a line break to standard output. Of several processes only the
/// first writes.
pub fn print(text: &str) -> io::Result<()> {
    if speaks() { writeln!(io::stdout(), "{text}") } else { Ok(()) }
}

/// Writes a line about a run that goes on.
///
/// A line that cannot be written does not end the run, whose results are its checkpoints, metrics
/// and reports. If the reader has closed the output, as `head` does, nothing is reported. If a disk
/// is full, standard error says so once.
pub fn say(line: &str) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let Err(error) = print(line) else { return };
    if error.kind() != io::ErrorKind::BrokenPipe && !TOLD.swap(true, Ordering::Relaxed) {
        remark(&format!("warning: standard output cannot be written to: {error}; the run goes on"));
    }
}

/// Writes a line to standard error. Of several processes only the first writes. If it cannot be
/// written, there is nowhere to report that.
pub fn remark(line: &str) {
    if speaks() {
        complain(line);
    }
}

/// [`remark`] from any process.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The standard output of a run's lines, as [`say`] writes to it.
#[derive(Clone, Copy, Debug)]
pub struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        say(String::from_utf8_lossy(line).trim_end_matches('\n'));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

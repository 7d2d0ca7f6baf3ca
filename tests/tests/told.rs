//! The output of a user's program whose layout has a misspelt dim.

use std::process::{Command, Stdio};

/// The warnings in order: the one recorded while the graph was built, then the layout's.
const RECORDED: &str = "x: is hardly meant\n    at ";
const MISSPELT: &str = "no tensor has a dim `bacth`: its rule does nothing (did you mean `batch`?)\n  \
                        bacth:data\n  ^^^^^\n";
/// The program's own last line: all warnings are kept, and the result is right.
const ENDED: &str = "kept (1, 1), sum 16\n";

fn program(ways: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_misspelt"));
    command.args(ways.split(' '));
    command
}

/// The program's standard output and standard error.
fn said(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    (out, err)
}

/// Fails unless `text` is both warnings once, each after `before`, and then `rest`.
#[track_caller]
fn both_once(text: &str, before: &str, rest: &str) {
    let recorded = format!("{before}{RECORDED}");
    let layout = format!("{before}{MISSPELT}{rest}");
    assert!(text.starts_with(&recorded) && text.ends_with(&layout), "{text}");
    let line = text.lines().nth(1).unwrap();
    assert!(line.contains("misspelt.rs:"), "{line}");
    assert_eq!(text.lines().count(), 2 + layout.lines().count(), "{text}");
}

#[test]
fn standard_error_is_told_once() {
    for ways in ["default", "default default", "keep default keep default"] {
        let (out, err) = said(&mut program(ways));
        assert_eq!(out, ENDED, "{ways}");
        both_once(&err, "warning: ", "");
    }
}

#[test]
fn a_logger_is_told_instead_and_who_asks_for_silence_gets_it() {
    for ways in ["keep", "keep keep", "logger keep"] {
        assert_eq!(said(&mut program(ways)), (ENDED.to_owned(), String::new()), "{ways}");
    }
    let (out, err) = said(&mut program("logger default default"));
    both_once(&out, "WARN ", ENDED);
    assert_eq!(err, "");
}

/// The program goes on if standard error cannot be written to.
#[test]
#[cfg(target_os = "linux")]
fn standard_error_that_cannot_be_written_stops_nothing() {
    let gone = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let only_read = || Stdio::from(std::fs::File::open("/dev/null").unwrap());
    for stderr in [gone(), full(), only_read()] {
        let child = program("default").stderr(stderr).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), ENDED);
    }
    // Standard error is closed before the program starts.
    let closed = format!("'{}' default 2>&-", env!("CARGO_BIN_EXE_misspelt"));
    let (out, _) = said(Command::new("sh").args(["-c", &closed]));
    assert_eq!(out, ENDED);
}

//! Programs whose output cannot be written: they do their work all the same.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{lines, scratch, write_pair};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the output goes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sink {
    /// It is read.
    Read,
    /// Its reader has closed it.
    Closed,
    /// It goes to a full device.
    Full,
}

/// A program's exit code, and its output if it was read.
struct Ended {
    code: Option<i32>,
    said: [String; 2],
}

fn ended(program: &str, line: &str, [out, err]: [Sink; 2]) -> Ended {
    let sink = |sink| match sink {
        Sink::Full => Stdio::from(File::options().write(true).open("/dev/full").unwrap()),
        _ => Stdio::piped(),
    };
    let mut command = Command::new(program);
    command.args(line.split_whitespace()).stdout(sink(out)).stderr(sink(err));
    let mut child = command.spawn().unwrap();
    if out == Sink::Closed {
        drop(child.stdout.take());
    }
    if err == Sink::Closed {
        drop(child.stderr.take());
    }
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Ended { code: output.status.code(), said }
}

/// The flags of the training programs, and their number of steps. An axis without a dim causes a
/// warning.
fn training(dir: &Path) -> [(&'static str, String); 3] {
    write_pair(dir, 250);
    let common = "--mesh d:2 --dump max* --checkpoint-every 3";
    let data = dir.display();
    [
        (
            env!("CARGO_BIN_EXE_mnist"),
            format!("--model linear --batch 20 --steps 8 --data {data} {common}"),
        ),
        (
            env!("CARGO_BIN_EXE_lm"),
            format!(
                "--width 8 --depth 1 --heads 1 --sequence 8 --batch 2 --steps 8 --sample 0 {common}"
            ),
        ),
        (env!("CARGO_BIN_EXE_get_optimizer"), format!("--batch 8 --steps 8 {common}")),
    ]
}

#[test]
fn training_goes_on_and_is_saved() {
    use Sink::{Closed, Full, Read};
    let dir = scratch("output");
    for (program, line) in training(&dir) {
        for sinks in [[Closed, Read], [Full, Read], [Read, Closed], [Read, Full], [Full, Full]] {
            let at = dir.join("run");
            let _ = fs::remove_dir_all(&at);
            fs::create_dir_all(&at).unwrap();
            let [kept, metrics] = ["kept", "metrics"].map(|name| at.join(name));
            let line =
                format!("{line} --checkpoints {} --metrics {}", kept.display(), metrics.display());
            let Ended { code, said: [out, err] } = ended(program, &line, sinks);
            assert_eq!(code, Some(0), "{program} {sinks:?}\n{out}{err}");
            assert!(kept.join("step-0000000008").exists(), "{program} {sinks:?}");
            let steps = lines(&metrics).into_iter().filter(|line| line.contains_key("loss"));
            assert_eq!(steps.count(), 8, "{program} {sinks:?}");
            // Standard error, if it can be written to, gets one message.
            let told = err.matches("standard output cannot be written to").count();
            assert_eq!(told, usize::from(sinks == [Full, Read]), "{program} {sinks:?}\n{err}");
            assert_eq!(err.contains("warning: "), sinks[1] == Read, "{program} {sinks:?}\n{err}");
        }
    }
}

/// If a program is asked for an answer, failing to write it is an error.
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let programs = [
        (env!("CARGO_BIN_EXE_mnist"), "--model linear --explain"),
        (env!("CARGO_BIN_EXE_lm"), "--explain"),
        (env!("CARGO_BIN_EXE_slices"), ""),
        (env!("CARGO_BIN_EXE_mnist"), "--help"),
    ];
    for (program, line) in programs {
        let Ended { code, said } = ended(program, line, [Sink::Closed, Sink::Read]);
        assert_eq!((code, &*said[1]), (Some(0), ""), "{program} {line}");
    }
    for (program, line) in &programs[..3] {
        let Ended { code, said } = ended(program, line, [Sink::Full, Sink::Read]);
        assert_eq!(code, Some(1), "{program} {line}");
        assert!(said[1].starts_with("error: No space left"), "{program} {line}: {}", said[1]);
    }
}

#[test]
fn a_refusal_that_nobody_hears_is_one() {
    for (program, line) in [
        (env!("CARGO_BIN_EXE_mnist"), "--batch 0"),
        (env!("CARGO_BIN_EXE_lm"), "--mesh m:3 --layout heads:m"),
        (env!("CARGO_BIN_EXE_get_optimizer"), "--config /no/such/file.json"),
        (env!("CARGO_BIN_EXE_slices"), "--mesh rows"),
    ] {
        for sink in [Sink::Closed, Sink::Full] {
            let Ended { code, .. } = ended(program, line, [Sink::Read, sink]);
            assert_eq!(code, Some(1), "{program} {line} {sink:?}");
        }
    }
}

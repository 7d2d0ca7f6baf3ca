//! Helpers for the tests of the binaries: running them, scratch directories, small data sets.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

pub(crate) mod readme;

use std::path::{Path, PathBuf};
use std::process::Command;

/// How much losses under two layouts may differ, relative to their size. The README states these
/// numbers.
#[derive(Clone, Copy)]
pub(crate) struct Agreement {
    pub(crate) dtype: &'static str,
    pub(crate) steps: usize,
    pub(crate) within: f64,
}

/// Up to 5e-15 has been measured, a few roundings of f64; the margin is for seeds that amplify them.
pub(crate) const F64: Agreement = Agreement { dtype: "f64", steps: 20, within: 1e-9 };
/// Optimizers divide gradients by their size, which amplifies rounding where a ReLU's input is
/// close to 0. With few steps the effect stays small.
pub(crate) const MNIST_F32: Agreement = Agreement { dtype: "f32", steps: 6, within: 1e-4 };
/// 8e-7 has been measured for small models; larger ones sum more terms.
pub(crate) const LM_F32: Agreement = Agreement { dtype: "f32", steps: 20, within: 1e-4 };

/// The result of a run.
pub(crate) struct Run {
    pub(crate) command: String,
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// Fails unless the run succeeded.
    pub(crate) fn well(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}{}", self.command, self.out, self.err);
        self
    }
}

/// Runs a binary with backtraces on, so that a panic is visible.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Run {
    let output = Command::new(program).args(arguments).env("RUST_BACKTRACE", "1").output().unwrap();
    Run {
        command: format!("{program} {arguments:?}"),
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `mnist`.
pub(crate) fn mnist(arguments: &[&str]) -> Run {
    run(env!("CARGO_BIN_EXE_mnist"), arguments)
}

/// Runs `mnist` with a line of flags separated by spaces, then `more`.
pub(crate) fn mnist_line(line: &str, more: &[&str]) -> Run {
    let flags: Vec<_> = line.split_whitespace().chain(more.iter().copied()).collect();
    mnist(&flags)
}

/// Runs `lm` with a line of flags separated by spaces, then `more`.
pub(crate) fn lm_line(line: &str, more: &[&str]) -> Run {
    let flags: Vec<_> = line.split_whitespace().chain(more.iter().copied()).collect();
    run(env!("CARGO_BIN_EXE_lm"), &flags)
}

/// Fails unless the run was refused with one readable message that contains these words.
#[track_caller]
pub(crate) fn refused(run: &Run, words: &[&str]) {
    let Run { command, code, out, err } = run;
    assert!(code.is_some_and(|code| code == 1 || code == 2), "{command}: {code:?}\n{err}");
    assert!(err.starts_with("error: "), "{command}\n{err}");
    assert_eq!(err.matches("error: ").count(), 1, "{command}\n{err}");
    for word in ["panicked", "backtrace", "RUST_BACKTRACE", "internal error"] {
        assert!(!err.contains(word) && !out.contains(word), "{command}: {word}\n{out}{err}");
    }
    for word in words {
        assert!(err.contains(word), "{command}: no {word:?} in\n{err}");
    }
}

/// An empty directory for this test.
pub(crate) fn scratch(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A pair of IDX files of `count` patterned images; the last fifth is the test set.
pub(crate) fn write_pair(dir: &Path, count: u32) {
    let header = |magic: u32, sizes: &[u32]| -> Vec<u8> {
        [magic].iter().chain(sizes).flat_map(|word| word.to_be_bytes()).collect()
    };
    let mut images = header(0x0803, &[count, 28, 28]);
    let mut labels = header(0x0801, &[count]);
    for example in 0..count {
        let label = example % 10;
        labels.push(label as u8);
        // A bar whose place is the label, and noise.
        let noise =
            |pixel: u32| (pixel.wrapping_mul(2654435761).wrapping_add(example * 97) >> 26) as u8;
        images.extend((0..784).map(|p| if p % 28 / 3 == label { 255 } else { noise(p) }));
    }
    std::fs::write(dir.join("train-images-idx3-ubyte"), images).unwrap();
    std::fs::write(dir.join("train-labels-idx1-ubyte"), labels).unwrap();
}

/// Largest relative difference.
pub(crate) fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs() / a.abs()).fold(0.0, f64::max)
}

/// The JSON lines of a metrics file.
pub(crate) fn lines(file: &Path) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The losses in a metrics file.
pub(crate) fn losses(file: &Path) -> Vec<f64> {
    lines(file).iter().filter_map(|line| line.get("loss")?.as_f64()).collect()
}

/// The losses of held-out text in a metrics file.
pub(crate) fn held_out(file: &Path) -> Vec<f64> {
    lines(file).iter().filter_map(|line| line.get("held_out")?.as_f64()).collect()
}

/// The accuracies in a metrics file.
pub(crate) fn accuracies(file: &Path) -> Vec<f64> {
    lines(file).iter().filter_map(|line| line.get("accuracy")?.as_f64()).collect()
}

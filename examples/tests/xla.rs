//! `mnist` and `lm` on XLA's devices, through the plugin that `MESH_PJRT_PLUGIN` names: the losses of threads,
//! and runs that move between the two.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{mnist_line, refused, scratch};

/// A run that names no plugin, or one that is none, says so in a line.
#[test]
fn what_is_no_plugin_is_refused() {
    let dir = scratch("xla-refused");
    let text = dir.join("text.so");
    std::fs::write(&text, "a text, and no library at all").unwrap();
    let run = |more: &str| mnist_line(&format!("--steps 1 --model linear {more}"), &[]);
    refused(&run("--plugin a.so"), &["--plugin is for --backend xla"]);
    refused(&run("--backend xla --check-numerics"), &["does not look at numbers"]);
    let xla = |plugin: &str| run(&format!("--backend xla --plugin {plugin}"));
    if cfg!(feature = "xla") {
        refused(&xla("missing.so"), &["the plugin missing.so cannot be read"]);
        refused(&xla(text.to_str().unwrap()), &["is no shared library", "docs/accelerators.md"]);
    } else {
        refused(&xla("missing.so"), &["built without XLA", "--features xla"]);
    }
}

/// Both run a module; the back-end that specifies steps does so slowly.
#[test]
fn the_reference_trains_too() {
    let dir = scratch("xla-reference");
    common::write_pair(&dir, 75);
    let line = format!("--model linear --batch 4 --steps 2 --data {}", dir.display());
    let [threads, reference] = ["threads", "reference"].map(|backend| {
        let file = dir.join(backend);
        let more = ["--backend", backend, "--metrics", file.to_str().unwrap()];
        mnist_line(&line, &more).well();
        common::losses(&file)
    });
    assert_eq!(threads.len(), 2);
    assert!(common::apart(&threads, &reference) < 1e-5, "{threads:?}\n{reference:?}");
}

#[cfg(feature = "xla")]
mod on_devices {
    use crate::common::readme::{self, Example};
    use crate::common::{Run, apart, losses, refused, scratch, write_pair};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    const STEPS: usize = 20;

    /// How far the losses of so many steps may be apart, relative to their size, by the sums' order alone.
    const WITHIN: f64 = 1e-4;

    /// The longest that a run may take until its first checkpoint.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Whether there is a plugin; if not, the test that asks is skipped.
    fn is_here() -> bool {
        let here = std::env::var_os("MESH_PJRT_PLUGIN").is_some();
        if !here {
            tests::skip("xla", "MESH_PJRT_PLUGIN names no plugin");
        }
        here
    }

    fn command(program: &str, line: &str, backend: &str) -> Command {
        let program = match program {
            "lm" => env!("CARGO_BIN_EXE_lm"),
            _ => env!("CARGO_BIN_EXE_mnist"),
        };
        let mut command = Command::new(program);
        // Compiled fast, as it runs for some steps only.
        command.env("XLA_FLAGS", "--xla_backend_optimization_level=0");
        command.args(line.split_whitespace()).args(["--backend", backend]);
        command
    }

    fn run(program: &str, line: &str, backend: &str) -> Run {
        ended(&mut command(program, line, backend)).well()
    }

    fn ended(command: &mut Command) -> Run {
        let output = command.output().unwrap();
        Run {
            command: format!("{command:?}"),
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs every other example, or each if `MESH_LAYOUTS=all`, on threads and on devices.
    fn agree(program: &str, dir: &Path, examples: &[Example], line: &str) {
        let all = std::env::var_os("MESH_LAYOUTS").is_some_and(|layouts| layouts == "all");
        for Example { model, layout } in examples.iter().step_by(if all { 1 } else { 2 }) {
            let metrics = dir.join("metrics");
            let line = format!("{line} {model} {layout} --steps {STEPS}");
            let line = format!("{line} --metrics {}", metrics.display());
            let [threads, devices] = ["threads", "xla"].map(|backend| {
                let _ = std::fs::remove_file(&metrics);
                run(program, &line, backend);
                losses(&metrics)
            });
            assert_eq!(threads.len(), STEPS, "{line}");
            let difference = apart(&threads, &devices);
            assert!(difference < WITHIN, "{line}: {difference}\n{threads:?}\n{devices:?}");
        }
    }

    /// 60 training and 15 test examples.
    fn digits(test: &str) -> (PathBuf, String) {
        let dir = scratch(test);
        write_pair(&dir, 75);
        let data = format!("--batch 4 --hidden 32 --filters 2 --data {}", dir.display());
        (dir, data)
    }

    #[test]
    fn who_names_no_plugin_is_told_how_to() {
        let mut command = command("mnist", "--steps 1 --model linear", "xla");
        let names = ["no plugin is named", "--plugin", "MESH_PJRT_PLUGIN", "docs/accelerators.md"];
        refused(&ended(command.env("MESH_PJRT_PLUGIN", "")), &names);
        refused(&ended(command.env_remove("MESH_PJRT_PLUGIN")), &names);
    }

    #[test]
    fn mnist_trains_as_on_threads() {
        if !is_here() {
            return;
        }
        let examples = [readme::runs("mnist"), readme::layouts()].concat();
        assert!(examples.len() >= 12, "{examples:?}");
        let (dir, line) = digits("xla-mnist");
        agree("mnist", &dir, &examples, &line);
    }

    #[test]
    fn lm_trains_as_on_threads() {
        if !is_here() {
            return;
        }
        let examples = readme::runs("lm");
        assert!(examples.len() >= 5, "{examples:?}");
        let dir = scratch("xla-lm");
        let text = dir.join("text");
        let said = "the quick brown fox jumps over the lazy dog, and so does the cat. ".repeat(40);
        std::fs::write(&text, said).unwrap();
        let line = format!(
            "--width 32 --depth 2 --heads 4 --hidden 48 --sequence 16 --batch 4 --warmup 5 --sample 0 --text {}",
            text.display(),
        );
        agree("lm", &dir, &examples, &line);
    }

    /// A run that is killed on devices goes on on threads, and back, with the losses of one that stays on threads.
    #[test]
    fn killed_runs_move_between_threads_and_devices() {
        if !is_here() {
            return;
        }
        let (dir, data) = digits("xla-killed");
        let line = |name: &str, steps: usize| {
            let dir = dir.display();
            format!(
                "{data} --model mlp --optimizer adam --mesh rows:2 --layout batch:rows --checkpoint-every 4 --keep-every 4 \
                 --steps {steps} --checkpoints {dir}/{name} --metrics {dir}/{name}.metrics"
            )
        };
        run("mnist", &line("stays", STEPS), "threads");
        // So many steps that it is not done when it is killed.
        let mut endless = command("mnist", &line("moves", 1_000_000), "xla");
        let mut child = endless.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while !dir.join("moves/step-0000000004").exists() {
            assert!(started.elapsed() < PATIENCE && child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // It may have been far beyond the steps that are compared; the oldest checkpoint is gone on with.
        let newer = |name: &str| name.starts_with("step-") && name != "step-0000000004";
        for entry in std::fs::read_dir(dir.join("moves")).unwrap() {
            let path = entry.unwrap().path();
            if newer(&path.file_name().unwrap().to_string_lossy()) {
                std::fs::remove_dir_all(path).unwrap();
            }
        }
        run("mnist", &line("moves", 12), "threads");
        run("mnist", &line("moves", STEPS), "xla");
        let [stayed, moved] =
            ["stays", "moves"].map(|name| losses(&dir.join(format!("{name}.metrics"))));
        assert_eq!((stayed.len(), moved.len()), (STEPS, STEPS));
        let difference = apart(&stayed, &moved);
        assert!(difference < WITHIN, "{difference}\n{stayed:?}\n{moved:?}");
    }
}

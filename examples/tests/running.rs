//! The flags that training programs share.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{Run, lines, lm_line, losses, mnist_line, refused, run, scratch, write_pair};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder with digits and a run of 8 steps, with checkpoints after the third and the sixth.
struct Small {
    dir: PathBuf,
    line: String,
}

impl Small {
    fn new(test: &str) -> Self {
        let dir = scratch(test);
        write_pair(&dir, 75);
        let line = "--model linear --optimizer adam --batch 20 --steps 8 --checkpoint-every 3";
        let line = format!("{line} --data {0} --checkpoints {0}/kept", dir.display());
        Self { dir, line }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The small run with more flags, in which `DIR` stands for the folder.
    fn run(&self, more: &str) -> Run {
        let more = more.replace("DIR", self.dir.to_str().unwrap());
        mnist_line(&format!("{} {more}", self.line), &[])
    }

    fn kept(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("kept")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }
}

#[test]
fn checkpoints_are_thinned_out_and_a_finished_run_is_finished() {
    let small = Small::new("thinned");
    small.run("--keep-last 1 --keep-every 6 --metrics DIR/metrics").well();
    assert_eq!(small.kept(), ["step-0000000006", "step-0000000008"]);
    let metrics = fs::read(small.path("metrics")).unwrap();
    let again = small.run("--metrics DIR/metrics").well();
    assert!(again.out.contains("step-0000000008, after step 8"), "{}", again.out);
    assert!(again.out.contains("best test accuracy"), "{}", again.out);
    assert_eq!(fs::read(small.path("metrics")).unwrap(), metrics);
    // With more steps the run resumes.
    let line = small.line.replace("--steps 8", "--steps 10");
    let more = mnist_line(&line, &["--metrics", small.path("metrics").to_str().unwrap()]).well();
    assert!(more.out.contains("after step 8"), "{}", more.out);
    assert_eq!(losses(&small.path("metrics")).len(), 10);
    // A new file has only the new steps.
    let line = small.line.replace("--steps 8", "--steps 12");
    mnist_line(&line, &["--metrics", small.path("new").to_str().unwrap()]).well();
    assert_eq!(losses(&small.path("new")).len(), 2);
}

#[test]
fn checkpoints_of_other_runs_are_refused_and_name_what_differs() {
    let small = Small::new("other-runs");
    small.run("--seed 4").well();
    let base = small.line.replace("--checkpoints", "--seed 4 --checkpoints");
    let table: [(&str, &str, &[&str]); 6] = [
        ("--seed 4", "--seed 5", &["seed was 4 and is 5"]),
        ("--optimizer adam", "--optimizer sgd", &["optimizer was adam and is sgd"]),
        ("--model linear", "--model mlp", &["model was linear and is mlp"]),
        (
            "--batch 20",
            "--batch 10 --lr 0.1",
            &["batch was 20 and is 10", "lr was its own and is 0.1"],
        ),
        ("--batch 20", "--batch 20 --dtype bf16", &["dtype was f32 and is bf16"]),
        ("--checkpoint-every 3", "--checkpoint-every 0", &["--checkpoint-every 0", "1 or more"]),
    ];
    for (old, new, words) in table {
        let run = mnist_line(&base.replace(old, new), &[]);
        refused(&run, words);
    }
    // The settings are equal, the shapes differ.
    let lm = "--depth 1 --heads 2 --sequence 8 --batch 4 --sample 0 --steps 2 --checkpoints";
    let folder = small.path("lm").display().to_string();
    lm_line(&format!("--width 16 {lm}"), &[&folder]).well();
    let run = lm_line(&format!("--width 32 {lm}"), &[&folder]);
    refused(&run, &["step-0000000002", "another model or optimizer", "`norm/scale` is f32[32]"]);
}

#[test]
fn a_damaged_checkpoint_is_told_of_and_the_one_before_is_used() {
    let small = Small::new("damaged");
    small.run("--metrics DIR/metrics").well();
    let metrics = fs::read(small.path("metrics")).unwrap();
    let tensors = |step: &str| small.path("kept").join(step).join("variables.safetensors");
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    };
    flip(&tensors("step-0000000008"));
    let run = small.run("--metrics DIR/metrics").well();
    assert!(run.err.starts_with("warning: ") && run.err.contains("step-0000000008"), "{}", run.err);
    assert!(run.out.contains("step-0000000006, after step 6"), "{}", run.out);
    assert_eq!(fs::read(small.path("metrics")).unwrap(), metrics);
    // If no checkpoint is whole, nothing is overwritten.
    small.kept().iter().for_each(|step| flip(&tensors(step)));
    refused(&small.run("--metrics DIR/metrics"), &["no checkpoint is whole", "step-0000000003"]);
    assert_eq!(fs::read(small.path("metrics")).unwrap(), metrics);
    // A metrics file that is shorter than the checkpoint says is an error, too.
    small.kept().iter().for_each(|step| flip(&tensors(step)));
    fs::write(small.path("metrics"), &metrics[..50]).unwrap();
    refused(&small.run("--metrics DIR/metrics"), &["metrics", "50 bytes", "cut or replaced"]);
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_saves_and_says_how_to_go_on() {
    use std::process::{Command, Stdio};
    let small = Small::new("interrupted");
    let line = small.line.replace("--steps 8", "--epochs 100000");
    let mut child = Command::new(env!("CARGO_BIN_EXE_mnist"))
        .args(line.split_whitespace())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while !small.path("kept/step-0000000003").exists() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let last = said.lines().last().unwrap();
    let step: u64 = last.split_whitespace().nth(3).unwrap().trim_end_matches(';').parse().unwrap();
    assert!(last.contains("the same command goes on from ") && step >= 3, "{last}");
    assert_eq!(small.kept().pop().unwrap(), format!("step-{step:010}"));
}

/// A run without an end, and its folder of checkpoints.
#[cfg(unix)]
struct Endless {
    child: std::process::Child,
    small: Small,
}

#[cfg(unix)]
impl Endless {
    /// The run is started by a shell that first executes `before`.
    fn new(name: &str, before: &str) -> Self {
        use std::process::{Command, Stdio};
        let small = Small::new(name);
        let line = small.line.replace("--steps 8", "--epochs 100000");
        let child = Command::new("sh")
            .args(["-c", &format!("{before} exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_mnist")])
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, small }
    }

    /// Waits until a checkpoint of this step or a later one is there.
    fn wait(&mut self, step: u64) {
        while self.newest() < step {
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn newest(&self) -> u64 {
        if !self.small.path("kept").exists() {
            return 0;
        }
        let kept = self.small.kept();
        let steps = kept.iter().filter_map(|name| name.strip_prefix("step-")?.parse().ok());
        steps.max().unwrap_or(0)
    }

    fn signal(&self, name: &str) {
        let kill = ["-s", name, &self.child.id().to_string()];
        assert!(std::process::Command::new("kill").args(kill).status().unwrap().success());
    }
}

#[test]
#[cfg(unix)]
fn a_signal_ends_a_run_unless_it_is_to_be_ignored() {
    for name in ["INT", "TERM", "HUP"] {
        let mut heeds = Endless::new(&format!("heeds-{name}"), "");
        heeds.wait(3);
        heeds.signal(name);
        let output = heeds.child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.contains("stopped after step "), "{name}: {said}");

        // `nohup` does this, and shells do it to processes in the background.
        let mut ignores = Endless::new(&format!("ignores-{name}"), &format!("trap '' {name};"));
        ignores.wait(3);
        ignores.signal(name);
        let then = ignores.newest();
        ignores.wait(then + 12);
        ignores.signal(if name == "TERM" { "INT" } else { "TERM" });
        assert!(ignores.child.wait().unwrap().success(), "{name}");
    }
}

#[test]
#[cfg(unix)]
fn a_folder_is_one_run_s_until_that_ends() {
    let mut first = Endless::new("locked", "");
    first.wait(3);
    let second = first.small.run("");
    let folder = first.small.path("kept").display().to_string();
    refused(&second, &[&format!("process {}", first.child.id()), "saves checkpoints to", &folder]);
    // The lock is free after a kill, too.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let step = first.newest();
    let line = first.small.line.replace("--steps 8", &format!("--steps {}", step + 5));
    assert!(mnist_line(&line, &[]).well().out.contains("goes on from "));
    assert_eq!(first.newest(), step + 5);
}

#[test]
fn a_run_goes_on_with_the_files_it_began_with() {
    let dir = scratch("contents");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let [config, moved, text] = ["config.json", "moved.toml", "text"].map(path);
    let write = |path: &str, bytes: &str| fs::write(path, bytes).unwrap();
    let run = |name: &str, steps: u64, line: &str| {
        let flags = format!("{line} --steps {steps} --checkpoint-every 3 --checkpoints");
        let folder = path(&format!("kept-{name}"));
        match name {
            "mnist" => mnist_line(&format!("--model linear --batch 10 {flags}"), &[&folder]),
            "lm" => lm_line(
                &format!("--width 8 --depth 1 --heads 1 --sequence 8 --batch 2 --sample 0 {flags}"),
                &[&folder],
            ),
            _ => {
                let flags: Vec<_> = flags.split_whitespace().chain([folder.as_str()]).collect();
                common::run(env!("CARGO_BIN_EXE_get_optimizer"), &flags)
            }
        }
    };
    for name in ["mnist", "other"] {
        write(&config, r#"{"opt_name": "sgd", "lr": 0.25}"#);
        run(name, 3, &format!("--config {config}")).well();
        // The same content with another spelling and in another place.
        write(&moved, "lr = 0.250\nopt_name = 'sgd'\n");
        run(name, 4, &format!("--config {moved}")).well();
        write(&config, r#"{"opt_name": "sgd", "lr": 0.5, "warmup_steps": 3}"#);
        let words = ["config lr was 0.25 and is 0.5", "config warmup_steps was nothing and is 3"];
        refused(&run(name, 5, &format!("--config {config}")), &words);
    }
    let tale = "a quick brown fox jumps over the lazy dogs again. ".repeat(20);
    write(&text, &tale);
    run("lm", 3, &format!("--text {text}")).well();
    write(&path("moved"), &tale);
    run("lm", 4, &format!("--text {}", path("moved"))).well();
    for other in [tale.replacen("fox", "cat", 1), format!("{tale} ")] {
        write(&text, &other);
        let words = ["text was 1000 bytes, crc32c ", &format!(" and is {} bytes", other.len())];
        refused(&run("lm", 5, &format!("--text {text}")), &words);
    }
    let data = path("data");
    fs::create_dir_all(&data).unwrap();
    write_pair(Path::new(&data), 50);
    let line = format!("--data {data} --optimizer sgd");
    fs::remove_dir_all(path("kept-mnist")).unwrap();
    run("mnist", 3, &line).well();
    run("mnist", 4, &line).well();
    let images = Path::new(&data).join("train-images-idx3-ubyte");
    let mut bytes = fs::read(&images).unwrap();
    bytes[1000] ^= 1;
    fs::write(&images, bytes).unwrap();
    refused(&run("mnist", 5, &line), &["examples was 39200 bytes, crc32c ", "50 bytes, crc32c "]);
}

#[test]
fn variables_come_from_another_run() {
    let small = Small::new("restored");
    small.run("").well();
    let line = small.line.split(" --checkpoints").next().unwrap().to_owned();
    let line = line.replace("--optimizer adam", "--optimizer sgd");
    let begin = |more: &str| {
        let more = more.replace("DIR", small.dir.to_str().unwrap());
        let metrics = small.path("m").display().to_string();
        let line = line.replace("--checkpoint-every 3", "");
        let run = mnist_line(&format!("{line} {more} --metrics"), &[&metrics]);
        (run, small.path("m"))
    };
    let (run, file) = begin("");
    run.well();
    let fresh = losses(&file)[0];
    let (run, file) = begin("--restore-from DIR/kept --restore-matching ^logits/(kernel|bias)$");
    assert!(run.well().out.contains("2 of 3 variables are those of "));
    assert!(losses(&file)[0] < 0.8 * fresh, "{fresh} {:?}", losses(&file));
    refused(&begin("--restore-from DIR/kept --restore-matching ^body").0, &["--restore-matching"]);
    refused(&begin("--restore-from DIR/none").0, &["--restore-from", "no whole checkpoint"]);
}

#[test]
fn runs_are_looked_into() {
    let small = Small::new("looked-into");
    let mesh = "--mesh d:2 --layout batch:d --trace DIR/trace --metrics DIR/m";
    let run =
        small.run(&format!("{mesh} --trace-steps 2..4 --check-numerics --dump logits*")).well();
    let text = fs::read_to_string(small.path("trace")).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let mut calls: Vec<_> = events.iter().filter_map(|e| e["args"]["call"].as_u64()).collect();
    calls.sort_unstable();
    assert_eq!(calls, [2, 2, 3, 3], "a lane for each of two processors");
    assert!(run.err.contains("step 8  logits"), "{}", run.err);
    assert_eq!(lines(&small.path("m")).len(), 8 + 3);
    for (flags, words) in [
        ("--trace-steps 2..4", &["--trace"][..]),
        ("--trace DIR/t --trace-steps 4..4", &["--trace-steps", "10..13"]),
        ("--trace /no/such/folder/trace", &["--trace", "No such file"]),
        ("--events /dev/null", &["--events"]),
        ("--dump nothing", &["nothing"]),
    ] {
        refused(&small.run(flags), words);
    }
}

#[test]
fn layouts_are_compared() {
    let mesh = "--mesh d:2;m:2 --layout batch:d --compare-layout";
    let mnist = mnist_line(&format!("--model linear {mesh}"), &["pixels:d;classes:m"]).well();
    assert!(mnist.out.contains("agree on every operation of `train`"), "{}", mnist.out);
    let small = "--width 16 --depth 1 --heads 2 --sequence 8 --batch 4";
    let lm = lm_line(&format!("{small} {mesh}"), &["heads:m;d_ff:m;vocab:m"]).well();
    assert!(lm.out.contains("agree"), "{}", lm.out);
    let optimizer = env!("CARGO_BIN_EXE_get_optimizer");
    let flags = ["--mesh", "d:2", "--layout", "batch:d", "--compare-layout", "hidden:d"];
    assert!(run(optimizer, &flags).well().out.contains("agree"));
    let line = "--model linear --mesh d:2 --layout batch:d --compare-layout";
    refused(&mnist_line(line, &["batch:x"]), &["`x`", "layout"]);
    refused(&mnist_line(line, &["batch"]), &["--compare-layout", "`batch`"]);
}

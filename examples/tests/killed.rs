//! Training processes that are killed, at random moments or while a checkpoint is being written,
//! and resumed, end as a process that was never killed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{apart, lines, scratch, write_pair};
use examples::Rng;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A mesh and a layout.
type Spread = (&'static str, &'static str);

/// The longest time that any process may take.
const PATIENCE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_micros(200);

/// A command that trains.
struct Training {
    program: &'static str,
    line: String,
}

/// The folder of a training's output: `metrics` and `checkpoints`.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(scratch(name))
    }

    fn metrics(&self) -> PathBuf {
        self.0.join("metrics")
    }

    /// The names of finished checkpoints, and whether one is being written.
    fn checkpoints(&self) -> (Vec<String>, bool) {
        let Ok(entries) = fs::read_dir(self.0.join("checkpoints")) else {
            return (Vec::new(), false);
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names: Vec<_> = names.filter(|name| name != ".lock").collect();
        let (unfinished, mut whole): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name.starts_with('.'));
        whole.sort();
        (whole, !unfinished.is_empty())
    }

    fn newest(&self) -> Option<String> {
        self.checkpoints().0.pop()
    }

    /// The tensors of the newest checkpoint.
    fn tensors(&self) -> Vec<u8> {
        let newest = self.0.join("checkpoints").join(self.newest().unwrap());
        fs::read(newest.join("variables.safetensors")).unwrap()
    }
}

impl Training {
    fn start(&self, folder: &Folder, (mesh, layout): Spread) -> Child {
        Command::new(self.program)
            .args(self.line.split_whitespace())
            .args(["--mesh", mesh, "--layout", layout, "--metrics"])
            .arg(folder.metrics())
            .arg("--events")
            .arg(folder.0.join("events"))
            .arg("--report")
            .arg(folder.0.join("report.html"))
            .arg("--checkpoints")
            .arg(folder.0.join("checkpoints"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn finish(&self, folder: &Folder, spread: Spread) {
        assert!(self.start(folder, spread).wait().unwrap().success(), "{}", self.line);
    }

    /// Starts the training again and again, on one mesh after another, and kills it when it has
    /// made progress: at odd times at a random moment, at even times as soon as it writes a
    /// checkpoint. Then lets it finish. Returns how often it was killed, and how often it left a
    /// part of a checkpoint.
    fn kill(
        &self,
        folder: &Folder,
        spreads: &[Spread],
        times: usize,
        rng: &mut Rng,
    ) -> (usize, usize) {
        let (mut killed, mut torn) = (0, 0);
        for &spread in spreads.iter().cycle().take(times) {
            let before = folder.newest();
            let mut child = self.start(folder, spread);
            let mut wait = |done: &dyn Fn() -> bool| {
                let begun = Instant::now();
                while child.try_wait().unwrap().is_none() && !done() {
                    assert!(begun.elapsed() < PATIENCE, "no progress: {}", self.line);
                    sleep(MOMENT);
                }
            };
            wait(&|| folder.newest() > before);
            if killed % 2 == 0 {
                wait(&|| folder.checkpoints().1);
            } else {
                sleep(Duration::from_micros(rng.below_u64(30_000)));
            }
            let ended = child.try_wait().unwrap();
            child.kill().unwrap();
            let status = child.wait().unwrap();
            if ended.is_some() || status.success() {
                assert!(status.success(), "{}: {status}", self.line);
                break;
            }
            killed += 1;
            torn += usize::from(folder.checkpoints().1);
        }
        self.finish(folder, spreads[killed % spreads.len()]);
        (killed, torn)
    }
}

/// A small data set of digits, and the command that trains on it with 10 steps per epoch.
fn mnist(dir: &Path) -> Training {
    write_pair(dir, 250);
    let line = format!(
        "--model linear --optimizer adam --batch 20 --epochs 25 --checkpoint-every 3 --data {}",
        dir.display()
    );
    Training { program: env!("CARGO_BIN_EXE_mnist"), line }
}

/// A small text, and the command that trains on it.
fn lm(dir: &Path) -> Training {
    let text = dir.join("text");
    fs::write(&text, "a quick brown fox jumps over the lazy dogs again. ".repeat(40)).unwrap();
    let line = format!(
        "--scan --width 16 --depth 2 --heads 2 --hidden 24 --sequence 8 --batch 4 --warmup 5 \
         --sample 0 --steps 200 --eval-every 25 --checkpoint-every 3 --keep-every 50 --text {}",
        text.display()
    );
    Training { program: env!("CARGO_BIN_EXE_lm"), line }
}

/// The least number of kills of each kind.
const KILLS: usize = 10;

#[test]
fn a_killed_run_ends_as_one_never_killed_byte_for_byte() {
    let dir = scratch("killed-data");
    let sharded = "batch:d;params/*:d;slots/*:d";
    for (name, training, spread) in
        [("mnist", mnist(&dir), ("d:2", sharded)), ("lm", lm(&dir), ("d:2;m:2", "batch:d;heads:m"))]
    {
        let whole = Folder::new(&format!("killed-{name}-whole"));
        training.finish(&whole, spread);
        let (mut rng, mut killed, mut torn) = (Rng::keyed(7, 0x6b69_6c6c, 0), 0, 0);
        while killed < KILLS || torn == 0 {
            let folder = Folder::new(&format!("killed-{name}"));
            let (times, parts) = training.kill(&folder, &[spread], KILLS, &mut rng);
            (killed, torn) = (killed + times, torn + parts);
            assert!(times > 0, "it was too fast to be killed");
            let [metrics, other] = [&whole, &folder].map(|f| fs::read(f.metrics()).unwrap());
            assert!(metrics == other, "{name}: {} and {} bytes", metrics.len(), other.len());
            assert_eq!(folder.newest(), whole.newest());
            assert!(folder.tensors() == whole.tensors(), "{name}: other variables");
        }
        println!("{name}: killed {killed} times, {torn} of them in a checkpoint");
    }
}

#[test]
fn a_killed_run_goes_on_on_any_mesh() {
    const MNIST: [Spread; 4] = [
        ("", ""),
        ("d:4", "batch:d;slots/*:d"),
        ("c:2", "classes:c"),
        ("p:2;d:2", "pixels:p;batch:d"),
    ];
    const LM: [Spread; 4] = [
        ("", ""),
        ("d:2;m:2", "batch:d;heads:m;d_ff:m;vocab:m"),
        ("d:2", "batch:d;params/*:d;slots/*:d"),
        ("s:4", "length:s"),
    ];
    let dir = scratch("moved-data");
    for (name, training, spreads) in [("mnist", mnist(&dir), MNIST), ("lm", lm(&dir), LM)] {
        let whole = Folder::new(&format!("moved-{name}-whole"));
        training.finish(&whole, spreads[0]);
        let (mut rng, mut killed) = (Rng::keyed(8, 0x6b69_6c6c, 0), 0);
        while killed < spreads.len() {
            let folder = Folder::new(&format!("moved-{name}"));
            killed += training.kill(&folder, &spreads, 6, &mut rng).0;
            let numbers = |folder: &Folder| -> (Vec<_>, Vec<_>) {
                let lines = lines(&folder.metrics()).into_iter().map(|line| {
                    let names: Vec<_> = line.keys().cloned().collect();
                    let value = line.get("loss").or(line.get("held_out")).or(line.get("accuracy"));
                    ((line["step"].as_u64(), names), value.unwrap().as_f64().unwrap())
                });
                lines.unzip()
            };
            let ((steps, one), (others, two)) = (numbers(&whole), numbers(&folder));
            assert_eq!(steps, others);
            let difference = apart(&one, &two);
            println!("{name}: killed {killed} times, apart by {difference:.1e}");
            // The order of sums differs, and two hundred steps of Adam amplify that.
            assert!(difference < 1e-3, "{name}: {difference}");
        }
    }
}

//! A training job of which one rank is killed or stopped at random moments, and which resumes from
//! its checkpoints.
//!
//! `MESH_KILLED_ROUNDS` says how often; the default suits a test that always runs.

#![cfg(target_os = "linux")]

use super::{Programs, programs, reader, scratch};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

const ROUNDS: usize = 6;

/// How long ranks wait for others.
const DEADLINE: Duration = Duration::from_secs(2);
const MORE: Duration = Duration::from_secs(5);

/// The longest time for anything else on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The checkpoint in which a run ends.
const LAST: &str = "step-0000001500";

/// The environment variable that marks the processes of a job.
const MARK: &str = "MESH_TEST_JOB";

/// Numbers that look random: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

/// A run's folder.
struct Run(PathBuf);

impl Run {
    /// The name of the newest checkpoint.
    fn newest(&self) -> Option<String> {
        let entries = fs::read_dir(self.0.join("checkpoints")).ok()?;
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("step-")).max()
    }

    /// The output of a run: its metrics and its newest checkpoint.
    fn left(&self) -> [Vec<u8>; 3] {
        let checkpoint = self.0.join("checkpoints").join(self.newest().unwrap());
        let files = ["variables.safetensors", "manifest.json"].map(|name| checkpoint.join(name));
        let [tensors, manifest] = files;
        [self.0.join("metrics"), tensors, manifest].map(|path| fs::read(path).unwrap())
    }

    /// How many ranks did not end well, according to the files that they left.
    fn last_steps(&self) -> usize {
        fs::read_dir(self.0.join("last")).map_or(0, Iterator::count)
    }
}

/// A running job.
struct Job {
    mark: String,
    launcher: Child,
    text: [JoinHandle<String>; 2],
}

impl Job {
    fn start(programs: &Programs, run: &Run, deadline: Duration, options: &[&str]) -> Self {
        let mark = format!("{}-{:?}", run.0.display(), Instant::now());
        let mut launcher = Command::new("mpirun")
            .args(&programs.options)
            .args(options)
            .args(["-n", "4"])
            .arg(&programs.ranks)
            .arg("train")
            .arg(&run.0)
            .arg(deadline.as_secs().to_string())
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let text =
            [reader(launcher.stdout.take().unwrap()), reader(launcher.stderr.take().unwrap())];
        Self { mark, launcher, text }
    }

    /// The job's running processes: their numbers and their ranks.
    fn processes(&self) -> Vec<(u32, Option<usize>)> {
        let mark = format!("{MARK}={}", self.mark);
        let found = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let variables = fs::read(entry.path().join("environ")).ok()?;
            let variables = String::from_utf8_lossy(&variables).into_owned();
            let value = |name: &str| {
                let mut variables = variables.split('\0');
                variables.find_map(|v| v.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            };
            let rank = value("OMPI_COMM_WORLD_RANK").or_else(|| value("PMI_RANK"));
            variables.split('\0').any(|v| v == mark).then_some((pid, rank))
        });
        found.collect()
    }

    /// Waits until `done` holds or the job has ended.
    fn wait_until(&mut self, done: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while self.launcher.try_wait().unwrap().is_none() && !done(self) {
            assert!(began.elapsed() < PATIENCE, "nothing happens");
            sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the job. Returns whether it succeeded, and its output. Fails if a
    /// process of the job is left.
    fn end(mut self) -> (bool, String) {
        self.wait_until(|_| false);
        let well = self.launcher.wait().unwrap().success();
        let began = Instant::now();
        while !self.processes().is_empty() && began.elapsed() < Duration::from_secs(2) {
            sleep(Duration::from_millis(20));
        }
        let left = self.processes();
        left.iter().for_each(|(pid, _)| signal(*pid, "KILL"));
        let text = self.text.map(|reader| reader.join().unwrap()).concat();
        assert!(left.is_empty(), "left over: {left:?}\n{text}");
        (well, text)
    }
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.is_ok());
}

/// How a rank is removed, and whether the launcher lets the other ranks live.
const FAULTS: [(&str, bool); 4] =
    [("STOP", false), ("KILL", false), ("KILL", true), ("STOP", true)];

/// Whether a message names a rank, what the rank did, and how far it had come.
fn tells(text: &str) -> bool {
    let mut errors = text.lines().filter_map(|line| line.split_once("error: rank "));
    errors.any(|(_, told)| {
        let in_step = told.contains(", in call ") && told.contains(" failed in step ");
        let between = told.contains(", after call ");
        let saving = told.contains(": saving at step ");
        (in_step || between || saving) && told.matches("rank ").count() >= 1
    })
}

/// Starts the job and removes a rank: mostly once the job has made progress, sometimes at any
/// moment from the start on. `Break` if the job ended before.
fn round(programs: &Programs, run: &Run, number: usize, random: &mut Random) -> ControlFlow<()> {
    let (name, lives) = FAULTS[number % FAULTS.len()];
    let (before, reported) = (run.newest(), run.last_steps() > 0);
    // Open MPI's option for not ending the job when a rank has failed.
    let options: &[&str] = if lives { &["--enable-recovery"] } else { &[] };
    let mut job = Job::start(programs, run, DEADLINE, options);
    let ranks =
        |job: &Job| job.processes().into_iter().filter_map(|(pid, rank)| Some((rank?, pid)));
    job.wait_until(|job| ranks(job).count() == 4);
    let from_the_start = number % 5 == 4;
    if !from_the_start {
        job.wait_until(|_| run.newest() > before);
    }
    let victim = random.below(4) as usize;
    sleep(Duration::from_micros(random.below(if from_the_start { 900_000 } else { 300_000 })));
    let found = ranks(&job).find(|(rank, _)| *rank == victim);
    let Some((_, pid)) = found.filter(|_| job.launcher.try_wait().unwrap().is_none()) else {
        let (well, text) = job.end();
        assert!(well, "round {number}: it ended before it was to:\n{text}");
        return ControlFlow::Break(());
    };
    signal(pid, name);
    let (began, came) = (Instant::now(), run.newest());
    job.wait_until(|job| ranks(job).all(|(rank, _)| rank == victim));
    let took = began.elapsed();
    // If a rank is stopped while it exits, only the launcher waits for it, without an end.
    sleep(Duration::from_millis(500));
    ranks(&job).filter(|(rank, _)| *rank == victim).for_each(|(_, pid)| signal(pid, "KILL"));
    let (well, text) = job.end();
    let what = format!("round {number}: {name} of rank {victim} after {came:?}, {took:?}:\n{text}");
    println!("{}", what.lines().next().unwrap_or_default());
    assert!(took < DEADLINE + MORE, "{what}");
    if run.newest().as_deref() == Some(LAST) {
        // The job had done its work and was exiting.
        return ControlFlow::Break(());
    }
    assert!(!well || lives, "{what}");
    if !from_the_start {
        assert!(!reported || text.contains("an earlier run did not end well"), "{what}");
        assert_eq!(run.last_steps(), 4, "{what}");
        let launcher = name == "KILL" && !lives && text.contains("signal 9");
        assert!(launcher || tells(&text), "{what}");
    }
    ControlFlow::Continue(())
}

/// Lets the job finish.
fn finish(programs: &Programs, run: &Run) {
    let (well, text) = Job::start(programs, run, PATIENCE, &[]).end();
    assert!(well, "{text}");
    assert_eq!(run.last_steps(), 0);
}

fn fresh(name: &str) -> Run {
    let folder = scratch(name);
    fs::create_dir_all(&folder).unwrap();
    Run(folder)
}

#[test]
fn a_job_that_loses_a_rank_ends_and_goes_on_to_the_same_end() {
    let Some(programs) = programs() else { return };
    if !programs.options.contains(&"--oversubscribe") {
        tests::skip("mpi", "this mpirun is not Open MPI's");
        return;
    }
    let _turn = super::turn();
    let rounds = std::env::var("MESH_KILLED_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let whole = fresh("whole");
    finish(programs, &whole);
    assert_eq!(whole.newest().as_deref(), Some(LAST));
    let (mut run, mut random) = (fresh("killed-0"), Random(7));
    let (mut number, mut ended) = (0, 0);
    let compare = |run: &Run| {
        finish(programs, run);
        assert!(run.left() == whole.left(), "it came to another end");
        fs::remove_dir_all(&run.0).unwrap();
    };
    while number < rounds {
        match round(programs, &run, number, &mut random) {
            ControlFlow::Continue(()) => number += 1,
            ControlFlow::Break(()) => {
                compare(&run);
                ended += 1;
                assert!(ended <= rounds, "it is too fast to be killed");
                run = fresh(&format!("killed-{ended}"));
            }
        }
    }
    compare(&run);
    fs::remove_dir_all(Path::new(&whole.0)).unwrap();
    println!("{rounds} times a rank was killed or stopped, in {} runs", ended + 1);
}

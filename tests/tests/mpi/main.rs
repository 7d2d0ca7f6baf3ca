//! MPI ranks compute the bits of threads, and end when one of them does.
//!
//! Builds `tests/ranks/` and the unit tests of `mesh_core` with the feature `mpi`, and starts both
//! with `mpirun`. Where there is none, the tests are skipped; where they were built with the feature, and
//! where ranks are expected ([`tests::skip`]), what is in the way is a failure.

mod hosts;
mod killed;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time of a job on a busy machine. A job that hangs takes longer.
const LONGEST: Duration = Duration::from_secs(300);

/// The longest time until a job has ended that waits for others for 2 s: the deadline, 5 s more,
/// and the start on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(2 + 5 + 20);

struct Programs {
    ranks: PathBuf,
    unit_tests: PathBuf,
    options: Vec<&'static str>,
}

/// Two jobs run at a time: ranks share the cores, but wait for much of the time.
static TURNS: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];

fn turn() -> MutexGuard<'static, ()> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let turn = NEXT.fetch_add(1, Ordering::Relaxed) % TURNS.len();
    TURNS[turn].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn programs() -> Option<&'static Programs> {
    static PROGRAMS: OnceLock<Result<Programs, String>> = OnceLock::new();
    match PROGRAMS.get_or_init(find) {
        Ok(programs) => Some(programs),
        Err(reason) => {
            if cfg!(feature = "mpi") {
                panic!("{reason}");
            }
            tests::skip("mpi", reason);
            None
        }
    }
}

fn find() -> Result<Programs, String> {
    let version = Command::new("mpirun").arg("--version").output();
    let version = version.map_err(|error| format!("mpirun cannot be started: {error}"))?;
    let open = String::from_utf8_lossy(&version.stdout).contains("Open MPI");
    let options = if open { vec!["--oversubscribe", "--allow-run-as-root"] } else { Vec::new() };
    // If this test was built with the feature, the programs are built already.
    let [unit_tests, ranks]: [&[_]; 2] = match cfg!(feature = "mpi") {
        true => [&["--workspace"]; 2],
        false => [&["-p", "mesh_core", "--lib"], &["-p", "tests", "--test", "ranks"]],
    };
    let unit_tests = build(unit_tests, "mesh_core", "mesh_core")?;
    let ranks = build(ranks, "tests", "ranks")?;
    Ok(Programs { ranks, unit_tests, options })
}

/// Builds the test of this name and returns its path.
fn build(what: &[&str], folder: &str, name: &str) -> Result<PathBuf, String> {
    let profile: &[_] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
    // The features of this test, so that nothing is built a second time.
    let features = if cfg!(feature = "xla") { "mpi,xla" } else { "mpi" };
    let built = Command::new(env!("CARGO"))
        .args(["test", "--features", features, "--no-run", "--message-format", "json"])
        .args(what)
        .args(profile)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    let messages = String::from_utf8_lossy(&built.stdout);
    let executable = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let named = message["target"]["name"] == name && message["profile"]["test"] == true;
        let named = named && manifest.ends_with(Path::new(folder).join("Cargo.toml"));
        named.then(|| Some(message["executable"].as_str()?.into()))?
    });
    executable.filter(|_| built.status.success()).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&built.stderr);
        let last: Vec<_> = errors.lines().rev().take(20).collect();
        let last: Vec<_> = last.into_iter().rev().collect();
        format!("the feature `mpi` does not build here:\n{}", last.join("\n"))
    })
}

/// The end of a job: whether it succeeded, its output, and how long it took.
struct Ended {
    well: bool,
    code: Option<i32>,
    text: String,
    took: Duration,
}

/// Runs a job alone until it ends.
fn ended(job: &mut Command) -> Ended {
    let _turn = turn();
    let began = Instant::now();
    let job = job.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The process group makes it possible to end everything that the job started.
    #[cfg(unix)]
    let job = std::os::unix::process::CommandExt::process_group(job, 0);
    let mut job = job.spawn().unwrap();
    let (stdout, stderr) = (job.stdout.take().unwrap(), job.stderr.take().unwrap());
    let (stdout, stderr) = (reader(stdout), reader(stderr));
    let code = wait(&mut job, began);
    let text = stdout.join().unwrap() + &stderr.join().unwrap();
    Ended { well: code == Some(0), code, text, took: began.elapsed() }
}

impl Programs {
    fn job(&self, ranks: usize, program: &Path) -> Command {
        let mut job = Command::new("mpirun");
        job.args(&self.options).args(["-n", &ranks.to_string()]).arg(program);
        job
    }

    fn run(&self, ranks: usize, program: &Path, arguments: &[&str]) -> Ended {
        ended(self.job(ranks, program).args(arguments))
    }

    fn ranks(&self, ranks: usize, arguments: &[&str]) -> Ended {
        self.run(ranks, &self.ranks, arguments)
    }
}

fn reader(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(job: &mut Child, began: Instant) -> Option<i32> {
    loop {
        if let Some(status) = job.try_wait().unwrap() {
            return status.code();
        }
        if began.elapsed() > LONGEST {
            let group = format!("-{}", job.id());
            for signal in ["-TERM", "-KILL"] {
                let _ = Command::new("kill").args([signal, "--", &group]).status();
                thread::sleep(Duration::from_secs(1));
            }
            let _ = job.kill();
            job.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mesh-mpi-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

#[test]
fn collectives_on_ranks() {
    let Some(programs) = programs() else { return };
    for ranks in [2, 4] {
        let arguments = ["exec::mpi", "--test-threads", "1", "--color", "never"];
        let Ended { well, text, .. } = programs.run(ranks, &programs.unit_tests, &arguments);
        assert!(well, "{ranks} ranks:\n{text}");
        // Ranks write at once, so that their lines may be mixed; each that fails ends the job with a failure.
        assert!(text.contains("test exec::mpi::") && !text.contains("FAILED"), "{text}");
    }
}

#[test]
fn ranks_train_to_the_bits_of_threads() {
    let Some(programs) = programs() else { return };
    for ranks in [1, 2, 4] {
        let Ended { well, text, .. } = programs.ranks(ranks, &["same"]);
        assert!(well, "{ranks} ranks:\n{text}");
        assert_eq!(text.matches("modules are the same").count(), ranks, "{text}");
    }
}

#[test]
fn ranks_are_fed_and_read_what_they_need() {
    let Some(programs) = programs() else { return };
    for ranks in [1, 2, 4] {
        let Ended { well, text, .. } = programs.ranks(ranks, &["feeds"]);
        assert!(well, "{ranks} ranks:\n{text}");
        assert_eq!(text.matches("ranks are fed what they need").count(), ranks, "{text}");
    }
}

#[test]
fn collectives_beside_computation_change_nothing() {
    let Some(programs) = programs() else { return };
    for ranks in [2, 4] {
        let Ended { well, text, .. } = programs.ranks(ranks, &["overlap"]);
        assert!(well, "{ranks} ranks:\n{text}");
        assert_eq!(text.matches("couriers change nothing").count(), ranks, "{text}");
    }
}

#[test]
fn processors_of_ranks_allocate_nothing_while_they_run() {
    let Some(programs) = programs() else { return };
    let forms = "all_gather, all_reduce, all_to_all, broadcast, permute, reduce_scatter, reduce_to";
    for ranks in [2, 4] {
        let Ended { well, text, .. } = programs.ranks(ranks, &["allocations"]);
        assert!(well, "{ranks} ranks:\n{text}");
        let said = format!("nothing was allocated by {forms}");
        assert_eq!(text.matches(&said).count(), ranks, "{text}");
    }
}

#[test]
fn training_goes_on_with_another_number_of_ranks() {
    let Some(programs) = programs() else { return };
    let folder = scratch("resume");
    let path = folder.to_str().unwrap();
    for (ranks, what) in [
        (4, "save"),
        (2, "resume"),
        (2, "resume-shared"),
        (4, "resume"),
        (1, "resume"),
        (2, "save"),
        (4, "resume"),
        (1, "save"),
        (4, "resume"),
    ] {
        let Ended { well, text, .. } = programs.ranks(ranks, &[what, path]);
        assert!(well, "{what} on {ranks} ranks:\n{text}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_ranks_disagree_about_is_named_before_the_first_step() {
    let Some(programs) = programs() else { return };
    for (ranks, fault, expected) in [
        (4, "seed", "rank 1 is not about to do what rank 0 does"),
        (4, "seed", "seed 8"),
        (2, "program", "rank 1 is not about to do what rank 0 does, in program train"),
        (4, "size", "mesh a:1;b:2 has 2 processors, but 4 ranks were started"),
        (3, "size", "start as many as divide 2, or change the mesh"),
        (2, "launcher", "4 ranks were started, but MPI knows of 2"),
        (4, "seed-shared", "rank 1 is not about to do what rank 0 does"),
    ] {
        let Ended { well, text, .. } = programs.ranks(ranks, &[fault]);
        assert!(well && text.contains(expected), "{fault} on {ranks} ranks:\n{text}");
    }
}

#[test]
fn a_rank_that_fails_ends_the_job() {
    let Some(programs) = programs() else { return };
    for (fault, messages) in [
        ("stop", &["in call 3 (`train`): processor ", "rank 1 did not get here within 2 s"][..]),
        ("stop-shared", &["in call 3 (`train`): processor ", "rank 1 did not get here within 2 s"]),
        ("leave", &["in call 3 (`train`): processor ", "rank 1 did not get here within 2 s"]),
        ("nan", &["error: rank 1, in call 3 (`train`): NaN in `train`"]),
        ("nan-shared", &["error: rank 1, in call 3 (`train`): NaN in `train`"]),
        (
            "kernel-shared",
            &["rank 1, in call 2 (`sum`): processor 3 failed in step ", "not below 0"],
        ),
        ("exit", &[]),
        ("kill", &[]),
        ("panic", &["rank 1 was told to"]),
    ] {
        let Ended { well, text, took, .. } = programs.ranks(4, &[fault]);
        assert!(!well && !text.contains("nothing went wrong"), "{fault}:\n{text}");
        assert!(took < ENDS_WITHIN, "{fault} took {took:?}:\n{text}");
        let missing = messages.iter().find(|message| !text.contains(**message));
        assert_eq!(missing, None, "{fault}:\n{text}");
        assert!(text.matches("error: rank").count() <= 1, "{fault}:\n{text}");
    }
}

#[test]
fn the_next_run_tells_what_a_killed_one_did_last() {
    let Some(programs) = programs() else { return };
    let folder = scratch("last");
    let path = folder.to_str().unwrap();
    let killed = programs.ranks(2, &["kill", path]);
    assert!(!killed.well, "{}", killed.text);
    let next = programs.ranks(2, &["fine", path]);
    assert!(next.well && next.text.contains("an earlier run did not end well"), "{}", next.text);
    assert!(next.text.contains("rank 1: after call 2, of `train`"), "{}", next.text);
    let third = programs.ranks(2, &["fine", path]);
    assert!(third.well && !third.text.contains("earlier run"), "{}", third.text);
    fs::remove_dir_all(folder).unwrap();
}

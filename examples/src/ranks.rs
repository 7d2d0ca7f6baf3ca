//! Finds out whether a launcher has started several copies of this process.

use crate::launch::LaunchError;
use mesh_core::lower::{Module, Target};
use mesh_core::names::{Mesh, NameError, ProcessMap};
#[cfg(feature = "mpi")]
use mesh_core::session::Ranks;
use mesh_core::session::{Session, Threads};
use mesh_optimize::Strategy;
use mesh_optimize::cluster::Cluster;
use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The launchers: name, the variable with the number of processes, the variable with this process's
/// number.
const LAUNCHERS: [(&str, &str, &str); 3] = [
    ("mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("mpiexec", "PMI_SIZE", "PMI_RANK"),
    ("srun", "SLURM_NTASKS", "SLURM_PROCID"),
];

/// Set only within `srun`. A batch script has the other variables, too, and is a single process.
const SLURM_STEP: &str = "SLURM_STEP_NODELIST";

/// How much longer than the rank before it (up to the tenth) a rank waits before it reports an
/// error: all ranks may have the same error, and the first to report it ends the job. `mesh_core`
/// waits as long.
const HOLD_BACK: Duration = Duration::from_millis(400);

/// This process is one of several that a launcher has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launched {
    /// The launcher's name.
    pub launcher: &'static str,
    /// The index of this process.
    pub rank: usize,
    /// The number of processes, at least 2.
    pub ranks: usize,
}

/// The launcher and index of this process, read from the environment; `None` for a single process.
pub fn launched() -> Option<Launched> {
    launched_by(&|name| env::var(name).ok())
}

fn launched_by(variable: &dyn Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name| variable(name)?.trim().parse::<usize>().ok();
    let found = LAUNCHERS.into_iter().find_map(|(launcher, ranks, rank)| {
        let (ranks, rank) = (number(ranks)?, number(rank)?);
        let here = launcher != "srun" || variable(SLURM_STEP).is_some();
        here.then_some(Launched { launcher, rank, ranks })
    });
    found.filter(|found| found.ranks > 1)
}

/// Whether this process prints and writes files: it is the only one or the first.
pub fn speaks() -> bool {
    launched().is_none_or(|launched| launched.rank == 0)
}

/// Waits so that an earlier rank can report an error first.
pub fn hold_back() {
    let rank = launched().map_or(0, |launched| launched.rank);
    thread::sleep(HOLD_BACK * rank.min(10) as u32);
}

/// The flags for ranks.
#[derive(clap::Args, Clone, Debug)]
pub struct RankFlags {
    /// Seconds that a rank of MPI waits for the others before it ends the job.
    #[arg(long, value_name = "SECONDS", default_value_t = DEADLINE,
        value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    deadline: u64,

    /// A folder where each rank of MPI keeps what it did last; the next run tells what one that was
    /// killed left there.
    #[arg(long, value_name = "DIR")]
    last_step: Option<PathBuf>,

    /// Whether each processor, thread or of a rank, has a second thread that carries out collectives
    /// beside computation; auto: where there is a core for each. Results are the same.
    #[arg(long, value_enum, default_value_t)]
    couriers: Couriers,
}

/// Whether processors have couriers.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Couriers {
    On,
    Off,
    #[default]
    Auto,
}

impl Couriers {
    /// Nothing where it is left to the session.
    fn chosen(self) -> Option<bool> {
        match self {
            Self::On => Some(true),
            Self::Off => Some(false),
            Self::Auto => None,
        }
    }
}

/// Seconds that ranks wait for each other.
const DEADLINE: u64 = 300;

/// Longer than any run: ten years.
const LONGEST: u64 = 10 * 365 * 24 * 3600;

impl Default for RankFlags {
    fn default() -> Self {
        Self { deadline: DEADLINE, last_step: None, couriers: Couriers::Auto }
    }
}

impl RankFlags {
    /// A session of a module, compiled for a target, on the ranks that were started or on threads.
    pub fn session(
        &self,
        module: &Module,
        seed: u64,
        target: Target,
    ) -> Result<Session, Box<dyn Error>> {
        match launched() {
            None => {
                let mut threads = Threads::default().target(target);
                threads.couriers = self.couriers.chosen();
                Ok(Session::threads_with(module, seed, &threads)?)
            }
            Some(launched) => self.on_ranks(module, seed, target, launched),
        }
    }

    #[cfg(feature = "mpi")]
    fn on_ranks(
        &self,
        module: &Module,
        seed: u64,
        target: Target,
        on: Launched,
    ) -> Result<Session, Box<dyn Error>> {
        let deadline = Duration::from_secs(self.deadline);
        let mut ranks = Ranks::default().deadline(deadline).started(on.ranks).target(target);
        ranks.couriers = self.couriers.chosen();
        let ranks = match &self.last_step {
            Some(folder) => ranks.last_step(folder),
            None => ranks,
        };
        Ok(Session::mpi_with(module, seed, &ranks)?)
    }

    #[cfg(not(feature = "mpi"))]
    fn on_ranks(
        &self,
        _: &Module,
        _: u64,
        _: Target,
        launched: Launched,
    ) -> Result<Session, Box<dyn Error>> {
        let Launched { launcher, rank, ranks } = launched;
        Err(format!(
            "{launcher} started this as rank {rank} of {ranks}, but it was built without MPI: build it \
             with `--features mpi` (docs/clusters.md), or start one process without {launcher}"
        )
        .into())
    }
}

/// Which rank runs which processors of a mesh, as text for people; empty for a single process.
pub fn whereabouts(mesh: &Mesh) -> Result<String, NameError> {
    match launched() {
        None => Ok(String::new()),
        Some(launched) => Ok(format!("{}\n", ProcessMap::new(mesh, launched.ranks)?)),
    }
}

/// Checks `TF_CONFIG`, if it is set, against a strategy of several hosts and the ranks that were
/// started: it must have as many workers as the strategy has hosts, and each host must have the
/// ranks that run its processors.
pub fn check_cluster(strategy: &Strategy) -> Result<(), LaunchError> {
    match (strategy, env::var("TF_CONFIG")) {
        (Strategy::MultiWorkerMirrored { hosts, local }, Ok(text)) => {
            match_cluster(&text, *hosts, *local, launched())
        }
        _ => Ok(()),
    }
}

fn match_cluster(
    text: &str,
    hosts: usize,
    local: usize,
    launched: Option<Launched>,
) -> Result<(), LaunchError> {
    let refuse = |message: String| Err(LaunchError::Cluster(message));
    let cluster: Cluster =
        text.parse().map_err(|error| LaunchError::Cluster(format!("{error}")))?;
    let workers = cluster.hosts().len();
    if workers != hosts {
        return refuse(format!(
            "TF_CONFIG lists {workers} hosts that compute, but the strategy has {hosts}"
        ));
    }
    let Some(Launched { rank, ranks, launcher }) = launched else { return Ok(()) };
    let (task, index) = cluster.task();
    let processors = hosts * local;
    if !processors.is_multiple_of(ranks) || !ranks.is_multiple_of(hosts) {
        return refuse(format!(
            "{launcher} started {ranks} ranks, which cannot share the {local} processors of each of \
             {hosts} hosts evenly: start as many on each host"
        ));
    }
    let (each, started) = (ranks / hosts, format!("{launcher} started it as rank {rank}"));
    match cluster.rank() {
        None => refuse(format!(
            "TF_CONFIG says that this process is {task} {index}, but {started}, which computes: start \
             the chief and the workers only"
        )),
        Some(host) if rank / each != host => refuse(format!(
            "TF_CONFIG says that this process is {task} {index}, host {host} of {hosts}, but {started} \
             of {ranks}, and with {each} ranks to a host that is host {}: give ranks the order of the \
             list",
            rank / each
        )),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(variables: &[(&str, &str)]) -> Option<(&'static str, usize, usize)> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        launched_by(&find).map(|Launched { launcher, rank, ranks }| (launcher, rank, ranks))
    }

    #[test]
    fn launchers_are_told_by_what_they_set() {
        let open = [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3")];
        assert_eq!(by(&open), Some(("mpirun", 3, 4)));
        assert_eq!(by(&[("PMI_SIZE", "2"), ("PMI_RANK", "0")]), Some(("mpiexec", 0, 2)));
        let slurm = [("SLURM_NTASKS", "8"), ("SLURM_PROCID", "7"), (SLURM_STEP, "n[1-2]")];
        assert_eq!(by(&slurm), Some(("srun", 7, 8)));
        assert_eq!(by(&slurm[..2]), None, "a batch script");
        assert_eq!(by(&[("PMI_SIZE", "1"), ("PMI_RANK", "0")]), None, "alone");
        assert_eq!(by(&[("PMI_SIZE", "two"), ("PMI_RANK", "0")]), None);
        assert_eq!(by(&[]), None);
    }

    #[test]
    fn workers_are_matched_with_ranks() {
        let text = |kind: &str, index: usize| {
            format!(
                r#"{{"cluster": {{"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}},
                    "task": {{"type": "{kind}", "index": {index}}}}}"#
            )
        };
        let of = |rank, ranks| Some(Launched { launcher: "mpirun", rank, ranks });
        let rank = |rank| of(rank, 4);
        for (task, hosts, launched, expected) in [
            (("chief", 0), 2, rank(0), None),
            (("chief", 0), 2, rank(1), None),
            (("worker", 0), 2, rank(2), None),
            (("worker", 0), 2, None, None),
            (
                ("worker", 0),
                2,
                rank(1),
                Some("worker 0, host 1 of 2, but mpirun started it as rank 1"),
            ),
            // One rank per host with a thread per processor.
            (("chief", 0), 2, of(0, 2), None),
            (("worker", 0), 2, of(1, 2), None),
            (
                ("chief", 0),
                2,
                of(1, 2),
                Some("chief 0, host 0 of 2, but mpirun started it as rank 1"),
            ),
            (
                ("chief", 0),
                2,
                of(0, 3),
                Some("3 ranks, which cannot share the 2 processors of each"),
            ),
            (
                ("chief", 0),
                2,
                of(0, 8),
                Some("8 ranks, which cannot share the 2 processors of each"),
            ),
            (("chief", 0), 3, rank(0), Some("lists 2 hosts that compute, but the strategy has 3")),
            (("ps", 0), 2, rank(0), Some("is ps 0, but mpirun started it as rank 0")),
        ] {
            let found = match_cluster(&text(task.0, task.1), hosts, 2, launched);
            match (found, expected) {
                (Ok(()), None) => {}
                (Err(error), Some(words)) => assert!(error.to_string().contains(words), "{error}"),
                (found, _) => panic!("{task:?} {launched:?}: {found:?}"),
            }
        }
        let error = match_cluster("{", 2, 2, None).unwrap_err();
        assert!(error.to_string().starts_with("TF_CONFIG"), "{error}");
    }
}

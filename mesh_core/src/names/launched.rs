//! Whether a launcher has started several of this process.

use std::env;

/// What launchers say: who, and where they put the number of processes and which this is.
const LAUNCHERS: [(&str, &str, &str); 3] = [
    ("mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("mpiexec", "PMI_SIZE", "PMI_RANK"),
    ("srun", "SLURM_NTASKS", "SLURM_PROCID"),
];

/// Set within `srun` only: a batch script has the other variables as well, and is alone.
const SLURM_STEP: &str = "SLURM_STEP_NODELIST";

/// One of several processes that a launcher has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launched {
    /// By what.
    pub launcher: &'static str,
    /// Which one this is.
    pub rank: usize,
    /// How many there are, 2 or more.
    pub ranks: usize,
}

/// What the environment says of a launcher; `None` for a process that is alone.
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
}

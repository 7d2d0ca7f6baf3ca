//! Which process runs which processors of a mesh.

use std::fmt;

use super::error::NameError;
use super::mesh::{Axis, Mesh};

/// Assigns the processors of a mesh to processes (ranks). Each process runs equally many, each on a
/// thread of its own: process `r` runs the `r`-th share of the [physical](Mesh::physical) numbers.
/// So, unless the mesh has an [order](Mesh::with_order), its last axes lie within a process and its
/// first axes across processes.
///
/// ```
/// use mesh_core::names::{Mesh, ProcessMap};
///
/// let mesh: Mesh = "host:2;local:4".parse()?;
/// let map = ProcessMap::new(&mesh, 2)?;
/// assert_eq!(map.of(1), [4, 5, 6, 7]);
/// assert_eq!(
///     map.to_string(),
///     "mesh host:2;local:4 on 2 ranks of 4 threads\n  \
///      rank 0: host 0, local 0-3\n  \
///      rank 1: host 1, local 0-3\n  \
///      between ranks: host; within a rank: local"
/// );
/// # Ok::<(), mesh_core::names::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessMap {
    mesh: Mesh,
    /// The logical processor of each physical number.
    physical: Vec<usize>,
    each: usize,
}

/// Whether the processors along an axis are threads of one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reach {
    Between,
    Within,
    Both,
}

impl ProcessMap {
    /// Assigns the processors of a mesh to `processes` processes.
    ///
    /// # Errors
    ///
    /// If `processes` does not divide the number of processors.
    pub fn new(mesh: &Mesh, processes: usize) -> Result<Self, NameError> {
        let processors = mesh.processors();
        if processes == 0 || !processors.is_multiple_of(processes) {
            let mesh = mesh.to_string();
            return Err(NameError::Processes { mesh, processors, processes });
        }
        let mut physical = vec![0; processors];
        (0..processors).for_each(|processor| physical[mesh.physical(processor)] = processor);
        Ok(Self { mesh: mesh.clone(), physical, each: processors / processes })
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The number of processes.
    pub fn processes(&self) -> usize {
        self.physical.len() / self.each
    }

    /// The number of processors of each process.
    pub fn each(&self) -> usize {
        self.each
    }

    /// The processors of a process, in the order of their physical numbers.
    pub fn of(&self, process: usize) -> &[usize] {
        &self.physical[process * self.each..][..self.each]
    }

    /// The process of a processor, and the processor's index within it.
    pub fn place(&self, processor: usize) -> (usize, usize) {
        let physical = self.mesh.physical(processor);
        (physical / self.each, physical % self.each)
    }

    fn reach(&self, axis: Axis) -> Reach {
        let mut reaches = self.mesh.groups(&[axis]).into_iter().map(|members| {
            let mut processes: Vec<_> =
                members.iter().map(|&member| self.place(member).0).collect();
            processes.sort_unstable();
            processes.dedup();
            match processes.len() {
                1 => Reach::Within,
                n if n == members.len() => Reach::Between,
                _ => Reach::Both,
            }
        });
        let first = reaches.next().unwrap_or(Reach::Within);
        if reaches.all(|reach| reach == first) { first } else { Reach::Both }
    }

    /// The coordinates of a process's processors, as in `host 0, local 0-3`. If they form no box,
    /// they are listed one by one.
    fn stand(&self, process: usize) -> String {
        let processors = self.of(process);
        let along = |axis| {
            let mut all: Vec<_> =
                processors.iter().map(|&processor| self.mesh.coordinate(processor, axis)).collect();
            all.sort_unstable();
            all.dedup();
            (axis, all)
        };
        let axes: Vec<_> = self.mesh.axes().map(along).collect();
        if axes.iter().map(|(_, all)| all.len()).product::<usize>() == processors.len() {
            let axis = |(axis, all): &(Axis, Vec<usize>)| {
                format!("{} {}", self.mesh.name(*axis), ranges(all))
            };
            let text = axes.iter().map(axis).collect::<Vec<_>>().join(", ");
            return if text.is_empty() { "the one processor".to_owned() } else { text };
        }
        let one = |&processor: &usize| {
            let coordinates = self.mesh.coordinates(processor);
            let coordinates: Vec<_> = coordinates.iter().map(usize::to_string).collect();
            format!("({})", coordinates.join(","))
        };
        let names: Vec<_> = self.mesh.axes().map(|axis| self.mesh.name(axis)).collect();
        let all: Vec<_> = processors.iter().map(one).collect();
        format!("({}) at {}", names.join(","), all.join(" "))
    }
}

/// Ascending numbers as text: `0-3` or `0, 2, 5-6`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for ProcessMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |n: usize, what: &str| match n {
            1 => format!("1 {what}"),
            n => format!("{n} {what}s"),
        };
        let mesh = if self.mesh.axes().next().is_none() { "of one processor" } else { "" };
        let (ranks, threads) = (counted(self.processes(), "rank"), counted(self.each, "thread"));
        write!(f, "mesh {}{mesh} on {ranks} of {threads}", self.mesh)?;
        for process in 0..self.processes() {
            write!(f, "\n  rank {process}: {}", self.stand(process))?;
        }
        let mut parts = Vec::new();
        for (reach, words) in [
            (Reach::Between, "between ranks"),
            (Reach::Within, "within a rank"),
            (Reach::Both, "between and within ranks"),
        ] {
            let axes = self.mesh.axes().filter(|&axis| self.mesh.size(axis) > 1);
            let axes: Vec<_> = axes.filter(|&axis| self.reach(axis) == reach).collect();
            if !axes.is_empty() {
                let names: Vec<_> = axes.iter().map(|&axis| self.mesh.name(axis)).collect();
                parts.push(format!("{words}: {}", names.join(", ")));
            }
        }
        if parts.is_empty() { Ok(()) } else { write!(f, "\n  {}", parts.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(mesh: &str, order: &[usize], processes: usize) -> ProcessMap {
        let mesh: Mesh = mesh.parse().unwrap();
        let order =
            if order.is_empty() { (0..mesh.processors()).collect() } else { order.to_vec() };
        ProcessMap::new(&mesh.with_order(order).unwrap(), processes).unwrap()
    }

    #[test]
    fn it_is_printed() {
        let shown = |mesh, order: &[usize], processes| map(mesh, order, processes).to_string();
        assert_eq!(
            shown("a:2;b:2", &[0, 2, 1, 3], 2),
            "mesh a:2;b:2 on 2 ranks of 2 threads\n  rank 0: a 0-1, b 0\n  rank 1: a 0-1, b 1\n  \
             between ranks: b; within a rank: a"
        );
        assert_eq!(
            shown("a:2;b:2", &[0, 2, 3, 1], 2),
            "mesh a:2;b:2 on 2 ranks of 2 threads\n  rank 0: (a,b) at (0,0) (1,1)\n  \
             rank 1: (a,b) at (0,1) (1,0)\n  between ranks: a, b"
        );
        assert_eq!(
            shown("a:4;b:1", &[], 2),
            "mesh a:4;b:1 on 2 ranks of 2 threads\n  rank 0: a 0-1, b 0\n  rank 1: a 2-3, b 0\n  \
             between and within ranks: a"
        );
        assert_eq!(
            shown("a:4", &[0, 2, 1, 3], 2),
            "mesh a:4 on 2 ranks of 2 threads\n  rank 0: a 0, 2\n  rank 1: a 1, 3\n  \
             between and within ranks: a"
        );
        assert_eq!(shown("a:1", &[], 1), "mesh a:1 on 1 rank of 1 thread\n  rank 0: a 0");
        assert_eq!(
            ProcessMap::new(&Mesh::single(), 1).unwrap().to_string(),
            "mesh of one processor on 1 rank of 1 thread\n  rank 0: the one processor"
        );
    }

    #[test]
    fn processes_divide_the_processors() {
        let mesh: Mesh = "a:4;b:2".parse().unwrap();
        for processes in [0, 3, 16] {
            let error = ProcessMap::new(&mesh, processes).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "mesh a:4;b:2 has 8 processors, but {processes} ranks were started: start as many \
                     as divide 8, or change the mesh"
                )
            );
        }
    }

    proptest! {
        #[test]
        fn every_processor_has_one_place(
            (sizes, order, which) in prop::collection::vec(1..4_usize, 0..4).prop_flat_map(|sizes| {
                let all: Vec<usize> = (0..sizes.iter().product()).collect();
                (Just(sizes), Just(all).prop_shuffle(), 0..8_usize)
            })
        ) {
            let names = ["a", "b", "c"];
            let mesh = Mesh::new(names.into_iter().zip(sizes)).unwrap().with_order(order).unwrap();
            let processors = mesh.processors();
            let divisors: Vec<_> = (1..=processors).filter(|n| processors.is_multiple_of(*n)).collect();
            let processes = divisors[which % divisors.len()];
            let map = ProcessMap::new(&mesh, processes).unwrap();
            prop_assert_eq!(map.processes(), processes);
            for processor in 0..processors {
                let (process, index) = map.place(processor);
                prop_assert_eq!(map.of(process)[index], processor);
                prop_assert_eq!(process * map.each() + index, mesh.physical(processor));
            }
        }
    }
}

//! A machine as data: rates, sizes, and the levels of its network.

use crate::names::{Axis, DType, Mesh};
use serde::{Deserialize, Serialize};

/// What is known of a machine: how fast one processor computes, how much it holds, and how fast
/// processors exchange. Passes use it, and prices of layouts ([`Estimator`](crate::lower::Estimator)).
///
/// ```
/// use mesh_core::{names::DType, passes::Machine};
/// let machine = Machine::host();
/// // A product of two matrices of 1000 x 1000, bound by arithmetic.
/// let seconds = machine.seconds(DType::F32, 2_000_000_000, 12_000_000);
/// assert_eq!(seconds, 2e9 / machine.flops.f32);
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name, for messages.
    pub name: String,
    /// Floating-point operations of a processor in a second: products, at most.
    pub flops: Flops,
    /// Bytes of memory that a processor reads and writes in a second.
    pub memory: f64,
    /// Bytes of memory that a processor has for itself.
    pub capacity: u64,
    /// Seconds that it takes to begin a step.
    #[serde(default)]
    pub begin: f64,
    /// How many processors can compute at once; more of them take turns on as many cores. By default all can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// How processors are joined, the nearest first.
    pub levels: Vec<Level>,
    /// What the passes for cores of a host know besides.
    #[serde(default)]
    pub caches: Caches,
}

/// Floating-point operations in a second, by dtype.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flops {
    /// Of f64.
    pub f64: f64,
    /// Of f32, and of whole numbers.
    pub f32: f64,
    /// Of bf16.
    pub bf16: f64,
}

/// A level of the network: cores of a process, processes of a host, hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The name, for messages.
    pub name: String,
    /// How many consecutive processors are joined by this level and those before it. The last level
    /// joins all, whatever it says.
    pub processors: usize,
    /// Seconds that a message takes besides its bytes.
    pub latency: f64,
    /// Bytes that a processor receives in a second while all receive.
    pub bandwidth: f64,
}

/// Sizes and times that passes for cores of a host choose by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Caches {
    /// Bytes of the cache that a processor has for itself.
    pub own_bytes: usize,
    /// Bytes of a value that has left all caches when it is read again some steps later.
    pub far_bytes: usize,
    /// Bytes received in a nanosecond over a slow network (8 Gbit/s). Where they come faster, a
    /// collective is over before it is awaited, which costs nothing but memory.
    pub network: u64,
    /// Nanoseconds that it takes to have a collective done beside computation, and back.
    pub handover: u64,
    /// Bytes of an all-reduce that costs more to meet for than to move. Among threads, all-reduces of 2
    /// on 2 cores, and of 4 on 2 cores, take 0.8 and 3 µs at 1 KiB, 3 and 7 µs at 16 KiB, 5 and 13 µs at
    /// 64 KiB; half of the time is bytes from about 8 to 16 KiB on.
    pub meeting_bytes: usize,
    /// Bytes of a vector. What is last in a convolution's result is priced by whole vectors: fewer features as
    /// a vector of them.
    pub vector_bytes: usize,
}

impl Default for Caches {
    /// A server's core of today.
    fn default() -> Self {
        Self {
            own_bytes: 1 << 20,
            far_bytes: 4 << 20,
            network: 1,
            handover: 20_000,
            meeting_bytes: 16 << 10,
            vector_bytes: 32,
        }
    }
}

/// A collective, as its time depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Exchange {
    /// Everybody gets the reduction of all.
    AllReduce,
    /// Everybody gets what all have.
    AllGather,
    /// Everybody gets its part of the reduction.
    ReduceScatter,
    /// Everybody gets its part of what each has.
    AllToAll,
    /// From one to all, or from all to one.
    Rooted,
    /// To one other.
    Permute,
}

impl Machine {
    /// A server's core of today: 200 GFLOP/s, 20 GB/s, and threads that exchange through memory.
    pub fn host() -> Self {
        let level = |name: &str, latency, bandwidth| Level {
            name: name.to_owned(),
            processors: usize::MAX,
            latency,
            bandwidth,
        };
        Self {
            name: "host".to_owned(),
            flops: Flops { f64: 1e11, f32: 2e11, bf16: 2e11 },
            memory: 2e10,
            capacity: 4 << 30,
            begin: 0.0,
            cores: None,
            levels: vec![level("cores", 1e-6, 1e10)],
            caches: Caches::default(),
        }
    }

    /// The machine as so many processors find it: where there are more of them than cores, each has its part
    /// of a core's rates and waits for its turn at every step. A level that joins no more than the cores have
    /// is not met then, as who shares a core with whom is left to the system.
    ///
    /// ```
    /// use mesh_core::passes::Machine;
    /// let machine = Machine { cores: Some(2), ..Machine::host() };
    /// assert_eq!(machine.shared_by(2), machine);
    /// assert_eq!(machine.shared_by(4).memory, machine.memory / 2.0);
    /// ```
    pub fn shared_by(&self, processors: usize) -> Self {
        let mut shared = self.clone();
        let Some(cores) = self.cores.filter(|cores| (1..processors).contains(cores)) else {
            return shared;
        };
        let turns = processors as f64 / cores as f64;
        let Flops { f64, f32, bf16 } = &mut shared.flops;
        [f64, f32, bf16, &mut shared.memory].into_iter().for_each(|rate| *rate /= turns);
        shared.begin *= turns;
        let levels = self.levels.iter().filter(|level| level.processors > cores).cloned();
        shared.levels = levels.collect();
        if shared.levels.is_empty() {
            shared.levels.extend(self.levels.last().cloned());
        }
        shared
    }

    /// Floating-point operations in a second on values of a dtype.
    pub fn rate(&self, dtype: DType) -> f64 {
        match dtype {
            DType::F64 => self.flops.f64,
            DType::BF16 => self.flops.bf16,
            DType::F32 | DType::I32 | DType::Bool => self.flops.f32,
        }
    }

    /// Seconds of a step of one processor: of arithmetic or of memory traffic, whichever is longer.
    pub fn seconds(&self, dtype: DType, flops: u64, bytes: u64) -> f64 {
        (flops as f64 / self.rate(dtype)).max(bytes as f64 / self.memory)
    }

    /// The nearest level that joins all processors which differ along `axes` only; `None` if the machine
    /// has no levels.
    pub fn level(&self, mesh: &Mesh, axes: &[Axis]) -> Option<&Level> {
        let firsts = (0..mesh.processors()).filter(|&p| mesh.group_index(p, axes) == 0);
        let spans: Vec<_> = firsts
            .map(|first| (first, mesh.group(first, axes).last().copied().unwrap_or(first)))
            .collect();
        let joins = |level: &&Level| {
            let block = level.processors.max(1);
            spans.iter().all(|(first, last)| first / block == last / block)
        };
        self.levels.iter().find(joins).or(self.levels.last())
    }

    /// Seconds of a collective of `members` on a level, of which each receives `received` bytes in a ring.
    ///
    /// The lesser of a ring, in which each member hands on one part at a time, and of a tree or of
    /// doubling, which takes fewer messages: Thakur, Rabenseifner and Gropp, "Optimization of Collective
    /// Communication Operations in MPICH" (2005), sections 4.1 to 4.5.
    pub fn exchange(level: &Level, what: Exchange, members: usize, received: f64) -> f64 {
        let &Level { latency, bandwidth, .. } = level;
        if members < 2 {
            return 0.0;
        }
        let others = (members - 1) as f64;
        let rounds = (members as f64).log2().ceil();
        let travel = received / bandwidth;
        match what {
            Exchange::AllReduce => {
                let whole = travel * members as f64 / (2.0 * others);
                let ring = 2.0 * others * latency + travel;
                ring.min(2.0 * rounds * latency + travel).min(2.0 * rounds * (latency + whole))
            }
            Exchange::AllGather | Exchange::ReduceScatter => rounds * latency + travel,
            Exchange::AllToAll => {
                let whole = travel * members as f64 / others;
                (others * latency + travel).min(rounds * (latency + whole / 2.0))
            }
            Exchange::Rooted => (rounds * (latency + travel)).min(others * latency + travel),
            Exchange::Permute => latency + travel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Machine {
        let level = |name: &str, processors, latency, bandwidth| Level {
            name: name.to_owned(),
            processors,
            latency,
            bandwidth,
        };
        let levels = vec![level("host", 4, 1e-6, 1e10), level("hosts", 64, 1e-5, 1e9)];
        Machine { levels, ..Machine::host() }
    }

    #[test]
    fn the_slowest_link_of_a_group_counts() {
        let (machine, mesh) = (cluster(), "a:2;b:2;c:4".parse::<Mesh>().unwrap());
        let name = |axes: &[&str]| {
            let axes: Vec<_> = axes.iter().map(|name| mesh.axis(name).unwrap()).collect();
            machine.level(&mesh, &axes).unwrap().name.clone()
        };
        assert_eq!(name(&["c"]), "host");
        assert_eq!(name(&["b"]), "hosts");
        assert_eq!(name(&["a", "c"]), "hosts");
        assert_eq!(name(&[]), "host");
        // Blocks of four that groups of three straddle.
        let odd = "a:4;b:3".parse::<Mesh>().unwrap();
        assert_eq!(machine.level(&odd, &[odd.axis("b").unwrap()]).unwrap().name, "hosts");
    }

    #[test]
    fn long_messages_take_their_bytes_and_short_ones_their_rounds() {
        let level = &cluster().levels[1];
        let time = |what, members, bytes| Machine::exchange(level, what, members, bytes);
        assert!((time(Exchange::AllReduce, 8, 1e9) - 1.0).abs() < 1e-3);
        assert!((time(Exchange::AllReduce, 8, 8.0) - 6e-5).abs() < 1e-6);
        assert!((time(Exchange::AllToAll, 8, 8.0) - 3e-5).abs() < 1e-6);
        assert_eq!(time(Exchange::Permute, 1, 8.0), 0.0);
        for members in [2, 3, 8, 100] {
            let both = time(Exchange::ReduceScatter, members, 1e6)
                + time(Exchange::AllGather, members, 1e6);
            let all = time(Exchange::AllReduce, members, 2e6);
            assert!(all <= both * (1.0 + 1e-12), "{members}: {all} {both}");
        }
    }
}

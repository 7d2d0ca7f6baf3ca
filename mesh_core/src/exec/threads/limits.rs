//! How many processors this machine can run as threads.

use super::super::sync::OnceLock;
use std::fs;
use std::path::Path;

use super::super::prepare::variable_bytes;
use crate::names::Mesh;
use crate::passes::Executable;

/// Bytes that a processor takes beside its values and variables: the touched part of its stack, its
/// mailboxes and prepared kernels. Measured: 150 KiB for each of 500 processors of a small network.
const PROCESSOR: u64 = 128 << 10;

/// Bytes that a processor takes for each member of a group that has them all: three pointers.
const MEMBER: u64 = 24;

/// The most threads where the system does not say how many it can have.
const UNTOLD: usize = 1 << 14;

/// Whoever asks for less than this part of a limit has it, without a count of what is in use: to count them
/// all takes as long as to start a small session.
const SMALL: usize = 1000;

/// Mappings of memory that a thread takes: its stack and the guard before it.
const MAPPINGS: usize = 2;

/// What the processors of a mesh take from the machine.
struct Needs<'m> {
    mesh: &'m Mesh,
    /// Threads of each processor.
    threads: usize,
    /// Bytes of the values and variables of each, on average.
    bytes: u64,
}

/// What the machine has for them.
struct Machine {
    limits: Vec<Limit>,
    /// Bytes of memory, if that is known.
    memory: Option<u64>,
}

/// A limit of how many there are of something that a thread takes one or more of.
struct Limit {
    most: usize,
    /// How many of them a thread takes.
    each: usize,
    /// Counts those in use.
    used: fn() -> usize,
    /// What sets the limit.
    by: &'static str,
}

/// Refuses a mesh whose processors this machine cannot run as threads of this process. Makes nothing for
/// them.
pub(super) fn check(executable: &Executable, couriers: Option<bool>) -> Result<(), String> {
    let Executable { mesh, variables, .. } = executable;
    let arena = executable.arena_bytes();
    let held = variables.iter().map(|variable| {
        let owners: usize = variable.owners.iter().map(|&(axis, _)| mesh.size(axis)).product();
        variable_bytes(variable).div_ceil(owners)
    });
    let bytes = held.fold(arena, usize::saturating_add);
    // Without being asked for there are couriers only where each has a core.
    check_bytes(mesh, bytes, couriers == Some(true))
}

/// As [`check`], of processors that take so many bytes each, on average.
pub(super) fn check_bytes(mesh: &Mesh, bytes: usize, couriers: bool) -> Result<(), String> {
    let threads = if couriers { 2 } else { 1 };
    Needs { mesh, threads, bytes: bytes as u64 }.fit(Machine::this())
}

impl Needs<'_> {
    /// Bytes that so many processors take.
    fn bytes(&self, processors: usize) -> u64 {
        let processors = processors as u64;
        let each = self.bytes.saturating_add(PROCESSOR);
        processors.saturating_mul(each.saturating_add(MEMBER.saturating_mul(processors)))
    }

    fn fit(&self, machine: &Machine) -> Result<(), String> {
        let (mesh, processors) = (self.mesh, self.mesh.processors());
        let wanted = processors.saturating_mul(self.threads);
        if let Some((most, by)) =
            machine.limits.iter().filter_map(|limit| limit.refuses(wanted)).min()
        {
            let most = most / self.threads;
            return Err(format!(
                "mesh {mesh} has {processors} processors, and each would be a thread: this process can \
                 have {most} of them ({by}); run it on a smaller mesh, or on several ranks"
            ));
        }
        let Some(memory) = machine.memory.filter(|memory| self.bytes(processors) > *memory) else {
            return Ok(());
        };
        // How many do is between the two.
        let (mut enough, mut too_many) = (0, processors);
        while too_many - enough > 1 {
            let middle = enough + (too_many - enough) / 2;
            match self.bytes(middle) <= memory {
                true => enough = middle,
                false => too_many = middle,
            }
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let whole = match processors {
            1 => "one processor takes".to_owned(),
            _ => format!("the {processors} processors of mesh {mesh} take"),
        };
        let fewer = match enough {
            0 => "not even one processor would do".to_owned(),
            _ => format!("with as much for each, {enough} would do"),
        };
        Err(format!(
            "{whole} {} MiB of memory, and this machine has {}: {fewer}; make it smaller, split more \
             dims, or run it on several machines",
            mib(self.bytes(processors)),
            mib(memory),
        ))
    }
}

impl Limit {
    /// How many threads there can be, and what says so, where that is fewer than these.
    fn refuses(&self, threads: usize) -> Option<(usize, &'static str)> {
        if threads.saturating_mul(self.each) < self.most / SMALL {
            return None;
        }
        // The caller's own thread is one of the processors.
        let free = (self.most.saturating_sub((self.used)()) / self.each).saturating_add(1);
        (threads > free).then_some((free, self.by))
    }
}

impl Machine {
    /// This machine, as it was when it was first asked for.
    fn this() -> &'static Self {
        static THIS: OnceLock<Machine> = OnceLock::new();
        THIS.get_or_init(|| Self { limits: limits(), memory: memory() })
    }
}

/// The limits of how many threads this process can have.
fn limits() -> Vec<Limit> {
    let kernel = |name: &str| number(&Path::new("/proc/sys").join(name));
    // The limit of a user's threads does not hold for root.
    let user = status("Uid:").filter(|uid| *uid != 0).and_then(|_| limit("Max processes"));
    type Known = (Option<usize>, usize, fn() -> usize, &'static str);
    let known: [Known; 5] = [
        (kernel("kernel/threads-max"), 1, running, "kernel.threads-max"),
        (kernel("kernel/pid_max"), 1, running, "kernel.pid_max"),
        (kernel("vm/max_map_count"), MAPPINGS, mappings, "vm.max_map_count"),
        (
            grouped("pids", "pids.max").map(|(most, _)| most),
            1,
            in_group,
            "pids.max of its control group",
        ),
        (user, 1, || status("Threads:").unwrap_or(1), "ulimit -u"),
    ];
    let known = known.into_iter();
    let mut limits: Vec<_> = known
        .filter_map(|(most, each, used, by)| Some(Limit { most: most?, each, used, by }))
        .collect();
    if limits.is_empty() {
        let by = "the system does not say how many";
        limits.push(Limit { most: UNTOLD, each: 1, used: || 1, by });
    }
    limits
}

/// All threads of the system. "0.00 0.00 0.00 1/163 30544": they are 163.
fn running() -> usize {
    let counts = text("/proc/loadavg").and_then(|text| {
        let (_, all) = text.split_whitespace().nth(3)?.split_once('/')?;
        all.parse().ok()
    });
    counts.unwrap_or(0)
}

/// The mappings of memory of this process.
fn mappings() -> usize {
    text("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}

/// The threads of the control group that limits them.
fn in_group() -> usize {
    let group = grouped("pids", "pids.max").map(|(_, group)| group);
    group.and_then(|group| number(&group.join("pids.current"))).unwrap_or(0)
}

/// Bytes that the processes of this machine, or of this control group, can have.
fn memory() -> Option<u64> {
    let info = text("/proc/meminfo")?;
    let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    let kib = |name: &str| line(name)?.split_whitespace().next()?.parse::<u64>().ok();
    let all = kib("MemTotal:")?.saturating_add(kib("SwapTotal:").unwrap_or(0)).saturating_mul(1024);
    let groups = [("memory", "memory.max"), ("memory", "memory.limit_in_bytes")];
    let groups = groups.into_iter().filter_map(|(controller, file)| grouped(controller, file));
    let limits = groups.map(|(most, _)| most as u64);
    Some(limits.chain(limit("Max address space").map(|most| most as u64)).fold(all, u64::min))
}

/// The least limit that a file sets to this process's control group and those that it is in, and which
/// of them does; groups of the first version stand in a folder of their controller's.
fn grouped(controller: &str, file: &str) -> Option<(usize, std::path::PathBuf)> {
    let groups = text("/proc/self/cgroup")?;
    let root = Path::new("/sys/fs/cgroup");
    let paths = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let first = !controllers.is_empty();
        let named = controllers.split(',').any(|name| name == controller);
        let root = if first { root.join(controller) } else { root.to_owned() };
        (named || !first).then(|| (root.clone(), root.join(path.trim_start_matches('/'))))
    });
    let all = paths.flat_map(|(root, path)| {
        let within = path.ancestors().map(Path::to_owned).collect::<Vec<_>>();
        within.into_iter().filter(move |group| group.starts_with(&root))
    });
    all.filter_map(|group| Some((number(&group.join(file))?, group))).min()
}

/// The soft limit of a line of `/proc/self/limits`, if it has one.
fn limit(name: &str) -> Option<usize> {
    let limits = text("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name));
    line?.split_whitespace().next()?.parse().ok()
}

/// The first number of a line of `/proc/self/status`.
fn status(name: &str) -> Option<usize> {
    let status = text("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line?.split_whitespace().next()?.parse().ok()
}

/// The number in a file; none for "max".
fn number(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of so many processors on a machine.
    fn refused(processors: usize, bytes: u64, threads: usize, memory: u64) -> Option<String> {
        let mesh: Mesh = format!("p:{processors}").parse().unwrap();
        // One is the caller's, and there are a few of other processes.
        let limit = Limit { most: threads.saturating_add(4), each: 1, used: || 5, by: "a limit" };
        let machine = Machine { limits: vec![limit], memory: Some(memory) };
        Needs { mesh: &mesh, threads: 1, bytes }.fit(&machine).err()
    }

    #[test]
    fn what_a_machine_can_have_is_run_and_no_more() {
        for (processors, threads) in [(1, 1), (64, 64), (64, 1 << 20)] {
            assert_eq!(refused(processors, 1 << 10, threads, 1 << 40), None);
        }
        let error = refused(65, 1 << 10, 64, 1 << 40).unwrap();
        assert!(error.contains("can have 64 of them (a limit)"), "{error}");
        // The number that is said to do does, and one more does not.
        for (bytes, memory) in [(1 << 20, 1 << 30), (0, 1 << 25), (1 << 34, 1 << 36), (0, 0)] {
            let error = refused(1 << 20, bytes, 1 << 30, memory).unwrap();
            let words: Vec<_> = error.split(' ').collect();
            let would = words.iter().position(|word| *word == "would").unwrap();
            let enough: usize = words[would - 1].parse().unwrap_or(0);
            assert!(enough == 0 || refused(enough, bytes, 1 << 30, memory).is_none(), "{error}");
            assert!(refused(enough + 1, bytes, 1 << 30, memory).is_some(), "{error}");
        }
        assert!(refused(1 << 20, u64::MAX, usize::MAX, u64::MAX - 1).is_some());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_tells() {
        let Machine { limits, memory } = Machine::this();
        let told = limits.iter().all(|limit| limit.most != UNTOLD && (limit.used)() > 0);
        assert!(told && limits.iter().all(|limit| limit.refuses(2).is_none()));
        let (most, by) = limits.iter().filter_map(|limit| limit.refuses(10_000_000)).min().unwrap();
        assert!((100..10_000_000).contains(&most), "{most} by {by}");
        assert!(memory.is_some_and(|bytes| bytes > 1 << 28), "{memory:?}");
    }
}

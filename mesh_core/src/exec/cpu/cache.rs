//! The caches of this machine, as it tells of them.

use crate::exec::sync::OnceLock;

/// Lines whose addresses differ by a multiple of so many bytes share a set of the first-level data cache, which has 64 of them.
pub(super) const ALIKE: usize = 4096;

/// Whether the first-level data cache holds at most eight lines of one set; `false` where the machine does not tell.
pub(super) fn is_narrow() -> bool {
    caches().first.is_some_and(|Cache { ways, .. }| ways <= 8)
}

/// Bytes that a core has near enough for a loop over them to be faster if it does not ask for them ahead: half of the third
/// cache where that belongs to few cores and answers fast, as AMD's do, else none.
pub(in crate::exec) fn near() -> usize {
    caches().third.filter(|_| caches().are_amds).map_or(0, |Cache { bytes, .. }| bytes / 2)
}

/// Whether a loop that moves along memory is as fast if it asks for nothing ahead, as on AMD's cores: on a Zen 4 one takes up to 1.3
/// times as long if it asks.
pub(super) fn comes_unasked() -> bool {
    caches().are_amds
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Cache {
    /// Lines of one set.
    ways: usize,
    bytes: usize,
}

#[derive(Default, Debug)]
struct Caches {
    /// The first level's, of data.
    first: Option<Cache>,
    third: Option<Cache>,
    are_amds: bool,
}

fn caches() -> &'static Caches {
    static CACHES: OnceLock<Caches> = OnceLock::new();
    CACHES.get_or_init(Caches::read)
}

impl Caches {
    /// From the leaf of CPUID that describes caches: 4 (Intel), 0x8000001d (AMD); both have one layout.
    #[cfg(target_arch = "x86_64")]
    fn read() -> Self {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const INSTRUCTIONS: u32 = 2;
        let mut found =
            Self { are_amds: __cpuid(0x8000_0000).eax >= 0x8000_001d, ..Self::default() };
        let leaf = if found.are_amds { 0x8000_001d } else { 4 };
        if !found.are_amds && __cpuid(0).eax < leaf {
            return found;
        }
        for index in 0..8 {
            let of = __cpuid_count(leaf, index);
            let (kind, level) = (of.eax & 0x1f, of.eax >> 5 & 7);
            let [ways, parts, line] =
                [of.ebx >> 22, of.ebx >> 12 & 0x3ff, of.ebx & 0xfff].map(|n| n as usize + 1);
            let cache = Cache { ways, bytes: ways * parts * line * (of.ecx as usize + 1) };
            match (level, kind) {
                (_, 0) => break,
                (1, kind) if kind != INSTRUCTIONS => found.first = Some(cache),
                (3, _) => found.third = Some(cache),
                _ => {}
            }
        }
        found
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn read() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, caches};
    use std::fs::read_to_string;

    /// What the system tells of a core's cache: level, kind, lines of a set, bytes.
    fn told(core: usize, index: usize) -> Option<(String, String, Cache)> {
        let read = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{core}/cache/index{index}/{what}");
            read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        let ways = read("ways_of_associativity")?.parse().ok()?;
        let kibibytes: usize = read("size")?.strip_suffix('K')?.parse().ok()?;
        Some((read("level")?, read("type")?, Cache { ways, bytes: kibibytes << 10 }))
    }

    /// Cores may differ; any one of them may have run the code. Either side may tell nothing.
    #[test]
    fn the_system_tells_the_same() {
        let cores = (0..).map(|core| (0..8).map_while(move |i| told(core, i)).collect::<Vec<_>>());
        let all: Vec<_> = cores.take_while(|core| !core.is_empty()).flatten().collect();
        for (found, level, kind) in
            [(caches().first, "1", "Data"), (caches().third, "3", "Unified")]
        {
            let mut alike = all.iter().filter(|(l, k, _)| l == level && k == kind).peekable();
            if let (Some(found), Some(_)) = (found, alike.peek()) {
                assert!(alike.any(|(.., cache)| *cache == found), "{found:?} is none of {all:?}");
            }
        }
    }
}

//! Prints results, and reads what the system says of this process.

use examples::ranks::launched;
use examples::report::print;
use std::fs;
use std::io;

/// The result lines of one workload under one layout.
pub(crate) struct Lines {
    workload: String,
    layout: String,
}

impl Lines {
    pub(crate) fn new(workload: impl Into<String>, layout: impl Into<String>) -> Self {
        Self { workload: workload.into(), layout: layout.into() }
    }

    /// Prints a number with six digits.
    pub(crate) fn line(&self, metric: &str, value: f64) -> io::Result<()> {
        let Self { workload, layout } = self;
        let peer = if launched().is_some() { "mesh-ranks" } else { "mesh" };
        let value = digits(value, 6);
        print(&format!(
            "result workload={workload} peer={peer} layout={layout} metric={metric} value={value}"
        ))
    }

    /// [`line`](Self::line), if the system knows the number.
    pub(crate) fn known(&self, metric: &str, value: Option<f64>) -> io::Result<()> {
        value.map_or(Ok(()), |value| self.line(metric, value))
    }
}

/// A number with so many significant digits, never in scientific notation.
pub(crate) fn digits(value: f64, count: usize) -> String {
    let rounded = format!("{value:.*e}", count - 1).parse().unwrap_or(value);
    format!("{rounded}")
}

/// The largest resident size of this process so far, in MiB.
pub(crate) fn peak_rss_mib() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Seconds since this process started; the system counts in hundredths.
pub(crate) fn process_age() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let started: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Some(uptime - started / TICKS_PER_SECOND)
}

/// The median; of an even number of values the upper one of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_leading_digits() {
        for (value, text) in [(1234567.0, "1234570"), (0.0012345678, "0.00123457"), (2.0, "2")] {
            assert_eq!(digits(value, 6), text);
        }
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn linux_knows_age_and_size() {
        if cfg!(target_os = "linux") {
            assert!(process_age().is_some_and(|age| (0.0..1e6).contains(&age)));
            assert!(peak_rss_mib().is_some_and(|size| size > 0.5));
        }
    }
}

//! How a rank waits for others.

use std::time::{Duration, Instant};

use super::super::sync::thread;

/// How long to let others run before sleeping.
const YIELDING: Duration = Duration::from_micros(300);

/// The longest sleep between two looks.
const NAP: Duration = Duration::from_millis(1);

/// Time between looks for something that has not come at once.
#[derive(Default)]
pub(super) struct Pause {
    began: Option<Instant>,
}

impl Pause {
    /// Lets others run, or sleeps once there has been a wait; says how long there has been.
    pub(super) fn rest(&mut self) -> Duration {
        let waited = self.began.get_or_insert_with(Instant::now).elapsed();
        if waited < YIELDING {
            thread::yield_now();
        } else {
            thread::sleep((waited / 16).min(NAP));
        }
        waited
    }
}

/// What to say of the ranks for which rank `own` has waited past the deadline, if anything. Another
/// thread of its own is given more time: it may be waiting for somebody itself, who is to be named.
pub(super) fn missing(
    mut ranks: Vec<usize>,
    own: usize,
    waited: Duration,
    deadline: Duration,
) -> Option<String> {
    ranks.sort_unstable();
    ranks.dedup();
    if ranks != [own] || waited < deadline.saturating_mul(2) {
        ranks.retain(|&rank| rank != own);
    }
    let list: Vec<_> = ranks.iter().map(usize::to_string).collect();
    let ranks = if list.len() == 1 { "rank" } else { "ranks" };
    let seconds = deadline.as_secs_f64();
    let problem = format!("{ranks} {} did not get here within {seconds} s", list.join(", "));
    (!list.is_empty()).then_some(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_missing_is_named_once() {
        let [late, later] = [3, 5].map(Duration::from_secs);
        let missing = |ranks: &[usize], waited| {
            missing(ranks.to_vec(), 1, waited, Duration::from_secs(2)).unwrap_or_default()
        };
        assert_eq!(missing(&[3, 0, 3, 1], late), "ranks 0, 3 did not get here within 2 s");
        assert_eq!(missing(&[2, 2], later), "rank 2 did not get here within 2 s");
        assert_eq!(missing(&[1, 1], late), "");
        assert_eq!(missing(&[1], later), "rank 1 did not get here within 2 s");
        assert_eq!(missing(&[], later), "");
    }
}

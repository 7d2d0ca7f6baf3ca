//! Iterates over the records of a pass.

use super::prefetch::Prefetched;
use super::unmade::Unmades;
use super::{Record, Result};
use std::fmt;
use std::sync::Arc;

/// The records of a pass. Iteration ends after the first error.
///
/// [`skip`](Iterator::skip) and [`nth`](Iterator::nth) do not make the records that they leave out,
/// if they are called before the first record is taken.
pub struct Records {
    state: State,
    /// How many records a prefetching thread makes ahead; with 0 there is no such thread.
    ahead: usize,
}

enum State {
    /// No record was asked for yet, or this thread makes the records.
    Here(Unmades),
    Elsewhere(Prefetched),
    Ended,
}

impl Records {
    pub(super) fn new(unmade: Unmades, ahead: usize) -> Self {
        Self { state: State::Here(unmade), ahead }
    }
}

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ahead > 0
            && let State::Here(unmade) = &mut self.state
        {
            let unmade = std::mem::replace(unmade, Box::new(std::iter::empty()));
            self.state = State::Elsewhere(Prefetched::start(self.ahead, unmade));
        }
        let record = match &mut self.state {
            State::Here(unmade) => {
                unmade.next().map(|record| record.make().map(Arc::unwrap_or_clone))
            }
            State::Elsewhere(prefetched) => prefetched.next(),
            State::Ended => None,
        };
        if !matches!(record, Some(Ok(_))) {
            self.state = State::Ended;
        }
        record
    }

    fn nth(&mut self, count: usize) -> Option<Self::Item> {
        for _ in 0..count {
            match &mut self.state {
                State::Here(unmade) => drop(unmade.next()?),
                _ => drop(self.next()?),
            }
        }
        self.next()
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Records")
    }
}

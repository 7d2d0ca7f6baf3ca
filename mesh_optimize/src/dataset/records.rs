//! Going through a pass.

use super::prefetch::Prefetched;
use super::unmade::Unmades;
use super::{Record, Result};
use std::fmt;
use std::sync::Arc;

/// Records one after another. After an error there is nothing more.
///
/// [`skip`](Iterator::skip) and [`nth`](Iterator::nth) do not make what they leave out, if they come
/// before the first record is taken.
pub struct Records {
    state: State,
    /// How many records another thread makes ahead; 0 is for no other thread.
    ahead: usize,
}

enum State {
    /// Nothing was asked for yet, or records are made here.
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

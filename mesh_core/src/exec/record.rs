//! When the steps of a call began and ended.

use std::time::Instant;

use crate::program::{Block, Form, Step};

/// Nanoseconds since a call began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

impl Span {
    /// From the beginning to the end.
    pub fn nanoseconds(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// What one processor did about one step of a program in a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StepTimes {
    /// How often it ran. Never, if it is another processor's, if the plan leaves nothing to do, or
    /// if it is in a loop without iterations.
    pub runs: u64,
    /// From the beginning of the first run to the end of the last.
    pub span: Span,
    /// All runs together, in nanoseconds.
    pub nanoseconds: u64,
    /// The steps of a loop's body, by index.
    pub body: Vec<StepTimes>,
}

impl StepTimes {
    fn of(block: &Block) -> Vec<Self> {
        let body = |step: &Step| match &step.form {
            Form::Loop(form) => Self::of(&form.body),
            _ => Vec::new(),
        };
        block.steps.iter().map(|step| Self { body: body(step), ..Self::default() }).collect()
    }

    /// It has run once more.
    pub(super) fn note(&mut self, begin: u64, end: u64) {
        if self.runs == 0 {
            self.span.begin = begin;
        }
        self.runs += 1;
        self.span.end = end;
        self.nanoseconds += end - begin;
    }

    fn clear(&mut self) {
        (self.runs, self.span, self.nanoseconds) = Default::default();
        self.body.iter_mut().for_each(Self::clear);
    }
}

/// What one processor did in a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallTimes {
    /// When the call began; the same for all processors.
    pub started: Instant,
    /// Slices of feeds are copied.
    pub feeds: Span,
    /// By index of the step in the program.
    pub steps: Vec<StepTimes>,
    /// Fetches are copied to where the caller wants them. Then the processor is done.
    pub fetches: Span,
}

impl CallTimes {
    /// Room for a call of a function.
    pub(super) fn of(block: &Block) -> Self {
        let (feeds, fetches) = Default::default();
        Self { started: Instant::now(), feeds, steps: StepTimes::of(block), fetches }
    }

    /// Forgets the last call.
    pub(super) fn restart(&mut self, started: Instant) {
        self.started = started;
        (self.feeds, self.fetches) = Default::default();
        self.steps.iter_mut().for_each(StepTimes::clear);
    }
}

/// Nanoseconds since `started`.
pub(super) fn since(started: Instant) -> u64 {
    // More than 64 bits of them are centuries.
    started.elapsed().as_nanos() as u64
}

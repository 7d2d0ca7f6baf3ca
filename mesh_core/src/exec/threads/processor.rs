//! What the thread of one processor has at hand.
#![allow(unsafe_code, reason = "says that a store is this processor's")]

use std::sync::Arc;

use super::super::border::Global;
use super::super::comm::Stopped;
use super::super::executor::Executor;
use super::super::memory::{Buffer, Store};
use super::super::prepare::describe;
use super::comm::Threads;
use super::pool::Worker;
use crate::program::Compiled;

/// A call.
#[derive(Default)]
pub(super) struct Job {
    pub(super) function: usize,
    /// In the order of the program's slots, and fitting them.
    pub(super) feeds: Vec<Global>,
    /// Likewise.
    pub(super) fetches: Vec<Global>,
}

pub(super) struct Processor {
    comm: Threads,
    /// One per function.
    executors: Vec<Executor>,
    scratch: Buffer,
    functions: Arc<[Compiled]>,
    /// Keeps alive what the executors point to.
    _stores: Arc<[Store]>,
}

impl Processor {
    pub(super) fn new(
        comm: Threads,
        executors: Vec<Executor>,
        functions: Arc<[Compiled]>,
        stores: Arc<[Store]>,
    ) -> Result<Self, String> {
        let bytes = executors.iter().map(|executor| executor.scratch_bytes).max();
        let scratch = Buffer::zeroed(bytes.unwrap_or(0))?;
        Ok(Self { comm, executors, scratch, functions, _stores: stores })
    }
}

impl Worker for Processor {
    type Job = Job;

    fn run(&mut self, job: &Job) -> Result<(), Stopped> {
        let executor = &mut self.executors[job.function];
        // SAFETY: the store lives as long as we do, and while a call runs nobody but this
        // processor uses it. `Machine::call` has checked the arrays, which outlive the call, and
        // gives every processor the same job.
        unsafe { executor.run(&mut self.comm, self.scratch.pointer(), &job.feeds, &job.fetches) }
    }

    fn activity(&self, job: &Job) -> String {
        let executor = &self.executors[job.function];
        let program = &self.functions[job.function].program;
        format!("in {}", describe(program, executor.position))
    }
}

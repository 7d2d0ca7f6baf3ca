//! A trace of some steps.

use super::{BoxError, Outcome, Start, Step, Watcher};
use mesh_core::session::Trace;
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// By then everything has been touched.
const FIRST: u64 = 3;
const COUNT: u64 = 3;

/// A file with a [`Trace`] of some steps, each of which takes a little longer than others.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    trace: Option<Trace<BufWriter<File>>>,
    /// If they were asked for.
    asked: Option<Range<u64>>,
    steps: Range<u64>,
}

impl TraceFile {
    /// Into this file. Of these steps, from 1; without, of the third, fourth and fifth that this
    /// process makes, or the last three if it makes fewer.
    pub fn create(path: &Path, steps: Option<Range<u64>>) -> io::Result<Self> {
        let trace = Some(Trace::new(BufWriter::new(File::create(path)?))?);
        Ok(Self { path: path.to_owned(), trace, asked: steps, steps: 0..0 })
    }
}

impl Watcher for TraceFile {
    fn name(&self) -> &str {
        "trace"
    }

    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        let last = run.steps.unwrap_or(u64::MAX - COUNT);
        let first = run.position.step.saturating_add(FIRST);
        let first = first.min(last.saturating_add(1).saturating_sub(COUNT));
        self.steps = self.asked.clone().unwrap_or(first..first.saturating_add(COUNT));
        Ok(())
    }

    fn wants_times(&self, step: u64) -> bool {
        self.steps.contains(&step)
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let number = step.position.step;
        match &mut self.trace {
            Some(trace) if self.steps.contains(&number) => trace
                .add(step.session, number)
                .map_err(|error| format!("{}: {error}", self.path.display()).into()),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, _: &Outcome) -> Result<(), BoxError> {
        if let Some(trace) = self.trace.take() {
            trace.finish()?;
        }
        Ok(())
    }
}

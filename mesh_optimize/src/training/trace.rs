//! A trace of some steps of a run.

use super::{BoxError, Outcome, Start, Step, Watcher};
use mesh_core::session::Trace;
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The first step that is traced by default. Earlier steps touch memory for the first time.
const FIRST: u64 = 3;
const COUNT: u64 = 3;

/// Writes a [`Trace`] of some steps, each of which takes a little longer than others.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    trace: Option<Trace<BufWriter<File>>>,
    /// The steps that the user asked for.
    asked: Option<Range<u64>>,
    steps: Range<u64>,
}

impl TraceFile {
    /// A trace of the given steps, counted from 1. Without `steps` it is that of the third, fourth
    /// and fifth step of this process, or of its last three if there are fewer.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::{Optimizer, Sgd, dataset::{Dataset, Remainder}, training::*};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
    /// # let loss = x.dense(dim("out", 1), "out").square().mean();
    /// # g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # let layout = Layout::default();
    /// # let module = g.lower(&Mesh::single(), &layout)?;
    /// # let mut session = Session::threads(&module, 0)?;
    /// # let x = ndarray::Array2::<f32>::ones((20, 2));
    /// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
    /// # let path = std::env::temp_dir().join(format!("trace-{}", std::process::id()));
    /// Trainer::new(&mut session, "train", data).watch(TraceFile::create(&path, Some(2..4))?).run()?;
    /// assert!(std::fs::read_to_string(&path)?.contains("\"name\""));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
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

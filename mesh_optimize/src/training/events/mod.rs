//! Event files for TensorBoard.

mod histogram;
mod wire;

use super::{BoxError, Evaluated, Metrics, Outcome, Position, Start, Step, Watcher};
use histogram::Buckets;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The longest time that an event waits in memory before it is written to the file.
const WAIT: Duration = Duration::from_secs(5);
/// How the names of files begin that TensorBoard looks for.
const PREFIX: &str = "events.out.tfevents.";

/// `SessionLog.SessionStatus.START` of `event.proto`.
const START: u64 = 1;

/// Writes event files for TensorBoard into a folder: metrics of steps as scalars, metrics of
/// evaluations as scalars called `evaluation/NAME`, probes of larger tensors as histograms.
///
/// Each start of a run writes a new file. The file says at which step it begins; TensorBoard then
/// drops the later steps of older files in the folder.
#[derive(Debug)]
pub struct EventFile {
    folder: PathBuf,
    file: Option<BufWriter<File>>,
    histograms_every: u64,
    buckets: Buckets,
    /// A buffer in which events are encoded.
    event: Vec<u8>,
    name: String,
    flushed: Instant,
}

impl EventFile {
    /// Event files in `folder`, which is created if it is missing.
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
    /// # let path = std::env::temp_dir().join(format!("events-{}", std::process::id()));
    /// let events = EventFile::create(&path)?.histograms_every(10);
    /// Trainer::new(&mut session, "train", data).watch(events).run()?;
    /// assert_eq!(std::fs::read_dir(&path)?.count(), 1);
    /// # std::fs::remove_dir_all(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the folder cannot be created.
    pub fn create(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            file: None,
            histograms_every: 100,
            buckets: Buckets::new(),
            event: Vec::new(),
            name: String::new(),
            flushed: Instant::now(),
        })
    }

    /// Writes histograms at the first step and at every `steps`-th (at least 1). The default is
    /// every hundredth.
    pub fn histograms_every(mut self, steps: u64) -> Self {
        self.histograms_every = steps.max(1);
        self
    }

    /// Opens a file whose name sorts after those in the folder.
    fn open(&self) -> io::Result<File> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let mut latest = None;
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            let number = number.and_then(|number| number.split('.').next()?.parse::<u64>().ok());
            latest = latest.max(number);
        }
        let number = latest.map_or(now, |latest| now.max(latest.saturating_add(1)));
        let path = self.folder.join(format!("{PREFIX}{number:010}.mesh"));
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    /// Writes an `Event` (`event.proto`): `wall_time` 1, `step` 2, and the fields that `what` adds.
    fn event(
        &mut self,
        step: u64,
        what: impl FnOnce(&mut Vec<u8>, &mut Buckets),
    ) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        self.event.clear();
        wire::double(&mut self.event, 1, now);
        wire::integer(&mut self.event, 2, step);
        what(&mut self.event, &mut self.buckets);
        wire::record(file, &self.event)?;
        if self.flushed.elapsed() >= WAIT { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed = Instant::now();
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }

    /// Writes metrics as scalars: `Event.summary` 5, `Summary.value` 1; in a value `tag` 1,
    /// `simple_value` 2.
    fn scalars(&mut self, position: Position, prefix: &str, metrics: &Metrics) -> io::Result<()> {
        let mut name = std::mem::take(&mut self.name);
        let written = self.event(position.step, |out, _| {
            wire::message(out, 5, |out| {
                for (metric, value) in metrics.iter() {
                    name.clear();
                    name.extend([prefix, metric]);
                    wire::message(out, 1, |out| {
                        wire::text(out, 1, &name);
                        wire::float(out, 2, value as f32);
                    });
                }
            });
        });
        self.name = name;
        written
    }
}

impl Watcher for EventFile {
    fn name(&self) -> &str {
        "events"
    }

    /// `Event.file_version` 3; `Event.session_log` 7 with `SessionLog.status` 1.
    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        self.file = Some(BufWriter::new(self.open()?));
        self.event(0, |out, _| wire::text(out, 3, "brain.Event:2"))?;
        // Steps from the next one on are in this file.
        let before = run.position.step;
        let first = if before == 0 { 0 } else { before.saturating_add(1) };
        self.event(first, |out, _| wire::message(out, 7, |out| wire::integer(out, 1, START)))?;
        Ok(self.flush()?)
    }

    /// Histograms are `Summary.Value.histo` 5. They cannot hold numbers that are not finite; those
    /// are counted under `LABEL/not_finite`.
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        self.scalars(step.position, "", step.metrics)?;
        let number = step.position.step;
        if !(number - 1).is_multiple_of(self.histograms_every) {
            return Ok(());
        }
        for (label, array) in step.tensors {
            let values = array.to_f64();
            self.event(number, |out, buckets| {
                wire::message(out, 5, |out| {
                    let mut not_finite = 0;
                    wire::message(out, 1, |out| {
                        wire::text(out, 1, label);
                        wire::message(out, 5, |out| {
                            not_finite = buckets.histogram(values.iter().copied(), out);
                        });
                    });
                    if not_finite > 0 {
                        wire::message(out, 1, |out| {
                            wire::text(out, 1, &format!("{label}/not_finite"));
                            wire::float(out, 2, not_finite as f32);
                        });
                    }
                });
            })?;
        }
        Ok(())
    }

    fn evaluation(&mut self, evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        self.scalars(evaluated.position, "evaluation/", evaluated.metrics)?;
        Ok(self.flush()?)
    }

    fn save(&mut self) -> Result<String, BoxError> {
        self.flush()?;
        Ok(String::new())
    }

    fn file(&self) -> Result<Option<(PathBuf, File)>, BoxError> {
        let Some(file) = &self.file else { return Ok(None) };
        Ok(Some((self.folder.clone(), file.get_ref().try_clone()?)))
    }

    fn finish(&mut self, _: &Outcome) -> Result<(), BoxError> {
        Ok(self.flush()?)
    }
}

#[cfg(test)]
mod tests;

//! Event files, which TensorBoard shows.

mod histogram;
mod wire;

use super::{BoxError, Evaluated, Metrics, Outcome, Position, Start, Step, Watcher};
use histogram::Buckets;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long an event may wait for others before it is handed to the system.
const WAIT: Duration = Duration::from_secs(5);
/// The beginning of the names that TensorBoard looks for.
const PREFIX: &str = "events.out.tfevents.";

/// `SessionLog.SessionStatus.START` of `event.proto`.
const START: u64 = 1;

/// A folder of event files for TensorBoard: metrics of steps as scalars, those of evaluations as
/// `evaluation/NAME`, probes of larger tensors as histograms.
///
/// Each start makes a file of its own, which says from which step on it holds; TensorBoard drops
/// what older files in the folder have from there on.
#[derive(Debug)]
pub struct EventFile {
    folder: PathBuf,
    file: Option<BufWriter<File>>,
    histograms_every: u64,
    buckets: Buckets,
    /// Encoded here.
    event: Vec<u8>,
    name: String,
    flushed: Instant,
}

impl EventFile {
    /// Into this folder, which is made if need be.
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

    /// Histograms at the first step and then at every so many (1 or more); otherwise at every
    /// hundredth.
    pub fn histograms_every(mut self, steps: u64) -> Self {
        self.histograms_every = steps.max(1);
        self
    }

    /// A file that sorts behind those that are there.
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

    /// Writes an event, of which `what` says more than the time and the step.
    ///
    /// `Event` of `event.proto`: `wall_time` 1, `step` 2.
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

    /// `Event.summary` 5, `Summary.value` 1; of a value `tag` 1, `simple_value` 2.
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
        // Steps from this one on are ours.
        let before = run.position.step;
        let first = if before == 0 { 0 } else { before.saturating_add(1) };
        self.event(first, |out, _| wire::message(out, 7, |out| wire::integer(out, 1, START)))?;
        Ok(self.flush()?)
    }

    /// Histograms are `Summary.Value.histo` 5. As they have no room for numbers that are not
    /// finite, those are left out and counted under `LABEL/not_finite`.
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

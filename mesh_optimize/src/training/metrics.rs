//! Named numbers, and a JSON lines file of them.

use super::{BoxError, Evaluated, Outcome, Position, Start, Step, Watcher};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Named numbers, in order.
///
/// ```
/// use mesh_optimize::training::Metrics;
///
/// let mut metrics = Metrics::new();
/// metrics.set("loss", 0.5);
/// metrics.set("accuracy", 0.75);
/// metrics.set("loss", 0.25); // keeps its place
/// assert_eq!(metrics.get("loss"), Some(0.25));
/// assert!(metrics.iter().eq([("loss", 0.25), ("accuracy", 0.75)]));
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Metrics {
    entries: Vec<(String, f64)>,
}

impl Metrics {
    /// No metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a number. A name that is there already keeps its place.
    pub fn set(&mut self, name: &str, value: f64) {
        match self.entries.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.entries.push((name.to_owned(), value)),
        }
    }

    /// The number of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// All names and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl<'n, const N: usize> From<[(&'n str, f64); N]> for Metrics {
    fn from(entries: [(&'n str, f64); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<'n> FromIterator<(&'n str, f64)> for Metrics {
    fn from_iter<I: IntoIterator<Item = (&'n str, f64)>>(entries: I) -> Self {
        let mut metrics = Self::new();
        entries.into_iter().for_each(|(name, value)| metrics.set(name, value));
        metrics
    }
}

/// Writes metrics as JSON lines: `{"step":7,"loss":0.25}` for a step and
/// `{"step":8,"epoch":2,"accuracy":0.5}` for an evaluation.
///
/// Every number is written so that a reader gets the same f64. Numbers that are not finite are the
/// strings `"NaN"`, `"Infinity"` and `"-Infinity"`, as in the JSON of protocol buffers. Nothing in
/// the file depends on a clock, so equal runs write equal files.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Whether the file can be truncated; a device or a pipe cannot.
    regular: bool,
    /// The file's length in bytes.
    length: u64,
    line: Vec<u8>,
    flushed: Instant,
}

/// The longest time that a line waits in memory before it is written to the file.
const WAIT: Duration = Duration::from_secs(1);

impl MetricsFile {
    /// A metrics file at `path`. The content of an existing file is kept until the run starts, as
    /// the run may resume.
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
    /// # let path = std::env::temp_dir().join(format!("metrics-{}", std::process::id()));
    /// Trainer::new(&mut session, "train", data).watch(MetricsFile::create(&path)?).run()?;
    /// assert_eq!(std::fs::read_to_string(&path)?.lines().count(), 5);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be opened for writing.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let regular = file.metadata()?.is_file();
        Ok(Self {
            regular,
            path: path.to_owned(),
            file: BufWriter::new(file),
            length: 0,
            line: Vec::new(),
            flushed: Instant::now(),
        })
    }

    /// How many bytes of the existing file the run keeps. An empty file counts as a new one.
    fn kept(&self, saved: Option<&str>) -> Result<u64, BoxError> {
        let Some(saved) = saved else { return Ok(0) };
        let path = self.path.display();
        let kept: u64 =
            saved.parse().map_err(|_| format!("{path}: {saved:?} is no length in bytes"))?;
        let length = self.file.get_ref().metadata()?.len();
        if length == 0 {
            return Ok(0);
        }
        if length < kept {
            return Err(format!(
                "{path} has {length} bytes, but had {kept} when the run was saved: it was cut or \
                 replaced; put it back, or name another file"
            )
            .into());
        }
        Ok(kept)
    }

    fn write(
        &mut self,
        position: Position,
        epoch: bool,
        metrics: &Metrics,
    ) -> Result<(), BoxError> {
        self.line.clear();
        write!(self.line, "{{\"step\":{}", position.step)?;
        if epoch {
            write!(self.line, ",\"epoch\":{}", position.epoch_of_step())?;
        }
        for (name, value) in metrics.iter() {
            if name == "step" || (epoch && name == "epoch") {
                return Err(
                    format!("a metric cannot be called `{name}`: every line has that").into()
                );
            }
            self.line.push(b',');
            serde_json::to_writer(&mut self.line, name)?;
            self.line.push(b':');
            write_number(&mut self.line, value)?;
        }
        self.line.extend(b"}\n");
        self.file.write_all(&self.line)?;
        self.length += self.line.len() as u64;
        if self.flushed.elapsed() >= WAIT {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed = Instant::now();
        self.file.flush()
    }
}

fn write_number(out: &mut Vec<u8>, value: f64) -> io::Result<()> {
    if value.is_finite() {
        return Ok(serde_json::to_writer(out, &value)?);
    }
    let name = match value {
        f64::INFINITY => "\"Infinity\"",
        f64::NEG_INFINITY => "\"-Infinity\"",
        _ => "\"NaN\"",
    };
    out.extend(name.bytes());
    Ok(())
}

impl Watcher for MetricsFile {
    fn name(&self) -> &str {
        "metrics"
    }

    fn start(&mut self, _: &Start<'_>, saved: Option<&str>) -> Result<(), BoxError> {
        if !self.regular {
            return Ok(());
        }
        self.length = self.kept(saved)?;
        self.file.get_ref().set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        Ok(())
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        self.write(step.position, false, step.metrics)
    }

    fn evaluation(&mut self, evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        self.write(evaluated.position, true, evaluated.metrics)?;
        Ok(self.flush()?)
    }

    fn save(&mut self) -> Result<String, BoxError> {
        self.flush()?;
        Ok(self.length.to_string())
    }

    fn file(&self) -> Result<Option<(PathBuf, File)>, BoxError> {
        let handle = self.regular.then(|| self.file.get_ref().try_clone()).transpose()?;
        Ok(handle.map(|handle| (self.path.clone(), handle)))
    }

    fn finish(&mut self, _: &Outcome) -> Result<(), BoxError> {
        Ok(self.flush()?)
    }
}

//! Named numbers, and a file of them: JSON lines.

use super::{BoxError, Evaluated, Outcome, Position, Start, Step, Watcher};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Numbers by name, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Metrics {
    entries: Vec<(String, f64)>,
}

impl Metrics {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of a name, which keeps its place if it is there already.
    pub fn set(&mut self, name: &str, value: f64) {
        match self.entries.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.entries.push((name.to_owned(), value)),
        }
    }

    /// The number of a name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// All of them.
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

/// Metrics as JSON lines: for each step `{"step":7,"loss":0.25}`, for each evaluation
/// `{"step":8,"epoch":2,"accuracy":0.5}`.
///
/// Every number is written so that reading it gives the same f64. What is not finite is a string:
/// `"NaN"`, `"Infinity"` or `"-Infinity"`, as in the JSON of protocol buffers. There is nothing in
/// the file that depends on a clock, so equal runs write equal files.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Whether it can be cut, as no device or pipe can.
    regular: bool,
    /// In bytes.
    length: u64,
    line: Vec<u8>,
    flushed: Instant,
}

/// How long a line may wait for others before it is handed to the system.
const WAIT: Duration = Duration::from_secs(1);

impl MetricsFile {
    /// Into this file. What it holds already is kept until the run starts, which may be one that
    /// goes on.
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

    /// How many bytes the file has to begin with. A file without any is a new one.
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

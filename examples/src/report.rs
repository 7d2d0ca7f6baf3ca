//! What a run tells: lines for people, JSON lines, a progress bar.

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// A line for the user.
pub fn print(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// JSON lines, or nothing.
#[derive(Debug)]
pub struct Metrics {
    file: Option<BufWriter<File>>,
}

impl Metrics {
    /// Into this file, if there is one.
    pub fn create(path: Option<&Path>) -> Result<Self, String> {
        let create = |path: &Path| {
            File::create(path).map_err(|e| format!("--metrics {}: {e}", path.display()))
        };
        Ok(Self { file: path.map(create).transpose()?.map(BufWriter::new) })
    }

    /// Writes a line.
    pub fn line(&mut self, value: &serde_json::Value) -> io::Result<()> {
        match &mut self.file {
            Some(file) => writeln!(file, "{value}"),
            None => Ok(()),
        }
    }

    /// Writes what is left.
    pub fn finish(self) -> io::Result<()> {
        self.file.map_or(Ok(()), |mut file| file.flush())
    }
}

/// A bar on a terminal, a line now and then elsewhere.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    terminal: bool,
    total: u64,
    every: u64,
}

impl Progress {
    /// For so many steps, with a line every few of them where there is no terminal.
    pub fn new(total: u64, every: u64) -> Self {
        let terminal = io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let template = "{bar:40} {pos}/{len}  {msg}  {rate}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{:.1} steps/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate));
        }
        Self { bar, terminal, total, every }
    }

    /// A step is done.
    pub fn step(&self, step: u64, loss: f32) -> io::Result<()> {
        self.bar.set_message(format!("loss {loss:.4}"));
        self.bar.set_position(step);
        if !self.terminal && step.is_multiple_of(self.every) {
            print(&format!("step {step}/{}  loss {loss:.4}", self.total))?;
        }
        Ok(())
    }

    /// A line that stays.
    pub fn line(&self, line: &str) -> io::Result<()> {
        self.bar.suspend(|| print(line))
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

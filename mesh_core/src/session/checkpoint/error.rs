//! The errors of checkpoints.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::manifest::VERSION;
use crate::names::{DType, suggestion};
use crate::session;

/// Why a checkpoint was not written, not read, or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The files are not as they were written: truncated, changed, or never a checkpoint.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A later release wrote it.
    #[error("{} is of format version {found}; this build reads version {VERSION}", path.display())]
    Version {
        /// The manifest's path.
        path: PathBuf,
        /// The manifest's version.
        found: u64,
    },
    /// A variable of the snapshot cannot be written.
    #[error("variable `{name}` cannot be saved: {problem}")]
    Variable {
        /// The variable's name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A pattern is no regular expression.
    #[error("{pattern:?} is no regular expression: {problem}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The checkpoint's variables are not those that were asked for.
    #[error(transparent)]
    Unfit(Box<Unfit>),
    /// A restore failed after it had set some variables.
    #[error(
        "{source}; {set} of {of} variables are set to the checkpoint's values, the others are not"
    )]
    Interrupted {
        /// The number of variables that were set.
        set: usize,
        /// The number of variables to set.
        of: usize,
        /// Why the next one could not be set.
        source: Box<CheckpointError>,
    },
    /// The session reported an error.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// Another process saves to the folder.
    #[error(
        "{by} saves checkpoints to {}: wait for it, end it, or name another folder",
        folder.display()
    )]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// The process, as far as it is known.
        by: String,
    },
    /// Another rank did not do its part.
    #[error("rank {rank}: {problem}")]
    Rank {
        /// The rank.
        rank: usize,
        /// The problem, in words.
        problem: String,
    },
    /// The thread that writes checkpoints is not running.
    #[error("checkpoints cannot be written beside training: {problem}")]
    Writer {
        /// The reason.
        problem: String,
    },
}

impl CheckpointError {
    pub(super) fn damaged(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.into(), problem: problem.into() }
    }
}

/// All differences between a checkpoint and what was asked of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Unfit {
    /// The checkpoint's folder.
    pub path: PathBuf,
    /// Variables for which there is no tensor.
    pub missing: Vec<Missing>,
    /// Tensors for which there is no variable.
    pub unused: Vec<Unused>,
    /// Variables whose tensors have another shape or dtype.
    pub differing: Vec<Differing>,
}

/// A variable for which there is no tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Missing {
    /// The variable's name.
    pub variable: String,
    /// The name of the tensor that was looked for: the variable's, or what a rename made of it.
    pub tensor: String,
    /// The unused tensor whose name is most like it.
    pub nearest: Option<String>,
}

/// A tensor for which there is no variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Unused {
    /// The tensor's name.
    pub tensor: String,
    /// Its dtype.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// A variable and a tensor of another shape or dtype.
#[derive(Clone, PartialEq, Debug)]
pub struct Differing {
    /// The variable's name.
    pub variable: String,
    /// Its dtype and shape.
    pub expected: (DType, Vec<usize>),
    /// The tensor's name.
    pub tensor: String,
    /// Its dtype and shape.
    pub found: (DType, Vec<usize>),
}

impl Unfit {
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unused.is_empty() && self.differing.is_empty()
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the checkpoint {} is not of these variables:", self.path.display())?;
        for Missing { variable, tensor, nearest } in &self.missing {
            write!(f, "\n  missing: variable `{variable}` ")?;
            match variable == tensor {
                true => f.write_str("is not in it")?,
                false => write!(f, "is to be `{tensor}`, which is not in it")?,
            }
            f.write_str(&suggestion(nearest))?;
        }
        for Unused { tensor, dtype, shape } in &self.unused {
            write!(f, "\n  extra: its `{tensor}`, {dtype}{shape:?}, is for no variable")?;
        }
        for Differing { variable, expected, tensor, found } in &self.differing {
            let (dtype, shape) = expected;
            write!(f, "\n  different: variable `{variable}` is {dtype}{shape:?}, ")?;
            write!(f, "its `{tensor}` is {}{:?}", found.0, found.1)?;
        }
        Ok(())
    }
}

impl std::error::Error for Unfit {}

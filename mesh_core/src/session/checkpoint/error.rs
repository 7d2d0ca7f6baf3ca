//! What can be wrong with a checkpoint.

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
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// Not what was written: cut off, changed, or never a checkpoint.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Written by a later release.
    #[error("{} is of format version {found}; this build reads version {VERSION}", path.display())]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// A snapshot that cannot be written.
    #[error("variable `{name}` cannot be saved: {problem}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Text that is no regular expression.
    #[error("{pattern:?} is no regular expression: {problem}")]
    Pattern {
        /// The text.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A checkpoint of other variables than those asked for.
    #[error(transparent)]
    Unfit(Box<Unfit>),
    /// The session refused.
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
        /// Which process, as far as it said so.
        by: String,
    },
    /// Another rank has not done its part.
    #[error("rank {rank}: {problem}")]
    Rank {
        /// Which one.
        rank: usize,
        /// What it has to do with the checkpoint.
        problem: String,
    },
    /// The thread that writes is not there.
    #[error("checkpoints cannot be written beside training: {problem}")]
    Writer {
        /// Why.
        problem: String,
    },
}

impl CheckpointError {
    pub(super) fn damaged(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.into(), problem: problem.into() }
    }
}

/// Everything in which a checkpoint and what is asked of it differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Unfit {
    /// The checkpoint.
    pub path: PathBuf,
    /// Variables without a tensor.
    pub missing: Vec<Missing>,
    /// Tensors without a variable.
    pub unused: Vec<Unused>,
    /// Variables whose tensors are of another shape or dtype.
    pub differing: Vec<Differing>,
}

/// A variable for which there is no tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Missing {
    /// The variable.
    pub variable: String,
    /// What its tensor would be called: as the variable, unless that is renamed.
    pub tensor: String,
    /// The unused tensor of the name most like that.
    pub nearest: Option<String>,
}

/// A tensor for which there is no variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Unused {
    /// The tensor.
    pub tensor: String,
    /// Its type.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// A variable and a tensor that does not fit it.
#[derive(Clone, PartialEq, Debug)]
pub struct Differing {
    /// The variable.
    pub variable: String,
    /// Its type and shape.
    pub expected: (DType, Vec<usize>),
    /// The tensor.
    pub tensor: String,
    /// Its type and shape.
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

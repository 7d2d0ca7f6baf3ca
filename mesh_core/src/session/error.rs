//! What can be wrong with a call.

use std::ops::Range;

use crate::exec::{Failure, NonFinite};
use crate::names::{DType, nearest, suggestion};

/// What a [`Session`](super::Session) refuses, or what stopped it. All but [`Error::Stopped`],
/// [`Error::NonFinite`] and [`Error::Replicas`] are found before anything runs.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The module cannot be run: a mistake of the compiler, or too little memory.
    #[error("the module cannot be run: {problem}")]
    Module {
        /// What is wrong.
        problem: String,
    },
    /// A name that means nothing here.
    #[error("there is no {kind} `{name}`{}: {}", suggestion(.nearest), list(.kind, .known))]
    Unknown {
        /// What was looked for: `function`, `variable`, or `feed` of some function.
        kind: String,
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
        /// The one most like it.
        nearest: Option<String>,
    },
    /// A typed call of a function with other numbers of feeds or fetches.
    #[error(
        "function `{function}` has {} feeds and {} fetches, not {} and {}",
        expected.0, expected.1, found.0, found.1
    )]
    Arity {
        /// The function.
        function: String,
        /// Its feeds and fetches.
        expected: (usize, usize),
        /// Those of the call.
        found: (usize, usize),
    },
    /// The handle of a function of another graph than the session's module was made of.
    #[error(
        "function `{function}` was declared in another graph than the session's module was lowered \
         from; call the function of that graph, or call it by its name with call_named"
    )]
    OtherGraph {
        /// The function.
        function: String,
    },
    /// A feed was left out.
    #[error("a call of `{function}` needs the feed `{feed}` as well")]
    MissingFeed {
        /// The function.
        function: String,
        /// What is missing.
        feed: String,
    },
    /// A feed was given twice.
    #[error("a call of `{function}` is given the feed `{feed}` twice")]
    RepeatedFeed {
        /// The function.
        function: String,
        /// What is there twice.
        feed: String,
    },
    /// An array of the wrong shape.
    #[error("{what} has shape {expected:?}, but the array given has shape {found:?}")]
    Shape {
        /// What the array is for.
        what: String,
        /// Global sizes in declared order.
        expected: Vec<usize>,
        /// The array's.
        found: Vec<usize>,
    },
    /// A feed that is neither whole nor what this process needs of it.
    #[error(
        "{what} has shape {expected:?}, of which this process needs {}, {addressable:?}: each dim of the \
         array given may have the one size or the other, but its shape is {found:?}",
        shape(.addressable)
    )]
    FeedShape {
        /// The feed.
        what: String,
        /// Global sizes in declared order.
        expected: Vec<usize>,
        /// The global indices that the processors of this process need.
        addressable: Vec<Range<usize>>,
        /// The array's.
        found: Vec<usize>,
    },
    /// An array of the wrong dtype.
    #[error("{what} is of dtype {expected}, but the array given is of {found}")]
    DType {
        /// What the array is for.
        what: String,
        /// Its dtype.
        expected: DType,
        /// The array's.
        found: DType,
    },
    /// Two processors hold different values of one slice.
    #[error(
        "after `{function}`, {what} differs between processors {} and {} at {index:?}: \
         {} is not {}",
        processors.0, processors.1, values.0, values.1
    )]
    Replicas {
        /// The function that was called.
        function: String,
        /// The variable or fetch.
        what: String,
        /// Who differ.
        processors: (usize, usize),
        /// Global index of the first element that differs.
        index: Vec<usize>,
        /// What each has there.
        values: (f64, f64),
    },
    /// A number was NaN or infinite, in this call or in an earlier one; see
    /// [`Target::check_numerics`](crate::lower::Target::check_numerics). The session runs nothing
    /// more; variables may be half written.
    #[error("{0}")]
    NonFinite(Box<NonFinite>),
    /// The back-end refuses what it is told, or cannot do it.
    #[error("{reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// A processor failed, in this call or in an earlier one. The session runs nothing more;
    /// variables may be half written.
    #[error("the session has stopped: {reason}")]
    Stopped {
        /// Which processor failed, where and how.
        reason: String,
    },
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NonFinite(found) => Self::NonFinite(found),
            Failure::Stopped(reason) => Self::Stopped { reason },
            refused => Self::Refused { reason: refused.to_string() },
        }
    }
}

impl Error {
    pub(super) fn unknown<'n>(
        kind: impl Into<String>,
        name: &str,
        known: impl Iterator<Item = &'n str> + Clone,
    ) -> Self {
        Self::Unknown {
            kind: kind.into(),
            name: name.to_owned(),
            nearest: nearest(name, known.clone()),
            known: known.map(str::to_owned).collect(),
        }
    }
}

fn shape(part: &[Range<usize>]) -> String {
    format!("{:?}", part.iter().map(Range::len).collect::<Vec<_>>())
}

fn list(kind: &str, names: &[String]) -> String {
    match names {
        [] => format!("there is no {kind} at all"),
        [name] => format!("the only one is `{name}`"),
        [names @ .., last] => format!("there are `{}` and `{last}`", names.join("`, `")),
    }
}

//! The errors of sessions.

use std::ops::Range;

use crate::exec::{Failure, NonFinite};
use crate::names::{DType, DimName, nearest, suggestion};

/// Why a [`Session`](super::Session) refused a call or stopped. All errors but [`Error::Stopped`],
/// [`Error::NonFinite`] and [`Error::Replicas`] are found before anything runs.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The module cannot be run: the compiler has made a mistake, or there is too little memory.
    #[error("the module cannot be run: {problem}")]
    Module {
        /// What is wrong.
        problem: String,
    },
    /// A name is unknown.
    #[error("there is no {kind} `{name}`{}: {}", suggestion(.nearest), list(.kind, .known))]
    Unknown {
        /// The kind of thing: `function`, `variable`, or `feed` of some function.
        kind: String,
        /// The name.
        name: String,
        /// The known names.
        known: Vec<String>,
        /// The known name that is most like it.
        nearest: Option<String>,
    },
    /// A typed call has another number of feeds or fetches than the function.
    #[error(
        "function `{function}` has {} feeds and {} fetches, not {} and {}",
        expected.0, expected.1, found.0, found.1
    )]
    Arity {
        /// The function's name.
        function: String,
        /// The function's numbers of feeds and fetches.
        expected: (usize, usize),
        /// The call's numbers of feeds and fetches.
        found: (usize, usize),
    },
    /// The handle is of a function of another graph than the session's.
    #[error(
        "function `{function}` was declared in another graph than the session's module was lowered \
         from; call the function of that graph, or call it by its name with call_named"
    )]
    OtherGraph {
        /// The function's name.
        function: String,
    },
    /// The function was declared after the session's module was lowered, or left out of a part of it.
    #[error(
        "the session's module lacks function `{function}` of its graph: it was declared after \
         Graph::lower, or left out of this part of the module; lower the graph again"
    )]
    NotLowered {
        /// The function's name.
        function: String,
    },
    /// A feed is missing.
    #[error("a call of `{function}` needs the feed `{feed}` as well")]
    MissingFeed {
        /// The function.
        function: String,
        /// The feed's name.
        feed: String,
    },
    /// A feed is given twice.
    #[error("a call of `{function}` is given the feed `{feed}` twice")]
    RepeatedFeed {
        /// The function.
        function: String,
        /// The feed's name.
        feed: String,
    },
    /// An array has the wrong shape.
    #[error(
        "{what} has shape {}, but the array given has shape {found:?}{}",
        named(.dims, .expected), differing(.dims, .expected, .found)
    )]
    Shape {
        /// The feed or variable.
        what: String,
        /// The names of its dims in declared order, if they are known.
        dims: Vec<DimName>,
        /// The expected sizes, global and in declared order.
        expected: Vec<usize>,
        /// The array's sizes.
        found: Vec<usize>,
    },
    /// A feed is neither the whole array nor the part that this process needs.
    #[error(
        "{what} has shape {}, of which this process needs {}, {addressable:?}: each dim of the \
         array given may have the one size or the other, but its shape is {found:?}",
        named(.dims, .expected), shape(.addressable)
    )]
    FeedShape {
        /// The feed.
        what: String,
        /// The names of its dims in declared order, if they are known.
        dims: Box<[DimName]>,
        /// The global sizes in declared order.
        expected: Vec<usize>,
        /// The global indices that the processors of this process need.
        addressable: Box<[Range<usize>]>,
        /// The array's sizes.
        found: Vec<usize>,
    },
    /// An array has the wrong dtype.
    #[error("{what} is of dtype {expected}, but the array given is of {found}")]
    DType {
        /// The feed or variable.
        what: String,
        /// The expected dtype.
        expected: DType,
        /// The type of the array's elements.
        found: String,
    },
    /// A dtype does not have an integer that is fed.
    #[error(
        "{what} is of dtype {expected}, which cannot hold {value} exactly, the {found} at {index:?} of the \
         array given"
    )]
    Integer {
        /// The feed or variable.
        what: String,
        /// The expected dtype.
        expected: DType,
        /// The type of the array's elements.
        found: String,
        /// The first number that the dtype cannot hold.
        value: i128,
        /// Where it stands in the array.
        index: Vec<usize>,
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
        /// The variable or the fetch.
        what: String,
        /// The two processors.
        processors: (usize, usize),
        /// The global index of the first element that differs.
        index: Vec<usize>,
        /// The two values.
        values: (f64, f64),
    },
    /// A number was NaN or infinite, in this call or in an earlier one; see
    /// [`Target::check_numerics`](crate::lower::Target::check_numerics). The session does not run
    /// any more, and variables may be half written.
    #[error("{0}")]
    NonFinite(Box<NonFinite>),
    /// The back-end refused a call, or lacks a capability that it needs.
    #[error("{reason}")]
    Refused {
        /// The back-end's reason.
        reason: String,
    },
    /// A processor failed, in this call or in an earlier one. The session does not run any more,
    /// and variables may be half written.
    #[error("the session has stopped: {reason}")]
    Stopped {
        /// The processor, the operation and the failure.
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

/// Sizes with the names of their dims.
fn named(dims: &[DimName], sizes: &[usize]) -> String {
    if dims.len() != sizes.len() {
        return format!("{sizes:?}");
    }
    let named = dims.iter().zip(sizes).map(|(dim, size)| format!("{dim}:{size}"));
    format!("[{}]", named.collect::<Vec<_>>().join(", "))
}

/// What differs from what is expected, if that can be said of single dims.
fn differing(dims: &[DimName], expected: &[usize], found: &[usize]) -> String {
    if dims.len() != expected.len() {
        return String::new();
    }
    if found.len() != expected.len() {
        let s = if found.len() == 1 { "" } else { "s" };
        return format!(": it has {} dim{s}, not {}", found.len(), expected.len());
    }
    let pairs = dims.iter().zip(expected.iter().zip(found));
    let differing = pairs.filter(|(_, (expected, found))| expected != found);
    let said: Vec<_> = differing
        .map(|(dim, (expected, found))| format!("{dim} is {expected}, not {found}"))
        .collect();
    format!(": {}", said.join("; "))
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

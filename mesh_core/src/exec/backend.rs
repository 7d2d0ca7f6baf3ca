//! The one door for back-ends: what runs a module.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::record::CallTimes;
use super::run::numerics::NonFinite;
use crate::array::{Array, ArrayRef};
use crate::names::ProcessMap;
use crate::program::Program;

/// Runs the functions of one module, and holds the variables' slices.
///
/// Functions and variables are named by their position in the module; the initialisation comes behind
/// the functions. Bytes of a slice are those of its elements in declared order, little-endian.
///
/// Where the processors are in several processes, each process has a back-end, and all of them are told
/// the same in the same order, but for [`addressable_slice`](Self::addressable_slice).
pub trait Backend: Send {
    /// What it is called, for messages.
    fn name(&self) -> &str;

    /// What it can do besides running functions.
    fn capabilities(&self) -> Capabilities;

    /// Which processor is in which process.
    fn map(&self) -> &ProcessMap;

    /// The processes, of which there may be one, and which of them this is.
    fn processes(&self) -> Processes {
        Processes::default()
    }

    /// Whether something is so in any of the processes.
    fn any(&self, here: bool) -> bool {
        here
    }

    /// What everything random follows from.
    fn seed(&self) -> u64;

    /// Sets what everything random of later calls follows from.
    fn set_seed(&mut self, seed: u64);

    /// Runs a function on every processor, with global arrays in the order, shapes and dtypes of the
    /// program's slots: feeds; fetches and probes, which are overwritten. A dim of a feed may
    /// have the size of the part that the processors of this process need, from the first to the last
    /// index, and then is that part.
    ///
    /// # Errors
    /// Arrays that do not fit, when nothing runs; or a processor that fails. After that every call gives
    /// the same error.
    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        fetches: &mut [Array],
        probes: &mut [Array],
    ) -> Result<(), Failure>;

    /// The bytes of a processor's slice of a variable, which it holds.
    ///
    /// # Errors
    /// A processor or variable that there is not.
    fn slice(&self, processor: usize, variable: usize) -> Result<Cow<'_, [u8]>, Failure>;

    /// As [`slice`](Self::slice), of a processor of this process: the others are not asked.
    ///
    /// # Errors
    /// As there.
    fn addressable_slice(
        &self,
        processor: usize,
        variable: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        self.slice(processor, variable)
    }

    /// Sets the bytes of a processor's slice of a variable, which it holds.
    ///
    /// # Errors
    /// A processor or variable that there is not, or another number of bytes.
    fn set_slice(&mut self, processor: usize, variable: usize, bytes: &[u8])
    -> Result<(), Failure>;

    /// The bytes of a processor's slice of a fetch or probe, as the last call left them; they mean
    /// something if that call was of this function.
    ///
    /// # Errors
    /// A back-end that cannot say ([`Capabilities::replicas`]).
    fn fetched_slice(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        let _ = (processor, function, fetch);
        Err(self.lacks("tell the processors' slices of fetches apart"))
    }

    /// Another back-end that has the same variables, in the same memory, and all else of its own, so that
    /// another thread calls functions at the same time. While several have them, each refuses to write any.
    ///
    /// # Errors
    /// A back-end that cannot, or has no memory or threads for another.
    fn share(&self) -> Result<Box<dyn Backend>, Failure> {
        Err(self.lacks("share its variables with another session"))
    }

    /// Whether to note when each step of a call began and ended.
    ///
    /// # Errors
    /// A back-end that cannot ([`Capabilities::records`]).
    fn record(&mut self, on: bool) -> Result<(), Failure> {
        if on { Err(self.lacks("record when steps run")) } else { Ok(()) }
    }

    /// What a processor of this process did in the last call, if that was recorded: the program that ran,
    /// and when its steps did.
    fn recorded(&self, processor: usize) -> Option<(&Program, CallTimes)> {
        let _ = processor;
        None
    }

    /// The failure of what it cannot do.
    fn lacks(&self, what: &str) -> Failure {
        Failure::Unsupported { backend: self.name().to_owned(), what: what.to_owned() }
    }
}

/// What a back-end can do besides running functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// It can note when each step of a call began and ended.
    pub records: bool,
    /// It can tell what each processor has of a fetch, so that replicas can be compared.
    pub replicas: bool,
}

impl Capabilities {
    /// All there are.
    pub fn all() -> Self {
        Self { records: true, replicas: true }
    }
}

/// The processes that run a module together, and which of them this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processes {
    /// A number of theirs alone, the same in all of them.
    pub id: u64,
    /// Which of them this is.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
    /// How long one waits for another.
    pub deadline: Duration,
}

impl Default for Processes {
    /// One process, which waits for nobody.
    fn default() -> Self {
        Self { id: std::process::id().into(), rank: 0, ranks: 1, deadline: Duration::ZERO }
    }
}

/// Why a back-end does not do what it is told.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// It was asked for what its module or mesh does not have, or given what does not fit; nothing has
    /// happened.
    Refused(String),
    /// A processor failed: which, where and how. Nothing runs any more.
    Stopped(String),
    /// A number that a step has made is not finite. Nothing runs any more.
    NonFinite(Box<NonFinite>),
    /// It cannot do this at all.
    Unsupported {
        /// The back-end.
        backend: String,
        /// What it cannot do.
        what: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) | Self::Stopped(reason) => f.write_str(reason),
            Self::NonFinite(found) => found.fmt(f),
            Self::Unsupported { backend, what } => write!(f, "back-end {backend} cannot {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn map(&self) -> &ProcessMap {
        (**self).map()
    }

    fn processes(&self) -> Processes {
        (**self).processes()
    }

    fn any(&self, here: bool) -> bool {
        (**self).any(here)
    }

    fn seed(&self) -> u64 {
        (**self).seed()
    }

    fn set_seed(&mut self, seed: u64) {
        (**self).set_seed(seed);
    }

    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        fetches: &mut [Array],
        probes: &mut [Array],
    ) -> Result<(), Failure> {
        (**self).call(function, feeds, fetches, probes)
    }

    fn slice(&self, processor: usize, variable: usize) -> Result<Cow<'_, [u8]>, Failure> {
        (**self).slice(processor, variable)
    }

    fn addressable_slice(
        &self,
        processor: usize,
        variable: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        (**self).addressable_slice(processor, variable)
    }

    fn set_slice(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        (**self).set_slice(processor, variable, bytes)
    }

    fn fetched_slice(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        (**self).fetched_slice(processor, function, fetch)
    }

    fn share(&self) -> Result<Box<dyn Backend>, Failure> {
        (**self).share()
    }

    fn record(&mut self, on: bool) -> Result<(), Failure> {
        (**self).record(on)
    }

    fn recorded(&self, processor: usize) -> Option<(&Program, CallTimes)> {
        (**self).recorded(processor)
    }
}

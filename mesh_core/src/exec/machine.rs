//! What a session needs of whatever runs its module.
#![allow(unsafe_code, reason = "reads the processors' memory between calls")]

use std::borrow::Cow;
use std::time::Duration;

use super::addressable::{Addressable, Hull};
use super::border::{Border, Global};
use super::numerics::NonFinite;
use super::record::CallTimes;
use super::threads::Crew;
use crate::array::{Array, ArrayRef};
use crate::names::{DType, ProcessMap};
use crate::program::{Compiled, Program, Value};

/// The processes that run a module together, and which of them this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Processes {
    /// A number of theirs alone, the same in all of them.
    pub(crate) id: u64,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    /// How long one waits for another.
    pub(crate) deadline: Duration,
}

impl Default for Processes {
    /// One process, which waits for nobody.
    fn default() -> Self {
        Self { id: std::process::id().into(), rank: 0, ranks: 1, deadline: Duration::ZERO }
    }
}

/// The processors, memory and prepared functions of a module.
///
/// Where the processors are in several processes, each has a machine, all of them are told the same
/// in the same order, and what gives or takes a processor's slice works for every processor. What
/// stands here is right for one process, whose crew has all processors.
pub(crate) trait Machine: Send {
    /// The processors of this process.
    fn crew(&self) -> &Crew;

    /// The same.
    fn crew_mut(&mut self) -> &mut Crew;

    /// Which processor is in which process.
    fn map(&self) -> &ProcessMap {
        &self.crew().process.map
    }

    /// The processes, of which there may be one.
    fn processes(&self) -> Processes {
        Processes::default()
    }

    /// Whether this process runs the processor.
    fn is_here(&self, processor: usize) -> bool {
        self.crew().process.index(processor).is_some()
    }

    /// Whether something is so in any of the processes.
    fn any(&self, here: bool) -> bool {
        here
    }

    /// What everything random follows from.
    fn seed(&self) -> u64 {
        self.crew().seed().get()
    }

    /// Sets what everything random of later calls follows from.
    fn set_seed(&mut self, seed: u64) {
        self.crew().seed().set(seed);
    }

    /// Whether to note when each step of a call began and ended.
    fn record(&mut self, on: bool) {
        self.crew_mut().record(on);
    }

    /// The function of the last call and what a processor did in it, if it was recorded, by this
    /// process.
    fn recorded(&self, processor: usize) -> Option<(&Compiled, CallTimes)> {
        self.crew().recorded(processor)
    }

    /// The first number that is not finite, if it stopped a call.
    fn found(&self) -> Option<&NonFinite> {
        self.crew().found()
    }

    /// The functions, in the order they were given in.
    fn functions(&self) -> &[Compiled] {
        self.crew().functions()
    }

    /// What of a function's feeds the processors of this process need.
    fn addressable(&self, function: usize) -> &[Hull] {
        self.crew().addressable(function).hulls()
    }

    /// What each processor holds of a variable.
    fn variable(&self, variable: usize) -> &Value {
        self.crew().variable(variable)
    }

    /// Runs a function on every processor. Feeds, and outputs followed by what probes show, have the
    /// order, shapes and dtypes of the program's slots, or else nothing runs; a dim of a feed may
    /// have the size of what is [`addressable`](Self::addressable) of it, and then is that. After a
    /// run that failed every call gives the same error.
    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        outputs: &mut [Array],
        shown: &mut [Array],
    ) -> Result<(), String> {
        let addressable = self.crew().addressable(function);
        fits(&self.functions()[function].program, addressable, feeds, outputs, shown)?;
        // SAFETY: they fit.
        unsafe { self.run(function, feeds, outputs, shown) }
    }

    /// As [`call`](Self::call).
    ///
    /// # Safety
    ///
    /// [`fits`] says that the arrays fit.
    unsafe fn run(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        outputs: &mut [Array],
        shown: &mut [Array],
    ) -> Result<(), String> {
        // SAFETY: the same contract.
        unsafe { self.crew_mut().run(function, feeds, outputs, shown) }
    }

    /// Copies a processor's slice of a variable into an array, to where it `begin`s there.
    fn read(
        &self,
        processor: usize,
        variable: usize,
        begin: &[usize],
        array: &mut Array,
    ) -> Result<(), String> {
        let value = self.variable(variable);
        let border = border(value, begin, array.dtype(), array.shape())?;
        let slice = self.variable_bytes(processor, variable);
        expect_bytes(value, &slice)?;
        // SAFETY: the slice lies within the array, which we borrow.
        unsafe { border.paste(slice.as_ptr(), &Global::of_mut(array)) };
        Ok(())
    }

    /// Sets a processor's slice of a variable to what an array has from `begin` on.
    fn write(
        &mut self,
        processor: usize,
        variable: usize,
        begin: &[usize],
        array: &ArrayRef<'_>,
    ) -> Result<(), String> {
        self.crew_mut().write(processor, variable, begin, array)
    }

    /// The bytes of a processor's slice of a variable.
    fn variable_bytes(&self, processor: usize, variable: usize) -> Cow<'_, [u8]> {
        self.crew().variable_bytes(processor, variable).unwrap_or_default().into()
    }

    /// As [`variable_bytes`](Self::variable_bytes), of a processor that is here: other processes are
    /// not asked.
    fn bytes_here(&self, processor: usize, variable: usize) -> &[u8] {
        self.crew().variable_bytes(processor, variable).unwrap_or_default()
    }

    /// Sets the bytes of a processor's slice of a variable, which it holds.
    fn set_variable_bytes(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), String> {
        self.crew_mut().set_variable_bytes(processor, variable, bytes)
    }

    /// The bytes of a processor's slice of a fetch, as the last call left them. They mean something
    /// if that call was of this function.
    fn fetch_bytes(&self, processor: usize, function: usize, fetch: usize) -> Cow<'_, [u8]> {
        self.crew().fetch_bytes(processor, function, fetch).unwrap_or_default().into()
    }
}

/// Whether arrays have the order, shapes and dtypes of a program's slots, feeds in what is
/// addressable of them.
pub(super) fn fits(
    program: &Program,
    addressable: &Addressable,
    feeds: &[ArrayRef<'_>],
    outputs: &[Array],
    shown: &[Array],
) -> Result<(), String> {
    let outputs = || outputs.iter().chain(shown);
    let mut left = program.left().zip(outputs());
    if !addressable.fits(program, feeds)
        || program.block.results.len() != outputs().count()
        || !left.all(|((slot, value), output)| {
            program.value(value).dtype == output.dtype() && slot.shape == output.shape()
        })
    {
        return Err(format!("the arrays do not fit the slots of `{}`", program.name));
    }
    Ok(())
}

/// Where a slice of a variable lies in an array of this dtype and shape.
pub(super) fn border(
    value: &Value,
    begin: &[usize],
    dtype: DType,
    shape: &[usize],
) -> Result<Border, String> {
    let ranks = (shape.len(), begin.len()) == (value.extents.len(), value.extents.len());
    let mut dims = begin.iter().zip(&value.extents).zip(shape);
    let within = dims.all(|((begin, extent), size)| begin + extent <= *size);
    if dtype != value.dtype || !ranks || !within {
        return Err(format!("a slice {value} at {begin:?} is not of {dtype}{shape:?}"));
    }
    Ok(Border::new(value, begin))
}

/// Checks that bytes are as many as a slice has.
pub(super) fn expect_bytes(value: &Value, bytes: &[u8]) -> Result<(), String> {
    if bytes.len() == value.bytes() {
        return Ok(());
    }
    Err(format!("{} bytes are no slice {value}", bytes.len()))
}

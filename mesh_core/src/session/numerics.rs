//! Stopping at the first number that is not finite.

use super::Session;

impl Session {
    /// Whether to look at every number that steps write, and to stop a call at the first that is
    /// NaN, or infinite without having been given an infinity. Off at first, when it costs nothing;
    /// on, it reads every value once more, which makes a call a few times slower.
    ///
    /// The call then ends with [`Error::NonFinite`](super::Error::NonFinite), which names the
    /// operation, the step, the processor, the round of a loop, the place in the tensor, the numbers
    /// beside it, and what the step was given. As after any step that fails, the session runs nothing
    /// more, and variables may be half written: make another one, of a module lowered without
    /// `fusion` if the step is one of several operations merged.
    ///
    /// NaN always counts. An infinity counts where it is made: by a step that was given none. What
    /// somebody wrote is meant, and so is what comes of it: infinities in feeds, in variables at the
    /// call's start, in constants and in the literals of an elementwise expression, what padding is
    /// filled with. So `-inf` in a mask passes; `log(0)`, a division by zero and an overflow do not.
    ///
    /// ```
    /// # use mesh_core::{lower::Module, graph::Function, session::{Error, Session}};
    /// # use mesh_core::array::ArrayRef;
    /// # fn doc(module: &Module, train: &Function<1, 1>, batch: ArrayRef<'_>) -> Result<(), Error> {
    /// let mut session = Session::threads(module, 0)?;
    /// session.set_numerics_check(true);
    /// if let Err(Error::NonFinite(found)) = session.call(train, [batch]) {
    ///     eprintln!("{found}");
    ///     assert!(found.origin.at.contains(".rs:"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_numerics_check(&mut self, on: bool) {
        self.machine.inspect(on);
    }
}

//! Stops a call at the first number that is not finite.

use super::Session;

impl Session {
    /// Switches the numerics check on or off. It examines every number that a step writes and stops
    /// the call at the first NaN, and at the first infinity that a step makes of finite inputs. It
    /// is off at first, where it costs nothing. When it is on, every value is read once more, which
    /// makes a call a few times slower.
    ///
    /// The call then ends with [`Error::NonFinite`](super::Error::NonFinite), which names the
    /// operation, the step, the processor, the iteration of a loop, the index in the tensor, the
    /// numbers beside it and the step's inputs. As after any failed step, the session does not run
    /// any more, and variables may be half written: make another session. If the step merges
    /// several operations, lower the module without `fusion`.
    ///
    /// A step is not stopped for an infinity if one of its inputs has an infinity. Infinities that
    /// a user wrote are inputs: in feeds, in variables at the start of a call, in constants, in
    /// literals of elementwise expressions and in padding. So `-inf` in a mask passes, while
    /// `log(0)`, a division by zero and an overflow do not.
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

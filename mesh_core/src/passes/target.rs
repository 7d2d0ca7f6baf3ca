//! What a module is compiled for.

use super::{Machine, PassId};

/// A kind of machine: the passes that a module goes through for it, and what they know of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The name, for messages.
    pub name: &'static str,
    /// Exactly the passes that run, in this order, after the [portable](super::PORTABLE) ones.
    pub passes: Vec<PassId>,
    /// What passes know of the machine.
    pub machine: Machine,
    /// Whether to look at every number that a step makes, and to stop a call at the first that is not
    /// finite; see [`check_numerics`](Self::check_numerics).
    pub check_numerics: bool,
}

/// The passes for processors that are cores of a host.
const HOST: [PassId; 11] = [
    PassId::ElementwiseProducts,
    PassId::KeptValues,
    PassId::SummedProducts,
    PassId::Folds,
    PassId::Fusion,
    PassId::MemoryOrder,
    PassId::Tiles,
    PassId::Slices,
    PassId::EarlyReductions,
    PassId::CombineAllReduces,
    PassId::Overlap,
];

impl Target {
    /// Processors that are cores of a host.
    pub fn host() -> Self {
        let (passes, machine) = (HOST.to_vec(), Machine::host());
        Self { name: "host", passes, machine, check_numerics: false }
    }

    /// The target for another machine of the same kind.
    pub fn on(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    /// The target without a pass: to look for what makes a difference.
    pub fn without(mut self, pass: PassId) -> Self {
        self.passes.retain(|own| *own != pass);
        self
    }

    /// The target with every number looked at that a step writes. A call stops at the first that is NaN,
    /// or infinite without having been given an infinity; it reads every value once more, which makes it
    /// a few times slower. What is under way cannot be looked at, so nothing overlaps; what is folded is written
    /// first, so that it has a place.
    ///
    /// The call then ends with an error that names the operation, the step, the processor, the iteration
    /// of a loop, the place in the tensor, the numbers beside it, and what the step was given. As after
    /// any step that fails, the session runs nothing more, and variables may be half written: make
    /// another one, of a module compiled [without](Self::without) fusion if the step is one of several
    /// operations merged.
    ///
    /// NaN always counts. An infinity counts where it is made: by a step that was given none. What
    /// somebody wrote is meant, and so is what comes of it: infinities in feeds, in variables at the
    /// call's start, in constants and in the literals of an elementwise expression, what padding is
    /// filled with. So `-inf` in a mask passes; `log(0)`, a division by zero and an overflow do not.
    pub fn check_numerics(self) -> Self {
        Self { check_numerics: true, ..self.without(PassId::Overlap).without(PassId::Folds) }
    }
}

impl Default for Target {
    fn default() -> Self {
        Self::host()
    }
}

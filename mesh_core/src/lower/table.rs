//! Where everything lies in one function: what the place sweep makes and the emit sweep follows.

use super::placed::Placed;
use super::relayout::Route;
use crate::graph::{OperationId, TensorId};
use smallvec::SmallVec;
use std::rc::Rc;

/// A tensor in one placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VersionId(pub(super) u32);

impl VersionId {
    /// The end of a list, and the version of what has none.
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) tensor: TensorId,
    pub(crate) placement: Placed,
    /// How it is made out of another version; `None` for what an operation makes.
    pub(crate) source: Option<(VersionId, Rc<Route>)>,
    /// The phase it belongs to, for what is gathered out of a variable.
    pub(super) phase: Option<u32>,
    /// The version of the same tensor that is made after it.
    pub(super) next: VersionId,
}

/// One operation's inputs and outputs.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) operation: OperationId,
    pub(crate) inputs: SmallVec<[VersionId; 3]>,
    pub(crate) outputs: SmallVec<[VersionId; 2]>,
    /// The outputs are the first inputs; nothing is emitted.
    pub(crate) alias: bool,
    /// For a loop, where everything lies in its body.
    pub(crate) body: Option<Rc<Table>>,
}

/// Where everything lies in one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
    pub(crate) versions: Vec<Version>,
    /// What a loop's body is given.
    pub(crate) given: Vec<VersionId>,
    pub(crate) fetches: Vec<VersionId>,
}

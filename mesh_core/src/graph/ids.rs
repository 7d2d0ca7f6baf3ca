//! Numbers by which a graph's parts are known.

use crate::names::RuleSet;
use crate::program::VariableId;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which graph of this process; the default is none of them.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct GraphId(u64);

impl GraphId {
    /// One that no other graph has.
    pub(super) fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self(MADE.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Always the same text: what is printed of a module must not depend on how many graphs there are.
impl fmt::Debug for GraphId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GraphId")
    }
}

/// Number of a tensor in its graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub(crate) u32);

/// Number of an operation in its graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub(crate) u32);

/// Number of a region in its graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RegionId(pub(super) u32);

impl fmt::Debug for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op{}", self.0)
    }
}

impl TensorId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl OperationId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl RegionId {
    /// The region of what is in no loop's body.
    pub(crate) const OUTERMOST: Self = Self(0);
}

/// Which rules lay a tensor out: a rule set and, for parameters and slots, whose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// The rule set.
    pub set: RuleSet,
    /// The trainable variable whose `*` dims count.
    pub variable: Option<VariableId>,
}

impl Key {
    /// Where models compute.
    pub const COMPUTE: Self = Self { set: RuleSet::Compute, variable: None };
}

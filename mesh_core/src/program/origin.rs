//! Where a step comes from.

use crate::names::{AxisList, Dimension};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::{fmt, slice};

/// Where a step comes from, for errors, `explain` and traces.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Origin {
    /// Kind of the operation (`einsum`).
    pub op: String,
    /// Unique name of the operation in its graph.
    pub name: String,
    /// The user's source line, `src/main.rs:17`.
    pub at: String,
    /// For an operation that other code made at that line, what as: `gradient`.
    pub note: String,
    /// The operation that it was made for, by name (`einsum`), if it was made for one.
    pub owner: String,
    /// The owner's source line, and what the owner was made for if other code made it.
    pub owner_at: String,
    /// Its outputs: global dims, the axes they are split over, sums owed.
    pub slice: String,
    /// The dims of its inputs and outputs.
    pub dims: Vec<DimUse>,
    /// Axes along which its inputs or outputs are parts of sums.
    pub parts: AxisList,
    /// That some processors do more of it than others, as far as the operation says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uneven: Option<Uneven>,
    /// Whether a pass has it done again, in the gradient of a loop that has done it before, rather than keep what it
    /// made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// The operations that a pass has merged into this one, if it is several; the first and the last
    /// are named above.
    pub merged: Vec<Arc<Origin>>,
}

/// A dim of an operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct DimUse {
    /// The dim.
    pub dim: Dimension,
    /// The axes that it is split over.
    pub axes: AxisList,
    /// Whether the operation allows it to be split.
    pub splits: bool,
}

/// Work of which one processor does more than the mean.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Uneven {
    /// The axes along which processors differ, major first.
    pub axes: AxisList,
    /// How many processors there are along these axes.
    pub processors: usize,
    /// Which of them does most.
    pub busiest: usize,
    /// What it does.
    pub most: u64,
    /// What all of them do.
    pub total: u64,
    /// What is counted: `blocks of attention`.
    pub unit: String,
    /// What would make it even; empty if nothing is known to.
    pub remedy: String,
}

impl Uneven {
    /// What a processor does in the mean.
    pub fn mean(&self) -> f64 {
        self.total as f64 / self.processors.max(1) as f64
    }
}

impl Origin {
    /// What the operation was made for, if other code made it: `gradient of einsum`. Else empty.
    pub fn purpose(&self) -> String {
        if self.owner.is_empty() {
            return self.note.clone();
        }
        format!("{} of {}", self.note, self.owner)
    }

    /// The source line, and what it was made for: `src/main.rs:17 (gradient of einsum at src/main.rs:12)`.
    pub fn place(&self) -> String {
        match (self.purpose(), self.owner_at.as_str()) {
            (purpose, _) if purpose.is_empty() => self.at.clone(),
            (purpose, "") => format!("{} ({purpose})", self.at),
            (purpose, at) => format!("{} ({purpose} at {at})", self.at),
        }
    }

    /// The operations: those merged, or the one.
    pub fn operations(self: &Arc<Self>) -> &[Arc<Self>] {
        if self.merged.is_empty() { slice::from_ref(self) } else { &self.merged }
    }

    /// The origin of a step that does what steps of two origins did, and stands where the second
    /// stood.
    pub(crate) fn merge(one: &Arc<Self>, two: &Arc<Self>) -> Arc<Self> {
        let mut merged = one.operations().to_vec();
        for origin in two.operations() {
            if !merged.contains(origin) {
                merged.push(Arc::clone(origin));
            }
        }
        let (op, name) = (joined(&one.op, &two.op), joined(&one.name, &two.name));
        Arc::new(Self { op, name, merged, ..Self::clone(two) })
    }
}

/// Two names, or chains of names, as one chain; a long chain keeps its first and its last name.
fn joined(one: &str, two: &str) -> String {
    let first = one.split('+').next().unwrap_or(one);
    let last = two.rsplit('+').next().unwrap_or(two);
    let middle = if one.contains('+') || two.contains('+') { "+…+" } else { "+" };
    format!("{first}{middle}{last}")
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.name.is_empty() { &self.op } else { &self.name })?;
        if self.at.is_empty() { Ok(()) } else { write!(f, " at {}", self.place()) }
    }
}

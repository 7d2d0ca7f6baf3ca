//! Which processors train together.

use mesh_core::names::{Mesh, NameError};
use serde_json::Value;
use thiserror::Error;

/// Why a group assignment was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Something else.
    #[error(
        "group_assignment must be a list of lists of processors, as in [[0, 1], [2, 3]]; got {0}"
    )]
    NotLists(String),
    /// A processor that is missing, named twice, or not there.
    #[error("group_assignment must name each processor of 0..{processors} once; got {assignment}")]
    NotAPermutation {
        /// How many processors there are.
        processors: usize,
        /// What was given.
        assignment: String,
    },
    /// Groups of several sizes.
    #[error("the groups of group_assignment must be of one size; got {0}")]
    Sizes(String),
}

/// Processors in groups of one size, each of which trains apart from the others.
///
/// As a mesh it has an axis over groups and one within them, and an order of the processors. What
/// differs between groups has a dim for them: variables `[member, ...]`, batches
/// `[member, batch, ...]`, with the layout `member:group;batch:data`.
///
/// ```
/// use mesh_optimize::Groups;
///
/// let groups = Groups::parse("[[0, 3], [1, 2]]", 4)?.ok_or("there are no groups")?;
/// let mesh = groups.mesh("group", "data")?;
/// assert_eq!(mesh.to_string(), "group:2;data:2");
/// assert_eq!([0, 1, 2, 3].map(|part| mesh.physical(part)), [0, 3, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Groups {
    /// Group by group.
    order: Vec<usize>,
    groups: usize,
}

impl Groups {
    /// `assignment` lists the processors of each group; each of `0..processors` is named once. No
    /// groups at all are none: all processors train together.
    pub fn new(assignment: &[Vec<usize>], processors: usize) -> Result<Option<Self>, GroupError> {
        let Some(first) = assignment.first() else { return Ok(None) };
        let order = assignment.concat();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..processors) {
            let assignment = format!("{assignment:?}");
            return Err(GroupError::NotAPermutation { processors, assignment });
        }
        if assignment.iter().any(|group| group.len() != first.len()) {
            return Err(GroupError::Sizes(format!("{assignment:?}")));
        }
        Ok(Some(Self { order, groups: assignment.len() }))
    }

    /// As [`new`](Self::new), of text like `[[0, 3], [1, 2]]`.
    pub fn parse(text: &str, processors: usize) -> Result<Option<Self>, GroupError> {
        let refuse = || GroupError::NotLists(text.to_owned());
        let id = |value: &Value| usize::try_from(value.as_u64()?).ok();
        let group = |value: &Value| value.as_array()?.iter().map(id).collect::<Option<Vec<_>>>();
        let value: Value = serde_json::from_str(text).map_err(|_| refuse())?;
        let lists = value.as_array().and_then(|groups| groups.iter().map(group).collect());
        let lists: Vec<Vec<usize>> = lists.ok_or_else(refuse)?;
        Self::new(&lists, processors)
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// How many processors each has: what `MEAN` divides by.
    pub fn size(&self) -> usize {
        self.order.len() / self.groups
    }

    /// The mesh whose axis `group` leads from group to group and whose axis `within` leads from one
    /// processor of a group to the next.
    pub fn mesh(&self, group: &str, within: &str) -> Result<Mesh, NameError> {
        Mesh::new([(group, self.groups), (within, self.size())])?.with_order(self.order.clone())
    }
}

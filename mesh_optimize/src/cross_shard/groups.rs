//! Groups of processors that train together.

use mesh_core::names::{Mesh, NameError};
use serde_json::Value;
use thiserror::Error;

/// Why a group assignment was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The text is not a list of lists of processors.
    #[error(
        "group_assignment must be a list of lists of processors, as in [[0, 1], [2, 3]]; got {0}"
    )]
    NotLists(String),
    /// A processor is missing, is named twice or does not exist.
    #[error("group_assignment must name each processor of 0..{processors} once; got {assignment}")]
    NotAPermutation {
        /// How many processors there are.
        processors: usize,
        /// What was given.
        assignment: String,
    },
    /// The groups have several sizes.
    #[error("the groups of group_assignment must be of one size; got {0}")]
    Sizes(String),
}

/// Groups of processors, all of one size. Each group trains apart from the others.
///
/// The mesh of such groups has one axis over the groups and one within a group, and an order of the
/// processors. Tensors that differ between groups have a dim for that: variables `[member, ...]`
/// and batches `[member, batch, ...]`, with the layout `member:group;batch:data`.
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
    /// The processors, group by group.
    order: Vec<usize>,
    groups: usize,
}

impl Groups {
    /// `assignment` lists the processors of each group; together the groups name each of
    /// `0..processors` once. An empty list gives `None`: all processors train together.
    ///
    /// ```
    /// let groups = mesh_optimize::Groups::new(&[vec![0, 3], vec![1, 2]], 4)?.ok_or("there are no groups")?;
    /// assert_eq!((groups.groups(), groups.size()), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a processor is missing, named twice or not below `processors`, or if the groups have
    /// several sizes.
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

    /// Reads text like `[[0, 3], [1, 2]]` for [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// If the text is not a list of lists of numbers, or as [`new`](Self::new).
    pub fn parse(text: &str, processors: usize) -> Result<Option<Self>, GroupError> {
        let refuse = || GroupError::NotLists(text.to_owned());
        let id = |value: &Value| usize::try_from(value.as_u64()?).ok();
        let group = |value: &Value| value.as_array()?.iter().map(id).collect::<Option<Vec<_>>>();
        let value: Value = serde_json::from_str(text).map_err(|_| refuse())?;
        let lists = value.as_array().and_then(|groups| groups.iter().map(group).collect());
        let lists: Vec<Vec<usize>> = lists.ok_or_else(refuse)?;
        Self::new(&lists, processors)
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The number of processors in a group; [`Reduction::Mean`](crate::Reduction) divides by it.
    pub fn size(&self) -> usize {
        self.order.len() / self.groups
    }

    /// The mesh with the axis `group` over groups and the axis `within` over the processors of a
    /// group.
    ///
    /// # Errors
    ///
    /// If one of the two is no name for an axis, or both are the same.
    pub fn mesh(&self, group: &str, within: &str) -> Result<Mesh, NameError> {
        Mesh::new([(group, self.groups), (within, self.size())])?.with_order(self.order.clone())
    }
}

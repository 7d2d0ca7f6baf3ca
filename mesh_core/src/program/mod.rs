//! The Program: what each processor does, as a list of steps of a closed set of forms.
//!
//! One program serves every processor of the mesh. What differs between processors (where a slice
//! begins, who sends to whom) is written as an [`Offset`] or a group of axes and evaluated from the
//! processor's coordinates when the program runs. So a program for 4,096 processors is as long as
//! one for 4, and every collective is met by all members of its group by construction.
//!
//! This room knows no graph and no layout: names, sizes and numbers only.

mod builder;
mod call;
mod cost;
mod expr;
mod flow;
mod generator;
mod plan;
mod print;
mod rounds;
mod scalar;
#[cfg(test)]
pub(crate) mod sketch;
mod step;
mod verify;

pub use builder::Builder;
pub use call::{Elements, ElementsMut, Opaque, UserKernel, View, ViewMut};
pub use cost::{Cost, cost};
pub use expr::Expr;
pub use generator::Generator;
pub use plan::{ALIGNMENT, Compiled, Place, Plan};
pub use print::print;
pub use rounds::{Rounds, is_stack};
pub use scalar::{Body, Instr, Prim, Reg, Scalar};
pub use step::{Dims, Extents, FoldOrder, Offset, Operand, Piece, Step, Window};
pub use verify::verify;

use crate::names::{Axis, AxisList, DType, Mesh};
use smallvec::SmallVec;
use std::sync::Arc;
use std::{fmt, slice};

/// A value of a program; prints as `%7`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// Position in [`Program::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A variable of a module; prints as `var3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub(crate) u32);

impl VariableId {
    /// Position in the module's variable table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for VariableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "var{}", self.0)
    }
}

/// What one processor holds of a tensor: element type and local extents in declared dim order.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Value {
    /// Element type.
    pub dtype: DType,
    /// Local size of each dim, in declared order.
    pub extents: Extents,
    /// Memory order: position `i` (outermost first) holds dim `order[i]`.
    pub order: Dims,
}

impl Clone for Value {
    /// All at once, where the derived one goes dim by dim.
    fn clone(&self) -> Self {
        let Self { dtype, extents, order } = self;
        let (extents, order) = (Extents::from_slice(extents), Dims::from_slice(order));
        Self { dtype: *dtype, extents, order }
    }
}

impl Value {
    /// A value in declared order.
    pub fn new(dtype: DType, extents: impl IntoIterator<Item = usize>) -> Self {
        let extents: Extents = extents.into_iter().collect();
        let order = (0..extents.len() as u8).collect();
        Self { dtype, extents, order }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.extents.iter().product()
    }

    /// Whether it has no elements. Never true of a verified program.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// Elements between neighbours along each dim, in declared order.
    pub fn strides(&self) -> Extents {
        let mut strides = Extents::from_elem(0, self.extents.len());
        let mut step = 1;
        for &dim in self.order.iter().rev() {
            strides[dim as usize] = step;
            step *= self.extents[dim as usize];
        }
        strides
    }

    /// Whether memory order is declared order.
    pub fn in_order(&self) -> bool {
        self.order.iter().enumerate().all(|(i, &dim)| i == dim as usize)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.extents.as_slice())?;
        if !self.in_order() {
            write!(f, " order {:?}", self.order.as_slice())?;
        }
        Ok(())
    }
}

/// Where a step comes from, for errors, `explain` and traces.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Origin {
    /// Kind of the operation (`einsum`).
    pub op: String,
    /// Unique name of the operation in its graph.
    pub name: String,
    /// The user's source line, `src/main.rs:17`, and a note for ops that other code made.
    pub at: String,
    /// Its outputs: global dims, the axes they are split over, sums owed.
    pub slice: String,
    /// The operations, if it is several that a pass has merged, whose first and last are named above.
    pub merged: Vec<Arc<Origin>>,
}

impl Origin {
    /// The operations: those merged, or the one.
    pub fn operations(self: &Arc<Self>) -> &[Arc<Self>] {
        if self.merged.is_empty() { slice::from_ref(self) } else { &self.merged }
    }
}

/// A step and the operation that asked for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What is done.
    pub step: Step,
    /// Position in [`Program::origins`].
    pub origin: usize,
    /// Who does it.
    pub owners: Owners,
}

/// The coordinates, by axis, of the processors that run a step or hold a variable; those of all
/// processors if empty.
pub type Owners = SmallVec<[(Axis, usize); 1]>;

/// A value that crosses the border between the caller's global arrays and the processors' slices.
#[derive(Clone, PartialEq, Debug)]
pub struct Slot {
    /// Name of the feed or fetch.
    pub name: String,
    /// The local slice.
    pub value: ValueId,
    /// Global size of each dim.
    pub shape: Vec<usize>,
    /// The mesh axes each dim is split over, major first.
    pub split: Vec<AxisList>,
}

impl Slot {
    /// A value that is given to the body of a loop or taken from it: whole, without a name.
    pub(crate) fn whole(value: ValueId, extents: &[usize]) -> Self {
        let (shape, split) = (extents.to_vec(), vec![AxisList::new(); extents.len()]);
        Self { name: String::new(), value, shape, split }
    }
}

/// What each processor does when a function is called.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// Name of the function.
    pub name: String,
    /// Every value, defined by exactly one feed or step.
    pub values: Vec<Value>,
    /// The steps, in the order in which they run.
    pub steps: Vec<Node>,
    /// Values filled from the caller's arrays before the first step.
    pub feeds: Vec<Slot>,
    /// Values copied to the caller's arrays after the last step.
    pub fetches: Vec<Slot>,
    /// How many of the fetches, at the end, are shown to the session's watcher instead of returned.
    pub probes: usize,
    /// Where steps come from.
    pub origins: Vec<Arc<Origin>>,
    /// Values that are slices of the graph's tensors, for messages; the others lie between those. In
    /// a loop over tiles, a value may be a tile of such a slice.
    pub tensors: Vec<Slot>,
}

impl Program {
    /// What a call returns.
    pub fn returned(&self) -> &[Slot] {
        &self.fetches[..self.fetches.len().saturating_sub(self.probes)]
    }

    /// What a call shows.
    pub fn probed(&self) -> &[Slot] {
        &self.fetches[self.returned().len()..]
    }

    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Per value, the step that awaits it, if a collective makes it that is only begun where it stands.
    pub fn awaits(&self) -> Vec<Option<usize>> {
        let mut awaits = vec![None; self.values.len()];
        for (position, node) in self.steps.iter().enumerate() {
            let Step::Await { begun, .. } = &node.step else { continue };
            for value in begun {
                if let Some(known) = awaits.get_mut(value.index()) {
                    known.get_or_insert(position);
                }
            }
        }
        awaits
    }

    /// The origin of a step.
    pub fn origin(&self, node: &Node) -> &Arc<Origin> {
        &self.origins[node.origin]
    }
}

/// Element type and local extents of a module's variable, as programs see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariableType {
    /// Unique name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of one processor's slice along each dim.
    pub extents: Extents,
    /// Who holds it.
    pub owners: Owners,
}

/// Whether a processor is among the owners.
pub fn owns(mesh: &Mesh, processor: usize, owners: &[(Axis, usize)]) -> bool {
    owners.iter().all(|&(axis, coordinate)| mesh.coordinate(processor, axis) == coordinate)
}

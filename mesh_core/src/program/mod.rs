//! The Program: what each processor does, as a list of steps of a closed set of forms.
//!
//! One program serves every processor of the mesh. What differs between processors (where a slice
//! begins, who sends to whom) is written as an [`Offset`] or a group of axes and evaluated from the
//! processor's coordinates when the program runs. So a program for 4,096 processors is as long as
//! one for 4, and every collective is met by all members of its group by construction.
//!
//! This room knows no graph and no layout: names, sizes and numbers only.

mod arithmetic;
mod block;
mod builder;
mod call;
mod cost;
mod expr;
pub mod forms;
mod generator;
pub(crate) mod meaning;
mod normal;
mod origin;
mod plan;
mod print;
pub(crate) mod random;
mod scalar;
#[cfg(test)]
pub(crate) mod sketch;
pub(crate) mod stablehlo;
mod step;
mod verify;

pub(crate) use arithmetic::{erf_inv, normal_cdf};
pub use block::{Block, Program, Slot};
pub use builder::Builder;
pub use call::{Elements, ElementsMut, Opaque, UserKernel, View, ViewMut};
pub use cost::{Cost, cost};
pub use expr::Expr;
pub use forms::{FoldOrder, Form, Pairs, Piece, PoolKind, Reach, Window};
pub use generator::Generator;
pub use origin::{DimUse, Origin, Uneven};
pub use plan::{ALIGNMENT, Compiled, Place, Plan};
pub use print::print;
pub use scalar::{Body, Instr, Prim, Reg, Scalar};
pub use stablehlo::{Options as StableHloOptions, Precision};
pub use step::{Dims, Extents, Offset, Operand, Step};
pub use verify::{Problem, Rule, verify};

use crate::names::{Axis, DType, Mesh};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// A value of a program; prints as `%7`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// Position in [`Block::values`].
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
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

    /// So many values of this type side by side, along a new first dim.
    pub fn stacked(&self, count: usize) -> Self {
        let extents = std::iter::once(count).chain(self.extents.iter().copied()).collect();
        let order = std::iter::once(0).chain(self.order.iter().map(|dim| dim + 1)).collect();
        Self { dtype: self.dtype, extents, order }
    }

    /// Whether its elements lie as the other's do, so that one of them may be made where the other was.
    pub(crate) fn lies_as(&self, other: &Self) -> bool {
        self.dtype.size() == other.dtype.size()
            && self.extents == other.extents
            && self.order == other.order
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

/// The coordinates, by axis, of the processors that run a step or hold a variable; those of all
/// processors if empty.
pub type Owners = SmallVec<[(Axis, usize); 1]>;

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

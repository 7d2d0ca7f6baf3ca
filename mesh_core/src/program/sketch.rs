//! Short words for tests that build programs.

use super::{Builder, Expr, Extents, Operand, Program, Slot, ValueId, VariableId, VariableType};
use crate::names::{Axis, AxisList, DType, Mesh};
use smallvec::SmallVec;

/// `rows:2;cols:2`
pub(crate) fn square() -> Mesh {
    "rows:2;cols:2".parse().unwrap()
}

/// The axis of that name.
pub(crate) fn axis(mesh: &Mesh, name: &str) -> Axis {
    mesh.axis(name).unwrap()
}

/// A variable of f32.
pub(crate) fn variable(extents: &[usize]) -> VariableType {
    VariableType {
        name: "weights".to_owned(),
        dtype: DType::F32,
        extents: Extents::from_slice(extents),
    }
}

/// Variable number `index`.
pub(crate) fn var(index: u32) -> VariableId {
    VariableId(index)
}

/// A value with labels for its dims.
pub(crate) fn labelled(value: ValueId, dims: &[u8]) -> Operand {
    Operand { value, dims: dims.iter().copied().collect() }
}

/// `x0`, `x1`, …
pub(crate) fn x(index: u8) -> Expr {
    Expr::input(index)
}

/// Builder methods over whole f32 values.
pub(crate) trait Sketch {
    /// A value as it is.
    fn whole(&self, value: ValueId) -> Operand;
    /// The slot of a value that is not split.
    fn slot(&self, name: &str, value: ValueId) -> Slot;
    /// An unsplit feed.
    fn fed(&mut self, name: &str, extents: &[usize]) -> ValueId;
    /// A fetch of an unsplit value.
    fn fetched(&mut self, name: &str, value: ValueId);
    /// A map over values of equal extents.
    fn of(&mut self, expr: Expr, inputs: &[ValueId]) -> ValueId;
    /// A variable's slice.
    fn old(&mut self, index: u32, extents: &[usize]) -> ValueId;
}

impl Sketch for Builder<'_> {
    fn whole(&self, value: ValueId) -> Operand {
        let dims = (0..self.value(value).extents.len() as u8).collect();
        Operand { value, dims }
    }

    fn slot(&self, name: &str, value: ValueId) -> Slot {
        let shape = self.value(value).extents.to_vec();
        Slot { name: name.to_owned(), value, split: vec![AxisList::new(); shape.len()], shape }
    }

    fn fed(&mut self, name: &str, extents: &[usize]) -> ValueId {
        let split = vec![AxisList::new(); extents.len()];
        let shape = extents.to_vec();
        let slot = Slot { name: name.to_owned(), value: ValueId(0), shape, split };
        self.feed(DType::F32, Extents::from_slice(extents), slot)
    }

    fn fetched(&mut self, name: &str, value: ValueId) {
        let slot = self.slot(name, value);
        self.fetch(slot);
    }

    fn of(&mut self, expr: Expr, inputs: &[ValueId]) -> ValueId {
        let operands = inputs.iter().map(|&input| self.whole(input)).collect();
        let extents = self.value(inputs[0]).extents.clone();
        self.map(operands, extents, &expr, DType::F32).unwrap()
    }

    fn old(&mut self, index: u32, extents: &[usize]) -> ValueId {
        self.read(VariableId(index), DType::F32, Extents::from_slice(extents))
    }
}

/// A program of one line.
pub(crate) fn built(mesh: &Mesh, build: impl FnOnce(&mut Builder<'_>)) -> Program {
    let mut builder = Builder::new("test", mesh);
    build(&mut builder);
    builder.finish()
}

/// Offsets of zero.
pub(crate) fn origin(rank: usize) -> SmallVec<[super::Offset; 4]> {
    (0..rank).map(|_| super::Offset::default()).collect()
}

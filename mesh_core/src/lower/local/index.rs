//! Steps that go by index or order.

use super::{Labels, Local, LocalCx, extents};
use crate::graph::OpError;
use crate::names::{DType, DimName, Dimension, ReduceKind, Shape};
use crate::program::Offset;
use crate::split::Collective;

impl LocalCx<'_, '_> {
    /// The global position of this processor's first element along a dim of which it has `size`.
    pub fn begin(&self, dim: DimName, size: usize) -> Offset {
        Offset::sliced(&self.axes(dim), size)
    }

    /// Global positions along this processor's part of a dim, as i32. `dim` is of global size.
    pub fn positions(&mut self, dim: Dimension) -> Local {
        let local = dim.resized(dim.size / self.parts(dim.name));
        let begin = self.begin(dim.name, local.size);
        self.counted(local, begin, dim.size)
    }

    /// What the indices find along `dim` of `input`, whose first position has index `begin`; zero
    /// where there is nothing. `onto` has the indices' dims and the input's, but not `dim`.
    pub fn gather(
        &mut self,
        input: &Local,
        indices: &Local,
        dim: DimName,
        begin: Offset,
        onto: &Shape,
    ) -> Local {
        let labels = Labels::new(onto, [&indices.shape, &input.shape]);
        let (x, i) =
            (self.operand(input, |n| labels.of(n)), self.operand(indices, |n| labels.of(n)));
        let id = self.builder.gather(x, i, labels.of(dim), begin, extents(onto));
        Local::new(id, onto.clone())
    }

    /// Sums of the updates by their indices along `dim` of `onto`, whose first position has index
    /// `begin`; dims that `onto` lacks are summed. In `dtype`; bf16 is widened.
    pub fn scatter(
        &mut self,
        updates: &Local,
        indices: &Local,
        dim: DimName,
        begin: Offset,
        onto: &Shape,
        dtype: DType,
    ) -> Result<Local, OpError> {
        let updates = self.cast(updates, dtype.reduction())?;
        let labels = Labels::new(onto, [&updates.shape, &indices.shape]);
        let (x, i) =
            (self.operand(&updates, |n| labels.of(n)), self.operand(indices, |n| labels.of(n)));
        let id = self.builder.scatter(x, i, labels.of(dim), begin, extents(onto));
        self.cast(&Local::new(id, onto.clone()), dtype)
    }

    /// The first `kept` elements along `dim` of the keys in their order, and what goes with them;
    /// all results have the dims of the keys. Equal keys stay in order; NaN is the greatest.
    pub fn sort(
        &mut self,
        keys: &Local,
        others: &[Local],
        dim: DimName,
        kept: usize,
        descending: bool,
    ) -> Vec<Local> {
        let resized = |d: Dimension| if d.name == dim { d.resized(kept) } else { d };
        let shape = Shape::new(keys.shape.iter().map(resized)).unwrap_or_default();
        let labels = Labels::new(&shape, []);
        let inputs = std::iter::once(keys).chain(others);
        let inputs: Vec<_> = inputs.map(|input| self.operand(input, |n| labels.of(n))).collect();
        let outs = self.builder.sort(&inputs, labels.of(dim), descending, &extents(&shape));
        outs.into_iter().map(|id| Local::new(id, shape.clone())).collect()
    }

    /// The fold so far at every position of this processor's slice along `dim`; without the
    /// position itself if `exclusive`, from the last position down if `reverse`.
    pub fn scan(
        &mut self,
        kind: ReduceKind,
        value: &Local,
        dim: DimName,
        exclusive: bool,
        reverse: bool,
    ) -> Local {
        let at = value.shape.position(dim).unwrap_or(0) as u8;
        let id = self.builder.scan(kind, at, exclusive, reverse, value.id);
        Local::new(id, value.shape.clone())
    }

    /// The values of all processors that share a split dim, one after another along that dim. The
    /// dim's role must be `Exchange` with `AllGather`.
    pub fn all_gather(&mut self, dim: DimName, value: &Local) -> Result<Local, OpError> {
        let axes = self.exchange(dim, Collective::AllGather)?;
        if axes.is_empty() {
            return Ok(value.clone());
        }
        let at = value.shape.position(dim);
        let at = at.ok_or_else(|| OpError::new(format!("{} has no dim {dim}", value.shape)))?;
        let id = self.builder.all_gather(&axes, at, value.id);
        let size = self.builder.value(id).extents[at];
        let resized = |d: Dimension| if d.name == dim { d.resized(size) } else { d };
        Ok(Local::new(id, Shape::new(value.shape.iter().map(resized))?))
    }
}

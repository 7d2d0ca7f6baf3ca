//! Steps that go by index or order.

use super::dims::{Labels, position, resized};
use super::{Local, LocalCx, extents};
use crate::graph::OpError;
use crate::names::{DType, DimName, Dimension, ReduceKind, Shape};
use crate::program::Offset;
use crate::split::Collective;

impl LocalCx<'_, '_> {
    /// The global position of this processor's first element along a dim of which it has `size`.
    ///
    /// # Errors
    ///
    /// A dim that no input or output has.
    pub fn begin(&self, dim: DimName, size: usize) -> Result<Offset, OpError> {
        Ok(Offset::sliced(&self.axes(dim)?, size))
    }

    /// Global positions along this processor's part of a dim, as i32. `dim` is of global size.
    ///
    /// # Errors
    ///
    /// A dim that no input or output has.
    pub fn positions(&mut self, dim: Dimension) -> Result<Local, OpError> {
        let local = dim.resized(dim.size / self.parts(dim.name)?);
        let begin = self.begin(dim.name, local.size)?;
        self.counted(local, begin, dim.size)
    }

    /// What the indices find along `dim` of `input`, whose first position has index `begin`; zero
    /// where there is nothing. `onto` has the indices' dims and the input's, but not `dim`.
    ///
    /// # Errors
    ///
    /// A dim that the input lacks, or one that `onto` has in another size.
    pub fn gather(
        &mut self,
        input: &Local,
        indices: &Local,
        dim: DimName,
        begin: Offset,
        onto: &Shape,
    ) -> Result<Local, OpError> {
        position("gather", &input.shape, dim)?;
        let labels = Labels::folding("gather", onto, &[&indices.shape, &input.shape])?;
        let (x, i) = (labels.operand(input)?, labels.operand(indices)?);
        let id = self.builder.gather(x, i, labels.of(dim)?, begin, extents(onto));
        Ok(Local::new(id, onto.clone()))
    }

    /// Sums of the updates by their indices along `dim` of `onto`, whose first position has index
    /// `begin`; dims that `onto` lacks are summed. In `dtype`; bf16 is widened.
    ///
    /// # Errors
    ///
    /// A dim that `onto` lacks, or has in another size.
    pub fn scatter(
        &mut self,
        updates: &Local,
        indices: &Local,
        dim: DimName,
        begin: Offset,
        onto: &Shape,
        dtype: DType,
    ) -> Result<Local, OpError> {
        position("scatter", onto, dim)?;
        let updates = self.cast(updates, dtype.reduction())?;
        let labels = Labels::new("scatter", onto, [&updates.shape, &indices.shape]);
        let (x, i) = (labels.operand(&updates)?, labels.operand(indices)?);
        let id = self.builder.scatter(x, i, labels.of(dim)?, begin, extents(onto));
        self.cast(&Local::new(id, onto.clone()), dtype)
    }

    /// `input` with `row` at the positions that indices say along `dim`, whose first position has index
    /// `begin`; an index outside puts nothing. The row has the input's dims but for `dim`, and the indices
    /// some of the row's.
    ///
    /// # Errors
    ///
    /// A dim that the input lacks, or has in another size.
    pub fn put(
        &mut self,
        input: &Local,
        row: &Local,
        indices: &Local,
        dim: DimName,
        begin: Offset,
    ) -> Result<Local, OpError> {
        let at = position("put", &input.shape, dim)? as u8;
        let labels = Labels::new("put", &input.shape, []);
        let (row, indices) = (labels.operand(row)?, labels.operand(indices)?);
        let id = self.builder.put(input.id, row, indices, at, begin);
        Ok(Local::new(id, input.shape.clone()))
    }

    /// The first `kept` elements along `dim` of the keys in their order, and what goes with them;
    /// all results have the dims of the keys. Equal keys stay in order; NaN is the greatest.
    ///
    /// # Errors
    ///
    /// A dim that the keys lack, or another value with other dims than theirs.
    pub fn sort(
        &mut self,
        keys: &Local,
        others: &[Local],
        dim: DimName,
        kept: usize,
        descending: bool,
    ) -> Result<Vec<Local>, OpError> {
        let shape = resized("sort", &keys.shape, dim, kept)?;
        let labels = Labels::new("sort", &shape, []);
        let inputs = std::iter::once(keys).chain(others).map(|input| labels.operand(input));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let outs = self.builder.sort(&inputs, labels.of(dim)?, descending, &extents(&shape));
        Ok(outs.into_iter().map(|id| Local::new(id, shape.clone())).collect())
    }

    /// The fold so far at every position of this processor's slice along `dim`; without the
    /// position itself if `exclusive`, from the last position down if `reverse`.
    ///
    /// # Errors
    ///
    /// A dim that the value lacks.
    pub fn scan(
        &mut self,
        kind: ReduceKind,
        value: &Local,
        dim: DimName,
        exclusive: bool,
        reverse: bool,
    ) -> Result<Local, OpError> {
        let at = position("scan", &value.shape, dim)? as u8;
        let id = self.builder.scan(kind, at, exclusive, reverse, value.id);
        Ok(Local::new(id, value.shape.clone()))
    }

    /// The values of all processors that share a split dim, one after another along that dim. The
    /// dim's role must be `Exchange` with `AllGather`.
    ///
    /// # Errors
    ///
    /// A dim whose role does not allow that, or that the value lacks.
    pub fn all_gather(&mut self, dim: DimName, value: &Local) -> Result<Local, OpError> {
        let axes = self.exchange(dim, Collective::AllGather)?;
        if axes.is_empty() {
            return Ok(value.clone());
        }
        let at = position("all_gather", &value.shape, dim)?;
        let id = self.builder.all_gather(&axes, at, value.id);
        let size = self.builder.value(id).extents[at];
        Ok(Local::new(id, resized("all_gather", &value.shape, dim, size)?))
    }
}

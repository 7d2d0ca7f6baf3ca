//! Steps that move elements.

use super::dims::{Labels, position, resized};
use super::{Local, LocalCx, LocalPiece, extents, fault};
use crate::graph::OpError;
use crate::names::{DimName, Shape};
use crate::program::{Offset, Pairs, Piece, Scalar};
use crate::split::Collective;

impl LocalCx<'_, '_> {
    /// The value with its dims in this order, which names each of them once.
    ///
    /// # Errors
    ///
    /// An order that names a dim that the value lacks, twice, or not at all.
    pub fn transpose(&mut self, value: &Local, order: &[DimName]) -> Result<Local, OpError> {
        if value.shape.names().eq(order.iter().copied()) {
            return Ok(value.clone());
        }
        let at = |&name| position("transpose", &value.shape, name);
        let positions = order.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        let dims = positions.iter().map(|&position| value.shape.dims()[position]);
        let shape = Shape::new(dims).map_err(|error| fault("transpose", error))?;
        if let Some(left) = value.shape.names().find(|name| !shape.contains(*name)) {
            return Err(fault("transpose", format!("dim {left} of {} is left out", value.shape)));
        }
        let positions: Vec<_> = positions.into_iter().map(|position| position as u8).collect();
        let id = self.builder.transpose(value.id, &positions);
        Ok(Local::new(id, shape))
    }

    /// Part of a value along one dim; `begin` may depend on the processor.
    ///
    /// # Errors
    ///
    /// A dim that the value lacks.
    pub fn cut(
        &mut self,
        value: &Local,
        dim: DimName,
        begin: Offset,
        size: usize,
    ) -> Result<Local, OpError> {
        let shape = resized("cut", &value.shape, dim, size)?;
        let begin_of = |name| if name == dim { begin.clone() } else { Offset::default() };
        let begins = shape.names().map(begin_of).collect();
        let id = self.builder.cut(value.id, begins, extents(&shape));
        Ok(Local::new(id, shape))
    }

    /// Rectangles copied into a value of `shape`; what none covers is `fill`.
    ///
    /// # Errors
    ///
    /// A piece with a dim that its input or the shape lacks.
    pub fn assemble(
        &mut self,
        pieces: &[LocalPiece],
        fill: Scalar,
        shape: &Shape,
    ) -> Result<Local, OpError> {
        let labels = Labels::new("assemble", shape, []);
        let build = |piece: &LocalPiece| {
            let input = labels.operand(&piece.input)?;
            for &(dim, _) in &piece.begin {
                position("assemble", &piece.input.shape, dim)?;
            }
            for &(dim, _) in piece.at.iter().chain(&piece.size) {
                labels.of(dim)?;
            }
            let begin =
                piece.input.shape.names().map(|n| find(&piece.begin, n).unwrap_or_default());
            let at = shape.names().map(|n| find(&piece.at, n).unwrap_or(0)).collect();
            let whole = |n, size| piece.input.shape.get(n).map_or(size, |d| d.size);
            let extents = shape
                .iter()
                .map(|d| find(&piece.size, d.name).unwrap_or(whole(d.name, d.size)))
                .collect();
            Ok((input, Piece { begin: begin.collect(), at, extents }))
        };
        let pieces = pieces.iter().map(build).collect::<Result<Vec<_>, OpError>>()?;
        let id = self.builder.assemble(pieces, fill, extents(shape));
        Ok(Local::new(id, shape.clone()))
    }

    /// The same elements in declared order, under another shape.
    ///
    /// # Errors
    ///
    /// A shape of another number of elements.
    pub fn reshape(&mut self, value: &Local, shape: &Shape) -> Result<Local, OpError> {
        if value.shape.sizes() == shape.sizes() {
            return self.renamed(value, shape.clone());
        }
        if value.shape.size() != shape.size() {
            let message = format!("{} has another number of elements than {shape}", value.shape);
            return Err(fault("reshape", message));
        }
        let id = self.builder.reshape(value.id, extents(shape));
        Ok(Local::new(id, shape.clone()))
    }

    /// The value of the neighbour `shift` places before along the group of a split dim. The dim's
    /// role must be `Exchange` with `Permute`.
    ///
    /// # Errors
    ///
    /// A dim whose role does not allow that.
    pub fn permute(
        &mut self,
        dim: DimName,
        shift: i64,
        wrap: bool,
        value: &Local,
    ) -> Result<Local, OpError> {
        self.permute_pairs(dim, Pairs::Shift { by: shift, wrap }, value)
    }

    /// The value of the member that is paired with this one in the group of a split dim; zeros where
    /// none is. The dim's role must be `Exchange` with `Permute`.
    ///
    /// # Errors
    ///
    /// A dim whose role does not allow that.
    pub fn permute_pairs(
        &mut self,
        dim: DimName,
        pairs: Pairs,
        value: &Local,
    ) -> Result<Local, OpError> {
        let axes = self.exchange(dim, Collective::Permute)?;
        let id = self.builder.permute_pairs(&axes, pairs, value.id);
        Ok(Local::new(id, value.shape.clone()))
    }
}

fn find<T: Clone>(list: &[(DimName, T)], name: DimName) -> Option<T> {
    list.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone())
}

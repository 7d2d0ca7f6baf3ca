//! What an op's local body makes from positions.

use super::local::{Local, LocalCx, extents};
use crate::graph::OpError;
use crate::names::{DType, DimName, Dimension, Shape};
use crate::program::{Extents, Generator, Offset, Scalar};

impl LocalCx<'_, '_> {
    /// Output 0 made from global positions.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn generate(&mut self, generator: Generator) -> Result<(), OpError> {
        self.generate_salted(generator, &[])
    }

    /// Output 0 of random numbers whose key depends on `salts` too, scalars of i32.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn generate_salted(
        &mut self,
        generator: Generator,
        salts: &[Local],
    ) -> Result<(), OpError> {
        let global = &self.signature.outputs[0].shape;
        let local = self.output_shape(0);
        let begin =
            local.iter().map(|d| Offset::sliced(self.placements[0].axes(d.name), d.size)).collect();
        let dtype = self.output_dtype(0);
        let whole = extents(global);
        let salts: Vec<_> = salts.iter().map(|salt| salt.id).collect();
        let id =
            self.builder.generate_salted(generator, &salts, dtype, begin, whole, extents(&local));
        self.finish(0, Local::new(id, local))
    }

    /// A part of the random numbers of a tensor, from the positions on that scalars of i32 say: the numbers
    /// that the tensor as a whole has there, `whole` being its global shape. Along dims without a scalar the
    /// part begins with the first position; along dims that `part` lacks, it has one position.
    ///
    /// So an op draws block by block what another draws at once. Beyond the end of a dim stand numbers of
    /// other positions.
    ///
    /// # Errors
    ///
    /// A part whose dims are not some of the whole's, the last among them, in its order and as long at most;
    /// a scalar of another dim.
    pub fn generate_part(
        &mut self,
        generator: Generator,
        salts: &[Local],
        whole: &Shape,
        begin: &[(DimName, Local)],
        part: &Shape,
        dtype: DType,
    ) -> Result<Local, OpError> {
        let fits = |d: Dimension| whole.get(d.name).is_some_and(|all| d.size <= all.size);
        let in_order = whole.names().filter(|name| part.contains(*name)).eq(part.names());
        if !part.iter().all(fits) || !in_order || part.names().last() != whole.names().last() {
            return Err(OpError::new(format!("generate_part: {part} is no part of {whole}")));
        }
        // How many positions of the whole one along a dim counts.
        let count = |name: DimName| {
            let behind = whole.iter().skip_while(|d| d.name != name).skip(1);
            behind.fold(1, |count: usize, d| count.saturating_mul(d.size))
        };
        let (mut global, mut before) = (Extents::new(), whole.size());
        for name in part.names() {
            global.push(before / count(name));
            before = count(name);
        }
        let mut shifts = Vec::new();
        for (name, scalar) in begin {
            if !whole.contains(*name) {
                let message = format!("generate_part: {whole} has no dim {name}");
                return Err(OpError::new(message));
            }
            shifts.push((scalar.id, count(*name) as u64));
        }
        let salts: Vec<_> = salts.iter().map(|salt| salt.id).collect();
        let extents = extents(part);
        let id = self.builder.generate_shifted(generator, &salts, &shifts, dtype, global, extents);
        Ok(Local::new(id, part.clone()))
    }

    /// A value of equal elements.
    pub fn fill(&mut self, scalar: Scalar, shape: &Shape) -> Local {
        Local::new(self.builder.fill(scalar, extents(shape)), shape.clone())
    }

    /// The whole numbers from `begin` on along one dim, all below `end`; i32.
    ///
    /// # Errors
    ///
    /// A dim that cannot stand in a shape.
    pub fn counted(&mut self, dim: Dimension, begin: Offset, end: usize) -> Result<Local, OpError> {
        let shape = Shape::new([dim])?;
        let (begin, whole) = (vec![begin], Extents::from_slice(&[end]));
        let sizes = Extents::from_slice(&[dim.size]);
        let id = self.builder.generate(Generator::Iota(0), DType::I32, begin, whole, sizes);
        Ok(Local::new(id, shape))
    }
}

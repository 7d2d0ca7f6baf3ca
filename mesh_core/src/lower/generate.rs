//! What an op's local body makes from positions.

use super::local::{Local, LocalCx, extents};
use crate::graph::OpError;
use crate::names::{DType, Dimension, Shape};
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

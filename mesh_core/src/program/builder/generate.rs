//! What is made from positions.

use super::Builder;
use crate::names::DType;
use crate::program::forms::Generate;
use crate::program::{Extents, Generator, Offset, Scalar, ValueId};

impl Builder<'_> {
    /// A slice of something made from global positions.
    pub fn generate(
        &mut self,
        generator: Generator,
        dtype: DType,
        begin: Vec<Offset>,
        global: Extents,
        extents: Extents,
    ) -> ValueId {
        self.generate_salted(generator, &[], dtype, begin, global, extents)
    }

    /// As `generate`, for random numbers whose key also depends on scalars of i32.
    pub fn generate_salted(
        &mut self,
        generator: Generator,
        salts: &[ValueId],
        dtype: DType,
        begin: Vec<Offset>,
        global: Extents,
        extents: Extents,
    ) -> ValueId {
        let salts: Vec<_> = salts.iter().map(|&salt| self.whole(salt)).collect();
        let form = Generate { generator, begin, global, strides: Vec::new() };
        self.make(form, salts, dtype, extents)
    }

    /// As `generate_salted` from the first position on, and from further on by what scalars of i32 say,
    /// each with the positions that it counts.
    pub fn generate_shifted(
        &mut self,
        generator: Generator,
        salts: &[ValueId],
        shifts: &[(ValueId, u64)],
        dtype: DType,
        global: Extents,
        extents: Extents,
    ) -> ValueId {
        let inputs = salts.iter().copied().chain(shifts.iter().map(|(shift, _)| *shift));
        let inputs: Vec<_> = inputs.map(|input| self.whole(input)).collect();
        let begin = vec![Offset::default(); extents.len()];
        let strides = shifts.iter().map(|(_, stride)| *stride).collect();
        self.make(Generate { generator, begin, global, strides }, inputs, dtype, extents)
    }

    /// A value of equal elements.
    pub fn fill(&mut self, scalar: Scalar, extents: Extents) -> ValueId {
        let begin = vec![Offset::default(); extents.len()];
        let global = extents.clone();
        self.generate(Generator::Fill(scalar), scalar.dtype(), begin, global, extents)
    }
}

//! Steps that run a user's kernel.

use super::{Local, LocalCx, extents};
use crate::names::{DType, Shape};
use crate::program::UserKernel;

impl LocalCx<'_, '_> {
    /// What a kernel makes of the inputs: values of these local shapes and dtypes. The kernel sees
    /// each value's dims in the order of its shape.
    pub fn call(
        &mut self,
        kernel: impl UserKernel,
        inputs: &[Local],
        outs: &[(Shape, DType)],
    ) -> Vec<Local> {
        let inputs: Vec<_> = inputs.iter().map(|input| input.id).collect();
        let types: Vec<_> = outs.iter().map(|(shape, dtype)| (*dtype, extents(shape))).collect();
        let ids = self.builder.call(kernel, &inputs, &types);
        ids.into_iter().zip(outs).map(|(id, (shape, _))| Local::new(id, shape.clone())).collect()
    }
}

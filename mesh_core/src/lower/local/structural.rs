//! Steps of core's own ops.

use super::{Local, LocalCx, extents, slot};
use crate::graph::OpError;
use crate::program::VariableId;

impl LocalCx<'_, '_> {
    /// Each value, once all of them have been computed.
    pub(crate) fn barrier(&mut self, values: &[Local]) -> Vec<Local> {
        let ids: Vec<_> = values.iter().map(|value| value.id).collect();
        let outs = self.builder.barrier(&ids);
        outs.into_iter()
            .zip(values)
            .map(|(id, value)| Local::new(id, value.shape.clone()))
            .collect()
    }

    /// Output 0 is fed under this name.
    pub(crate) fn feed(&mut self, name: &str) -> Result<(), OpError> {
        let shape = self.output_shape(0);
        let slot = slot(name.to_owned(), &self.signature.outputs[0].shape, self.placements[0]);
        let id = self.builder.feed(self.signature.outputs[0].dtype, extents(&shape), slot);
        self.finish(0, Local::new(id, shape))
    }

    /// Output 0 is the variable's slice.
    pub(crate) fn read(&mut self, variable: VariableId) -> Result<(), OpError> {
        let shape = self.output_shape(0);
        let dtype = self.signature.outputs[0].dtype;
        let id = self.builder.read(variable, dtype, extents(&shape));
        self.finish(0, Local::new(id, shape))
    }

    pub(crate) fn write(&mut self, variable: VariableId, value: &Local) {
        self.builder.write(variable, value.id);
    }
}

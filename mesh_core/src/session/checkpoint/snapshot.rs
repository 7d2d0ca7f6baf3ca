//! The slices that a session holds, copied.

use super::runs::Runs;
use crate::lower::VariableSpec;
use crate::program::Value;
use crate::session::{Error, Held, Result, Session};

/// An owned copy of all slices of all variables that a session holds, those that several processors
/// hold once, and the session's seed.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(super) seed: u64,
    pub(super) tensors: Vec<Tensor>,
}

/// A variable in slices.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) spec: VariableSpec,
    pub(super) slices: Vec<Slice>,
}

/// A part of a variable, row-major.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    /// The global index of the first element.
    begin: Vec<usize>,
    extents: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

impl Tensor {
    fn new(spec: &VariableSpec) -> Self {
        Self { spec: spec.clone(), slices: Vec::new() }
    }

    /// Zeros in the slices that a session holds.
    fn zeros(held: &Held, slice: &Value) -> Self {
        let mut tensor = Self::new(&held.spec);
        let slices = held.first_holders().map(|(_, begin)| {
            let (begin, extents) = (begin.clone(), slice.extents.to_vec());
            Slice { begin, extents, bytes: vec![0; slice.bytes()] }
        });
        tensor.slices.extend(slices);
        tensor
    }

    /// Where the slices lie in the tensor.
    pub(super) fn runs(&self) -> Vec<Runs> {
        let (shape, element) = (self.spec.shape.sizes(), self.spec.dtype.size());
        let runs = |slice: &Slice| Runs::new(&shape, &slice.begin, &slice.extents, element);
        self.slices.iter().map(runs).collect()
    }
}

impl Snapshot {
    /// The bytes it holds.
    pub fn bytes(&self) -> usize {
        self.tensors.iter().flat_map(|tensor| &tensor.slices).map(|slice| slice.bytes.len()).sum()
    }
}

impl Session {
    /// Copies all variables. That, and no more, is what saving a checkpoint keeps training from.
    ///
    /// Once a call has failed, variables may be half written: do not save them.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.snapshot_into(&mut snapshot);
        snapshot
    }

    /// As [`snapshot`](Self::snapshot), into the memory of an earlier one.
    pub fn snapshot_into(&self, snapshot: &mut Snapshot) {
        snapshot.seed = self.machine.seed();
        snapshot.tensors.truncate(self.variables.len());
        for (index, held) in self.variables.values().enumerate() {
            if index == snapshot.tensors.len() {
                snapshot.tensors.push(Tensor::new(&held.spec));
            }
            let tensor = &mut snapshot.tensors[index];
            tensor.spec.clone_from(&held.spec);
            let mut count = 0;
            for (processor, begin) in held.first_holders() {
                if count == tensor.slices.len() {
                    tensor.slices.push(Slice::default());
                }
                let slice = &mut tensor.slices[count];
                slice.begin.clone_from(begin);
                slice.extents.clear();
                slice.extents.extend_from_slice(&self.machine.variable(index).extents);
                slice.bytes.clear();
                slice.bytes.extend_from_slice(self.machine.variable_bytes(processor, index));
                count += 1;
            }
            tensor.slices.truncate(count);
        }
    }

    /// Zeros in the slices of a variable.
    pub(super) fn zeros(&self, index: usize) -> Tensor {
        Tensor::zeros(&self.variables[index], self.machine.variable(index))
    }

    /// Sets a variable, on all that hold it, to slices like those it has.
    pub(super) fn set_slices(&mut self, index: usize, tensor: &Tensor) -> Result<()> {
        for (processor, begin) in self.variables[index].holders() {
            let slice = tensor.slices.iter().find(|slice| slice.begin == *begin);
            let bytes = slice.map_or(&[][..], |slice| &slice.bytes);
            self.machine
                .set_variable_bytes(processor, index, bytes)
                .map_err(|problem| Error::Module { problem })?;
        }
        Ok(())
    }
}

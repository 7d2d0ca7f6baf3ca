//! Dims of local values by name; a name that is not there is an error.

use super::Local;
use crate::graph::OpError;
use crate::names::{DimName, Dimension, Shape};
use crate::program::Operand;
use smallvec::SmallVec;
use std::fmt;

/// Where a dim stands in a shape; `method` was asked to work along it.
pub(super) fn position(method: &str, shape: &Shape, dim: DimName) -> Result<usize, OpError> {
    let position = shape.position(dim);
    position.ok_or_else(|| OpError::new(format!("{method}: dim {dim} is not among {shape}")))
}

/// A value's shape with another size of one dim.
pub(super) fn resized(
    method: &str,
    shape: &Shape,
    dim: DimName,
    size: usize,
) -> Result<Shape, OpError> {
    position(method, shape, dim)?;
    let resized = |d: Dimension| if d.name == dim { d.resized(size) } else { d };
    Shape::new(shape.iter().map(resized)).map_err(|error| fault(method, error))
}

pub(super) fn fault(method: &str, error: impl fmt::Display) -> OpError {
    OpError::new(format!("{method}: {error}"))
}

/// Labels of dims: positions in the result, then the dims that are folded.
pub(super) struct Labels {
    method: &'static str,
    names: SmallVec<[DimName; 8]>,
}

impl Labels {
    /// Of a result and of inputs whose other dims are folded.
    pub(super) fn new<'s>(
        method: &'static str,
        onto: &Shape,
        folded: impl IntoIterator<Item = &'s Shape>,
    ) -> Self {
        let mut names: SmallVec<[DimName; 8]> = onto.names().collect();
        for name in folded.into_iter().flat_map(Shape::names) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Self { method, names }
    }

    /// As [`new`](Self::new), for a result whose dims are all found in the inputs.
    pub(super) fn folding(
        method: &'static str,
        onto: &Shape,
        inputs: &[&Shape],
    ) -> Result<Self, OpError> {
        let found = |name: &DimName| inputs.iter().any(|input| input.contains(*name));
        match onto.names().find(|name| !found(name)) {
            Some(stray) => {
                let inputs: Vec<_> = inputs.iter().map(ToString::to_string).collect();
                let inputs = inputs.join(" and ");
                Err(fault(method, format!("dim {stray} of the result is not among {inputs}")))
            }
            None => Ok(Self::new(method, onto, inputs.iter().copied())),
        }
    }

    pub(super) fn of(&self, name: DimName) -> Result<u8, OpError> {
        let position = self.names.iter().position(|n| *n == name);
        position.map(|position| position as u8).ok_or_else(|| {
            let names: Vec<_> = self.names.iter().map(|name| name.as_str()).collect();
            fault(self.method, format!("dim {name} is not among [{}]", names.join(", ")))
        })
    }

    pub(super) fn operand(&self, value: &Local) -> Result<Operand, OpError> {
        let dims = value.shape().names().map(|name| self.of(name)).collect::<Result<_, _>>()?;
        Ok(Operand { value: value.id, dims })
    }
}

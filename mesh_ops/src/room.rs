//! The handful of names every room needs.

pub(crate) use mesh_core::graph::{GradCx, Op, OpError, Signature, Tensor, TensorType};
pub(crate) use mesh_core::lower::LocalCx;
pub(crate) use mesh_core::names::{DType, DimName, Dimension, ReduceKind, Shape};
pub(crate) use mesh_core::split::{Linearity, Role, SplitRule};

/// What a gradient rule returns: one entry per input.
pub(crate) type Grads<'g> = Result<Vec<Option<Tensor<'g>>>, OpError>;

/// The inputs as an array of the arity that an op has.
pub(crate) fn inputs<'a, const N: usize>(
    op: &str,
    inputs: &'a [TensorType],
) -> Result<&'a [TensorType; N], OpError> {
    inputs.try_into().map_err(|_| OpError::arity(op, N, inputs.len()))
}

/// The dim of a tensor, or a refusal that names both.
pub(crate) fn dim_of(op: &str, ty: &TensorType, name: DimName) -> Result<Dimension, OpError> {
    ty.shape.get(name).ok_or_else(|| OpError::new(format!("{op}: {ty} has no dim {name}")))
}

/// `dim` under a name that `shape` lacks: its own and a word for what it becomes.
pub(crate) fn apart(shape: &Shape, dim: Dimension, word: &str) -> Dimension {
    let mut name = format!("{}_{word}", dim.name);
    while shape.names().any(|known| known.as_str() == name) {
        name.push('_');
    }
    dim.renamed(&name)
}

/// This name, or if it is taken one like it that is not.
pub(crate) fn unlike(name: DimName, taken: &[DimName]) -> DimName {
    let mut text = name.to_string();
    while taken.contains(&DimName::new(&text)) {
        text.push('\'');
    }
    DimName::new(&text)
}

//! The handful of names every room needs.

pub(crate) use mesh_core::graph::{GradCx, Op, OpError, Operand, Signature, Tensor, TensorType};
pub(crate) use mesh_core::lower::LocalCx;
pub(crate) use mesh_core::names::{DType, DimName, Dimension, ReduceKind, Shape};
pub(crate) use mesh_core::split::{Linearity, Role, SplitRule};

/// The list of rooms: each with what it exports here, if its module is not public. `a/b` is b in the
/// folder of a. Its proof stands with it; the conformance suite and docs/ops.md go through the list.
macro_rules! rooms {
    ($($room:ident $(/ $inner:ident)? $(: $($item:ident),+)?;)*) => {
        $($(pub use $room::{$($item),+};)?)*

        #[cfg(any(test, feature = "testing"))]
        pub(crate) static ROOMS: &[crate::testing::Room] = &[$(crate::testing::Room::new(
            concat!(module_path!(), "::", stringify!($room) $(, "::", stringify!($inner))?),
            &[$($(stringify!($item)),+)?],
            &$room$(::$inner)?::proof::PROOF,
        )),*];
    };
}

pub(crate) use rooms;

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

/// That a tensor lacks a dim, if it does.
pub(crate) fn lacking(x: Tensor<'_>, dim: Dimension) -> Option<String> {
    let shape = x.shape();
    let lacks = shape.get(dim.name) != Some(dim) && !x.is_poisoned();
    lacks.then(|| format!("{x:?} has no dim {dim}{}", shape.hint(dim)))
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

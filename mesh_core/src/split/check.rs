//! The layout check: is a layout legal for an op, and if not, what would be?

use crate::names::{AxisList, DimName, Mesh, Shape};
use std::fmt;

/// What is wrong with a layout at one op.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LayoutProblem {
    /// A dim's size is no multiple of the number of parts.
    NotDivisible {
        /// The dim.
        dim: DimName,
        /// Its size.
        size: usize,
        /// The axes, as written in a layout.
        axes: String,
        /// Their product.
        parts: usize,
    },
    /// Two dims of one tensor, or of the union of an op's tensors, on one axis.
    Clash {
        /// The dims.
        dims: [DimName; 2],
        /// The axis.
        axis: String,
        /// Whether one tensor has both; else they meet in the op only.
        in_one_tensor: bool,
    },
    /// A dim is split that the op needs whole.
    Whole {
        /// The dim.
        dim: DimName,
        /// The axes, as written in a layout.
        axes: String,
        /// Why.
        reason: &'static str,
    },
    /// An op passes the split of a dim on to another, whose size is no multiple of the number of parts.
    Passing {
        /// The dim that the layout splits.
        from: DimName,
        /// The dim that is split in its place.
        to: DimName,
        /// The size of that.
        size: usize,
        /// All axes that it is then split over, as written in a layout.
        axes: String,
        /// Their product.
        parts: usize,
    },
    /// There is no way from where a tensor lies to where it is needed: a fault of an op's rule.
    NoRoute {
        /// Where it lies.
        from: String,
        /// Where it is needed.
        to: String,
    },
}

impl LayoutProblem {
    /// The dims and axis of a clash within one tensor.
    pub(crate) fn in_one_tensor(&self) -> Option<([DimName; 2], &str)> {
        match self {
            Self::Clash { dims, axis, in_one_tensor: true } => Some((*dims, axis)),
            _ => None,
        }
    }

    /// A clash where tensors meet says nothing new if some tensor has both dims.
    pub(crate) fn follows_from(&self, clashes: &[([DimName; 2], &str)]) -> bool {
        match self {
            Self::Clash { dims, axis, in_one_tensor: false } => {
                clashes.contains(&(*dims, axis.as_str()))
            }
            _ => false,
        }
    }
}

impl fmt::Display for LayoutProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDivisible { dim, size, axes, parts } => {
                write!(
                    f,
                    "dim {dim} of size {size} cannot be split over {axes} into {parts} equal parts; "
                )?;
                legal(f, *dim, [*size, *parts], axes)
            }
            Self::Passing { from, to, size, axes, parts } => {
                write!(
                    f,
                    "the split of {from} passes to {to} here, and {to} of size {size} cannot be split over {axes} \
                     into {parts} equal parts; "
                )?;
                legal(f, *to, [*size, *parts], axes)?;
                write!(f, "; or exchange {from} in another way")
            }
            Self::Clash { dims: [a, b], axis, in_one_tensor } => {
                let place = if *in_one_tensor { "one tensor has both" } else { "both meet here" };
                write!(
                    f,
                    "dims {a} and {b} are both split over {axis}, and {place}; \
                     split one of them only, or over another axis"
                )
            }
            Self::Whole { dim, axes, reason } => write!(
                f,
                "dim {dim} is split over {axes} but must be whole here: {reason}; \
                 leave it unsplit, or rename it before to a dim that no rule splits"
            ),
            Self::NoRoute { from, to } => {
                write!(f, "internal error: no collectives lead from {from} to {to}")
            }
        }
    }
}

/// Which sizes of axes a dim can be split over, and which sizes of it these axes can.
fn legal(
    f: &mut fmt::Formatter<'_>,
    dim: DimName,
    [size, parts]: [usize; 2],
    axes: &str,
) -> fmt::Result {
    let divisors: Vec<_> = (1..=size).filter(|d| size % d == 0).collect();
    let shown: Vec<_> = divisors.iter().take(12).map(usize::to_string).collect();
    let dots = if divisors.len() > 12 { ", ..." } else { "" };
    write!(f, "{axes} may be of size {}{dots}", shown.join(", "))?;
    let below = size / parts * parts;
    let above = below + parts;
    if below > 0 {
        write!(f, "; or {dim} of size {below} or {above}")
    } else {
        write!(f, "; or {dim} of size {above}")
    }
}

/// Divisibility and clashes of the tensors that meet in one op; `dims` are the split dims of their
/// union. Returns problems with the index of the tensor concerned.
pub(crate) fn check_dims(
    mesh: &Mesh,
    tensors: &[&Shape],
    dims: &[(DimName, AxisList)],
) -> Vec<(LayoutProblem, usize)> {
    let mut found = Vec::new();
    for (i, shape) in tensors.iter().enumerate() {
        for (name, axes) in dims {
            let Some(dim) = shape.get(*name) else { continue };
            let parts = mesh.group_size(axes);
            if dim.size % parts != 0 {
                let axes = mesh.list(axes);
                let problem =
                    LayoutProblem::NotDivisible { dim: dim.name, size: dim.size, axes, parts };
                found.push((problem, i));
            }
        }
    }
    for (i, (one, axes)) in dims.iter().enumerate() {
        for (other, theirs) in &dims[i + 1..] {
            let Some(&axis) = axes.iter().find(|axis| theirs.contains(axis)) else { continue };
            let both = |shape: &&Shape| shape.contains(*one) && shape.contains(*other);
            let holder = tensors.iter().position(both);
            let problem = LayoutProblem::Clash {
                dims: [*one.min(other), *one.max(other)],
                axis: mesh.name(axis).to_owned(),
                in_one_tensor: holder.is_some(),
            };
            found.push((problem, holder.unwrap_or(tensors.len() - 1)));
        }
    }
    found
}

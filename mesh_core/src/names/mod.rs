//! Dimensions, shapes, dtypes, meshes, layouts and placements, which all other rooms use.
//!
//! A [`Dimension`] is a name and a size, a [`Shape`] an ordered set of them. A [`Mesh`] is the
//! processors as a grid with named axes; a [`ProcessMap`] says which process runs which of them. A
//! [`Layout`] is the user's rules "dim → axes". Bound to a mesh it becomes [`Rules`], which give
//! each tensor a [`Placement`]; a placement gives each processor its [`Slice`].

mod check;
mod dimension;
mod dtype;
mod error;
mod layout;
mod mesh;
mod order;
mod placement;
mod processes;
mod shape;
mod text;

pub use check::check_name;
pub use dimension::{DimName, Dimension, dim};
pub use dtype::DType;
pub use error::NameError;
pub use layout::{Home, Layout, LayoutError, LayoutWarning, Owner, Rule, RuleDim, RuleSet, Rules};
pub use mesh::{Axis, AxisList, Mesh};
pub use order::{Tile, hierarchical, in_boxes, ring};
pub use placement::{Placement, ReduceKind, Slice};
pub use processes::ProcessMap;
pub use shape::{Dimensions, Shape};
pub use text::{Excerpt, stable_hash};

pub(crate) use text::{nearest, suggestion};

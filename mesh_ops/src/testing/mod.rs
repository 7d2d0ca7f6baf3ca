//! The proof of ops: one generic test, over the legal layouts, against a naive evaluator.
//!
//! A [`Case`] says how to build a graph around an op and what to feed it; [`Case::check`] does the
//! rest. Crates with ops of their own turn the feature `testing` on and do the same, after telling
//! the reference what their ops mean ([`Case::meaning`]).
//!
//! ```
//! use mesh_ops::prelude::*;
//! use mesh_ops::testing::Case;
//!
//! let case = Case::new("relu", |_, x| x[0].relu()).away_from_zero("x", "batch:4;hidden:6", F32);
//! let report = case.meshes(&["", "a:2"]).check()?;
//! assert!(report.to_string().contains("a:2"));
//! # Ok::<(), String>(())
//! ```

mod alone;
mod case;
mod check;
mod compare;
mod differences;
mod elsewhere;
mod fill;
mod graph;
mod known;
mod layouts;
mod moved;
pub(crate) mod proof;
mod reference;
mod report;
mod roles;
mod selected;
mod ulps;

pub use case::{Case, Given};
pub use check::MESHES;
pub use compare::{Tolerance, compare};
pub use fill::{Fill, Random};
pub use graph::{Made, Trial};
pub use layouts::{Layouts, all_layouts, dim_names, legal_layouts, options};
pub use proof::{Room, meaning, rooms};
pub use reference::{At, Call, Dense, Meaning, Reference, Values};
pub use report::{Count, Derivatives, Report};
pub use roles::roles;
pub use ulps::{floats, worst};

/// The seed of sessions that are compared with the reference.
pub(crate) const SEED: u64 = 0;

//! The graph: what the user means, over global shapes and named dims.
//!
//! Nodes hold any [`Op`]; building runs nothing and never fails at the call. A refused shape is
//! recorded with the caller's line and yields a *poisoned* tensor, whose users stay silent;
//! [`Graph::check`] and [`Graph::lower`](Graph::lower) report every error at once.

// Rustdoc lists methods in this order: first what one needs first.
mod sources;

mod tensor;

mod variable;

mod function;

mod gradient;

mod loops;

mod algebra;
mod apply;
mod context;
mod custom;
mod data;
mod error;
mod fans;
mod ids;
mod initializer;
mod inspect;
mod names;
mod nodes;
mod op;
mod picture;
mod provenance;
mod recompute;
mod region;
mod replace;
mod residual;
mod reversible;
mod scope;
mod structural;
mod types;
mod undo;
mod update;
mod walk;

pub use algebra::Operand;
pub use context::ForCaller;
pub use data::{Algebra, DynOp, GradCx, Graph, Tensor};
pub use error::{Issue, OpError, Report};
pub use fans::Fans;
pub use function::Function;
pub use ids::{GraphId, Key, OperationId, TensorId};
pub use initializer::{Fan, Initializer};
pub use inspect::{FunctionView, Kind, LoopView, OperationView};
pub use op::Op;
pub use provenance::{Asker, Provenance};
pub use scope::{Salted, Scope, Stepped};
pub use types::{Signature, TensorType};
pub use variable::{Update, Variable};

pub(crate) use data::{Data, Operation, Structural};
pub(crate) use ids::RegionId;
pub(crate) use nodes::{FunctionNode, Loop};

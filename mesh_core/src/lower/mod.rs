//! Lowering: a graph, a mesh and a layout become one program per function.
//!
//! Two sweeps. *Place* is pure: from the ops' split rules and the layout it decides where
//! every input must lie, where every output will lie, and which collectives lie between.
//! *Emit* follows that table. No op decides about a reduction: it says in which inputs it
//! is linear and which dims it reduces, and the consumers' demands settle each pending sum once.

mod counters;
mod emit;
mod explain;
mod generate;
mod issues;
mod local;
mod loops;
mod lowering;
mod memo;
mod module;
mod origins;
mod place;
mod placed;
mod price;
mod probes;
mod relayout;
mod saved;
mod setting;
mod shares;
mod summary;
mod sweep;
mod table;
mod travel;
mod warnings;

pub use crate::passes::{AllReduce, PORTABLE, PassId, Target};
pub use explain::{
    Advice, Alike, Chosen, Explain, FunctionRows, Listing, Repeated, Row, Unbalanced,
};
pub use local::{
    Local, LocalCx, LocalGiven, LocalIteration, LocalLeft, LocalPiece, LocalReach, LocalWindow,
};
pub use module::{Module, ModuleError, Options, VariableSpec};
pub use place::{PlaceCx, Placing};
pub use price::{Estimator, Exchanged, Holding, Meeting, Moment, Price};
pub use relayout::{Move, cost as relayout_cost};
pub use saved::ModuleFileError;
pub use shares::{PlacedCx, Shares};
pub use summary::{Summary, SummaryRow};
pub use warnings::Warnings;
pub(crate) use warnings::tell;

//! Named dimensions, meshes and layouts; graphs, their lowering to one program per function, and
//! the executor.
//!
//! A [`Graph`](graph::Graph) says what is computed, over named dims and global shapes. Lowering it
//! with a [`Mesh`](names::Mesh) and a [`Layout`](names::Layout) gives a
//! [`Module`](lower::Module): per function, one [`Program`](program::Program) of slices and
//! collectives that every processor runs. A [`Session`](session::Session) runs it.
//!
//! ```text
//!  names ─► graph ── gradient ──► graph ──(mesh, layout)──► lower ─► program ─► passes ─► exec
//! ```
//!
//! This crate knows no mathematical op; `mesh_ops` brings them.

pub mod array;
mod exec;
pub mod files;
pub mod graph;
pub mod lower;
pub mod names;
pub mod passes;
pub mod program;
pub mod session;
pub mod split;

pub use exec::Reference;

//! mesh_ops.

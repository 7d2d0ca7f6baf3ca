//! mesh_optimize.

//! mesh_core.

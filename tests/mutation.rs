//! mutation

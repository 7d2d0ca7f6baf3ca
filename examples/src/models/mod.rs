//! The models of the programs. They know no mesh.

pub mod lm;
pub mod mnist;

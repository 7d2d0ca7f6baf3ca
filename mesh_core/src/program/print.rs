//! stub
use super::*;
use crate::names::Mesh;
impl Program {
    /// d
    pub fn display<'a>(&'a self, _: &'a Mesh) -> String {
        format!("{:#?}", self.steps)
    }
}

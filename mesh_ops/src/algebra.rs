//! What operators on tensors mean.

use crate::elementwise::{add, div, mul, neg, sub};
use mesh_core::graph::{Algebra, Tensor};
use mesh_core::names::Shape;

pub(crate) struct MeshAlgebra;

impl Algebra for MeshAlgebra {
    fn add<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
        add(a, b)
    }
    fn sub<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
        sub(a, b)
    }
    fn mul<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
        mul(a, b)
    }
    fn div<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
        div(a, b)
    }
    fn neg<'g>(&self, a: Tensor<'g>) -> Tensor<'g> {
        neg(a)
    }
    fn broadcast<'g>(&self, a: Tensor<'g>, shape: &Shape) -> Tensor<'g> {
        crate::broadcast(a, shape)
    }
}

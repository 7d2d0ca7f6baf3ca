//! Small compositions under every legal layout, against the reference.

use crate::conform;
use mesh_ops::layers::attention::{
    as_memory, causal_mask, padding_mask, segment_mask, window_mask,
};
use mesh_ops::layers::weights_nonzero;
use mesh_ops::prelude::*;
use mesh_ops::testing::{Case, Fill};
use mesh_ops::{one_hot_with, reduce::sum_onto};

const FEW: &[&str] = &["a:2", "a:3", "a:2;b:2"];

#[test]
fn small_compositions() {
    let (p, q) = (dim("p", 4), dim("q", 6));
    conform(
        "small_compositions",
        vec![
            Case::new("one_hot_with", move |_, x| one_hot_with(x[0], q, 0.75, -0.25, F32))
                .input("at", "p:4", I32, Fill::Integers(-1, 6))
                .meshes(FEW),
            Case::new("sum_onto", move |_, x| sum_onto(x[0], &Shape::new([q, p]).unwrap()))
                .exact()
                .integers("x", "p:4;r:2;q:6", F32)
                .meshes(FEW),
            Case::new("weights_nonzero", |_, x| weights_nonzero(x[0], F32))
                .input("target", "p:4;q:6", I32, Fill::Integers(-1, 1))
                .meshes(FEW),
        ],
    );
}

#[test]
fn masks() {
    let length = dim("length", 6);
    type Mask = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;
    let pair = |name: &str, mask: Mask| {
        Case::new(name, move |_, x| mask(x[0], x[1]))
            .indices("query", "b:2;length:6", 6)
            .indices("memory", "b:2;memory_length:6", 6)
            .meshes(FEW)
    };
    conform(
        "masks",
        vec![
            pair("causal_mask", |q, m| causal_mask(q, m)),
            pair("window_mask", |q, m| window_mask(q, m, 2)),
            pair("segment_mask", |q, m| segment_mask(q, m)),
            Case::new("padding_mask", |_, x| padding_mask(x[0]))
                .indices("memory", "b:2;memory_length:6", 3)
                .meshes(FEW),
            Case::new("as_memory", move |_, x| as_memory(x[0], length))
                .exact()
                .integers("x", "b:2;length:6;heads:2", F32)
                .meshes(FEW),
        ],
    );
}

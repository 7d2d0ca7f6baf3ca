//! Attention in random graphs.

use crate::recipe::Draw;
use mesh_ops::attention::{Attend, Blocks, Exchange, Mask, attention};
use mesh_ops::prelude::*;

/// Attention of a tensor to itself along one of its dims; the next of its dims are summed over.
pub fn of_one<'g>(d: &Draw<'g>) -> Option<Vec<Tensor<'g>>> {
    let length = d.dim()?;
    let key = d.a.shape().iter().find(|other| *other != length)?;
    let memory = dim(&format!("{}_memory", length.name), length.size);
    let scores = d.a.shape().size() * memory.size;
    if scores > d.sizes.most || d.a.shape().contains(memory.name) {
        return None;
    }
    let seen = d.a.rename(length, memory.name.as_str());
    let mask = Mask::along(d.graph, length, memory);
    let mask = if d.heads() { mask.causal() } else { mask };
    let blocks = Blocks { queries: 2, memory: 3 };
    let (how, seen) = match d.heads() {
        true => (Attend::to_itself(length, memory, key, key), d.a),
        false => (Attend::new(memory, key, key), seen),
    };
    let dropout = if d.pick.b.is_multiple_of(3) { 0.25 } else { 0.0 };
    let others = d.a.shape().without(&[length.name, key.name]).names().next();
    let exchange = match (how.own, d.heads(), others) {
        (Some(_), true, Some(other)) => Exchange::AllToAll(other),
        (Some(_), true, None) => Exchange::Gather,
        (Some(_), false, Some(_)) => Exchange::Ring,
        _ => Exchange::Auto,
    };
    let how = Attend { mask, dropout, blocks, exchange, ..how };
    let (y, log_sum_exp) = attention(d.a, seen, seen, &how);
    Some(vec![y, log_sum_exp])
}

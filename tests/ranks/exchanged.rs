//! Attention of positions that ranks share, by each way in which they exchange them.

use mesh_ops::attention::{Blocks, Exchange, Mask};
use mesh_ops::layers::Parameters;
use mesh_ops::layers::attention::{AttentionOptions, AttentionWay, MultiHead, memory_dim};
use mesh_ops::prelude::*;
use mesh_optimize::{Optimizer, Sgd};

pub fn build(graph: &Graph) {
    let (batch, length, model) = (dim("batch", 2), dim("length", 16), dim("model", 8));
    let x = graph.input("x", [batch, length, model], F32);
    let multi_head = MultiHead::new(model, dim("heads", 8), dim("kv", 2));
    let rules = Mask::along(graph, length, memory_dim(length)).causal();
    let way = AttentionWay::Blocks(Blocks { queries: 3, memory: 2 });
    let mut y = x;
    let ways = [Exchange::Gather, Exchange::Ring, Exchange::AllToAll("heads".into())];
    for (exchange, name) in ways.into_iter().zip(["gather", "ring", "heads"]) {
        let weights = multi_head.weights(&Parameters::like(x), name);
        let options = AttentionOptions { rules, way, exchange, ..Default::default() };
        y = y + multi_head.self_attention(y, length, &weights, None, &options);
    }
    let (loss, each) = (y.square().mean(), y.square().mean_over([length, model]));
    graph.function("train", [x], [loss, each], Sgd::new(0.1).minimize(loss));
}

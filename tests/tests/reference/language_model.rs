//! A cluster's layout on one core: 24 layers of a transformer on 512 processors.

use super::{Array, Graph, Module, Session, assert_near};
use mesh_ops::layers::attention::{AttentionOptions, MultiHead, additive_mask, causal};
use mesh_ops::layers::{
    Around, Dense, FeedForward, Norm, Parameters, TransformerLayer, embed, embedding_weights,
};
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, Optimizer};

const LAYERS: usize = 24;

/// How far the loss and the variables may be from those of one processor, relative to the largest number of
/// each: some thousand roundings of f32, on the way through the layers and back.
const ROUNDING: f64 = 1e-4;

/// Decodes bytes; its function `train` is a step with Adafactor.
fn language_model(graph: &Graph) {
    let (batch, length, vocab) = (dim("batch", 64), dim("length", 2), dim("vocab", 8));
    let (width, heads, kv) = (dim("d_model", 8), dim("heads", 8), dim("kv", 1));
    let layer = TransformerLayer {
        norm: Norm::Rms,
        attention: MultiHead::new(width, heads, kv),
        feed_forward: FeedForward::new(width, dim("d_ff", 16)),
    };
    let parameters = Parameters::new(graph, F32);
    let bytes = graph.input("bytes", [batch, length], I32);
    let following = graph.input("next", [batch, length], I32);
    let mask = Some(additive_mask(causal(graph, length), F32));
    let attention = AttentionOptions { mask, ..Default::default() };
    let around = Around { attention, ..Default::default() };
    let mut x = embed(bytes, embedding_weights(&parameters, vocab, [width], "bytes"), vocab);
    for i in 0..LAYERS {
        let weights = layer.weights(&parameters, &format!("layer{i}"));
        x = layer.apply(x, length, &weights, &around);
    }
    let logits = Dense::onto([vocab]).over([width]).apply(x, "output");
    let loss = logits.softmax_cross_entropy(following, vocab).mean();
    graph.function("train", [bytes, following], [loss], Adafactor::default().minimize(loss));
}

fn lowered(mesh: &str, layout: &str) -> Module {
    let graph = mesh_ops::graph();
    language_model(&graph);
    graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap()
}

/// All variables, then the loss of one step, then all variables after it.
fn stepped(mut session: Session) -> Vec<Array> {
    let text = |from: usize| -> Array {
        ndarray::Array2::from_shape_fn((64, 2), |(i, j)| ((i * 3 + j + from) % 8) as i32).into()
    };
    let (bytes, next) = (text(0), text(1));
    let names: Vec<_> = session.variables().map(str::to_owned).collect();
    let all = |session: &Session| names.iter().map(|name| session.read(name).unwrap()).collect();
    let before: Vec<_> = all(&session);
    let feeds = [("bytes", bytes.view()), ("next", next.view())];
    let loss = session.call_named("train", &feeds).unwrap().remove(0).1;
    let after: Vec<_> = all(&session);
    [before, vec![loss], after].concat()
}

/// Data and model parallel on 512 processors, as on one.
#[test]
fn a_layout_for_a_cluster_is_tried_on_one_core() {
    let layout = "batch:data;heads:model;d_ff:model;vocab:model";
    let cluster = lowered("data:64;model:8", layout);
    assert_eq!(cluster.mesh().processors(), 512);
    let found = stepped(Session::reference(&cluster, 5).unwrap());
    let alone = stepped(Session::threads(&lowered("", ""), 5).unwrap());
    assert_near("512 processors", &found, &alone, ROUNDING);
    // The step itself moves them by much more.
    let (before, after) = (&alone[..alone.len() / 2], &alone[alone.len() / 2 + 1..]);
    let pairs = before.iter().zip(after).filter(|(x, _)| x.dtype() == F32);
    let moved = pairs.flat_map(|(before, after)| (after.to_f64() - before.to_f64()).into_iter());
    let most = moved.fold(0.0, |most: f64, x| most.max(x.abs()));
    assert!(most > 100.0 * ROUNDING, "by {most:e} at most");
}

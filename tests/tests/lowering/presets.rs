//! The layouts of Mesh TensorFlow's published configurations: one device, data parallelism on 8, 32 and 128
//! cores, model parallelism on 8 and 128, and both on meshes from 2 by 4 to 64 by 8.

use mesh_ops::layers::attention::MultiHead;
use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
use mesh_ops::layers::{Around, FeedForward, Norm, Parameters, TransformerLayer};
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, Optimizer};

const DATA: &str = "batch:all,experts:all";
const MODEL: &str = "d_ff:model,heads:model,vocab:model";
const BOTH: &str = "batch:batch,d_ff:model,heads:model,vocab:model,experts:batch";
/// The default of the package, for ensembles too.
const DEFAULT: &str =
    "ensemble:ensemble,batch:batch,d_ff:model,heads:model,vocab:model,experts:batch";

const PRESETS: [(&str, &str); 11] = [
    ("", ""),
    ("all:8", DATA),
    ("all:32", DATA),
    ("all:128", DATA),
    ("model:8", MODEL),
    ("model:128", MODEL),
    ("batch:2,model:4", BOTH),
    ("batch:4,model:8", BOTH),
    ("batch:16,model:8", BOTH),
    ("batch:64,model:8", BOTH),
    ("ensemble:2,batch:4,model:4", DEFAULT),
];

/// A transformer layer and a mixture of experts, with the dims that the presets name.
fn model(g: &Graph) {
    let (batch, length, model) = (dim("batch", 128), dim("length", 4), dim("d_model", 8));
    let vocab = dim("vocab", 128);
    let tokens = g.input("tokens", [batch, length], I32);
    let x = mesh_ops::layers::embedding(tokens, vocab, [model], "embedding");
    let layer = TransformerLayer {
        norm: Norm::Rms,
        attention: MultiHead::new(model, dim("heads", 128), dim("d_kv", 2)),
        feed_forward: FeedForward::new(model, dim("d_ff", 128)),
    };
    let weights = layer.weights(&Parameters::like(x), "layer");
    let x = layer.apply(x, length, &weights, &Around::default());
    let mixture =
        MixtureOfExperts::new(model, dim("expert_hidden", 8), dim("experts", 128), Gating::Switch);
    let weights = mixture.weights(&Parameters::like(x), "moe");
    let (y, losses) = mixture.apply(x, &[batch, length], &weights, None);
    let logits = y.dense(vocab, "logits");
    let loss = logits.softmax_cross_entropy(tokens, vocab).mean() + losses.balance;
    g.function("train", [tokens], [loss], Adafactor::default().minimize(loss));
}

#[test]
fn every_preset_is_parsed_and_lowered() {
    let g = mesh_ops::graph();
    model(&g);
    for (mesh, layout) in PRESETS {
        let (mesh, layout): (Mesh, Layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
        let module = g.lower(&mesh, &layout).unwrap_or_else(|e| panic!("{layout} on {mesh}: {e}"));
        let sums = module.explain().functions[0].collectives().count();
        assert_eq!(sums > 0, mesh.processors() > 1, "{layout} on {mesh}");
    }
}

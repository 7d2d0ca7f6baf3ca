//! The models of the workloads. They know no mesh.
//!
//! They are the peers' models: variables have the peers' names, values and order, and the losses
//! are the same.

use super::nets;
use super::workload::Workload;
use mesh_ops::attention::{Exchange, Mask};
use mesh_ops::conv::{Conv, conv};
use mesh_ops::layers::attention::{
    AttentionOptions, AttentionWay, MultiHead, MultiHeadWeights, memory_dim,
};
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, AdamW, AdamWeightDecay, Matrices, Muon, Optimizer, Sgd};

/// Images of a step of the convolutional model.
pub(crate) const CNN_BATCH: usize = 200;

/// Sizes of a decoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transformer {
    pub(crate) batch: usize,
    pub(crate) length: usize,
    pub(crate) d_model: usize,
    pub(crate) d_ff: usize,
    pub(crate) heads: usize,
    pub(crate) layers: usize,
    pub(crate) vocab: usize,
    pub(crate) attention: AttentionWay,
    /// How processors that share the length meet each other's keys and values.
    pub(crate) exchange: Exchange,
    /// One loop over the layers, whose weights are stacked, instead of all of them.
    pub(crate) scan: bool,
    /// Layers are computed again for their gradients.
    pub(crate) recompute: bool,
}

/// The sizes of the workloads' language model.
pub(crate) const LM: Transformer = Transformer {
    batch: 16,
    length: 128,
    d_model: 256,
    d_ff: 1024,
    heads: 8,
    layers: 4,
    vocab: 8192,
    attention: AttentionWay::Auto,
    exchange: Exchange::Auto,
    scan: false,
    recompute: false,
};

impl Transformer {
    /// As [`Workload::flops`].
    pub(crate) fn flops(&self) -> f64 {
        let &Self { batch, length, d_model: d, d_ff, vocab, layers, .. } = self;
        let weights = layers * (4 * d * d + 2 * d * d_ff) + d * vocab;
        (batch * length * 6 * (weights + layers * 2 * length * d)) as f64
    }
}

/// A loss, and the two inputs it is computed from.
pub(crate) struct Loss<'g> {
    pub(crate) inputs: [Tensor<'g>; 2],
    pub(crate) loss: Tensor<'g>,
}

/// The training step of a workload.
pub(crate) fn build(graph: &Graph, workload: Workload, sizes: &Transformer) -> Function<2, 1> {
    let (batch, _) = workload.per_step(sizes);
    let (Loss { inputs, loss }, others) = match workload {
        Workload::MlpB128 | Workload::MlpB1024 => (mlp(graph, batch), vec![]),
        Workload::CnnB200 => (cnn(graph), vec![]),
        Workload::LmAdamw | Workload::LmAdafactor | Workload::LmMuon => (lm(graph, sizes), vec![]),
        Workload::Resnet18 => nets::resnet18(graph),
        Workload::Mobilenet => nets::mobilenet(graph),
        Workload::Vit => (nets::vit(graph), vec![]),
        Workload::Unet => nets::unet(graph),
    };
    let updates = optimizer(workload).minimize(loss);
    graph.function("train", inputs, [loss], updates.into_iter().chain(others))
}

/// The optimizer of the peer that is fastest at the workload, where the peers' optimizers differ:
/// JAX's Adam for the MLP, Mesh TensorFlow's Adam without bias correction for the language model.
/// Adafactor is Mesh TensorFlow's.
fn optimizer(workload: Workload) -> Box<dyn Optimizer> {
    match workload {
        Workload::MlpB128 | Workload::MlpB1024 => {
            Box::new(AdamWeightDecay::standard(1e-3).weight_decay(0.0))
        }
        Workload::LmAdamw => Box::new(adamw()),
        Workload::LmMuon => {
            let matrices = Matrices { exclude: vec!["^(head)$".to_owned()], ..Matrices::default() };
            Box::new(Muon { matrices, others: adamw().into(), ..Muon::new(1e-3) })
        }
        Workload::CnnB200 | Workload::LmAdafactor => {
            Box::new(Adafactor::default().learning_rate(1e-2))
        }
        Workload::Resnet18 | Workload::Mobilenet | Workload::Unet => Box::new(Sgd::new(0.05)),
        Workload::Vit => Box::new(AdamW::new(1e-3).weight_decay(0.01)),
    }
}

/// The language model's optimizer.
pub(crate) fn adamw() -> AdamWeightDecay {
    AdamWeightDecay { epsilon: 1e-8.into(), ..AdamWeightDecay::new(1e-3).weight_decay(0.01) }
}

fn normal(inputs: &[Dimension]) -> Initializer {
    Initializer::variance_scaling(1.0, Fan::In, inputs, &[])
}

fn mlp(graph: &Graph, batch: usize) -> Loss<'_> {
    let (batch, pixels) = (dim("batch", batch), dim("pixels", 784));
    let image = graph.input("image", [batch, pixels], F32);
    classify(image, image, &[pixels])
}

/// Mesh TensorFlow's example. If `rows` and `cols` are split, only borders are sent.
fn cnn(graph: &Graph) -> Loss<'_> {
    let batch = dim("batch", CNN_BATCH);
    let (rows, cols) = (dim("rows", 28), dim("cols", 28));
    let (height, width) = (dim("fh", 9), dim("fw", 9));
    let (one, filters1, filters2) = (dim("one", 1), dim("filters1", 16), dim("filters2", 16));
    let window = Conv::over([("rows", "fh"), ("cols", "fw")]);
    let image = graph.input("image", [batch, rows, cols, one], F32);
    let mut x = image;
    for (name, from, onto) in [("c0", one, filters1), ("c1", filters1, filters2)] {
        let initial = normal(&[height, width, from]);
        let filter = graph.variable(name, [height, width, from, onto], F32, initial);
        x = conv(x, filter.value(), &window).relu();
    }
    let x = x.mean_over([filters2]);
    classify(image, x, &[rows, cols])
}

/// Two hidden layers and ten classes on top of `x`.
fn classify<'g>(image: Tensor<'g>, x: Tensor<'g>, inputs: &[Dimension]) -> Loss<'g> {
    let graph = x.graph();
    let Some(batch) = image.shape().get("batch".into()) else {
        return Loss { inputs: [image; 2], loss: image };
    };
    let (hidden1, hidden2, classes) =
        (dim("hidden1", 512), dim("hidden2", 512), dim("classes", 10));
    let dense = |x: Tensor<'g>, layer: usize, inputs: &[Dimension], onto: Dimension| {
        let dims: Vec<_> = inputs.iter().copied().chain([onto]).collect();
        let weights = graph.variable(&format!("w{layer}"), dims, F32, normal(inputs)).value();
        let bias = graph.variable(&format!("b{layer}"), [onto], F32, Initializer::ZEROS).value();
        x.einsum(&[weights], [batch, onto]) + bias
    };
    let h = dense(x, 0, inputs, hidden1).relu();
    let h = dense(h, 1, &[hidden1], hidden2).relu();
    let logits = dense(h, 2, &[hidden2], classes);
    let label = graph.input("label", [batch], I32);
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    Loss { inputs: [image, label], loss }
}

/// A decoder: norms before layers, RMS norms, no biases, positions learned, the head untied.
pub(crate) fn lm<'g>(graph: &'g Graph, sizes: &Transformer) -> Loss<'g> {
    let decoder = Decoder::new(graph, sizes);
    let layer = |h: Tensor<'g>, weights: &[Tensor<'g>]| {
        let apply = |h| decoder.layer(h, weights);
        if sizes.recompute { graph.recompute([h], |[h]| [apply(h)])[0] } else { apply(h) }
    };
    decoder.loss(|h| {
        if !sizes.scan {
            let weights = |layer| decoder.weights(&format!("l{layer}_"), &[]);
            return (0..sizes.layers).fold(h, |h, number| layer(h, &weights(number)));
        }
        let layers = dim("layers", sizes.layers);
        let stacked = decoder.weights("", &[layers]);
        let (last, _) = graph.scan_lists(layers, &[h], &stacked, |h, weights| {
            (vec![layer(h[0], weights)], Vec::new())
        });
        last[0]
    })
}

/// The dims of a decoder.
struct Decoder<'g> {
    graph: &'g Graph,
    batch: Dimension,
    length: Dimension,
    d: Dimension,
    d_ff: Dimension,
    vocab: Dimension,
    heads: Dimension,
    kv: Dimension,
    attention: AttentionWay,
    exchange: Exchange,
}

impl<'g> Decoder<'g> {
    fn new(graph: &'g Graph, sizes: &Transformer) -> Self {
        Self {
            graph,
            batch: dim("batch", sizes.batch),
            length: dim("length", sizes.length),
            d: dim("d_model", sizes.d_model),
            d_ff: dim("d_ff", sizes.d_ff),
            vocab: dim("vocab", sizes.vocab),
            heads: dim("heads", sizes.heads),
            kv: dim("d_kv", sizes.d_model / sizes.heads),
            attention: sizes.attention,
            exchange: sizes.exchange,
        }
    }

    fn variable(&self, name: &str, dims: &[Dimension], inputs: &[Dimension]) -> Tensor<'g> {
        self.graph.variable(name, dims.iter().copied(), F32, normal(inputs)).value()
    }

    fn scale(&self, name: &str, dims: &[Dimension]) -> Tensor<'g> {
        self.graph.variable(name, dims.iter().copied(), F32, Initializer::ONES).value()
    }

    fn normed(&self, x: Tensor<'g>, scale: Tensor<'g>) -> Tensor<'g> {
        x * (x.square().mean_over([self.d]) + 1e-6).rsqrt() * scale
    }

    /// A layer's weights, or those of several layers, in the order in which they are used.
    fn weights(&self, prefix: &str, stacked: &[Dimension]) -> Vec<Tensor<'g>> {
        let &Self { d, d_ff, heads, kv, .. } = self;
        let dims = |own: &[Dimension]| [stacked, own].concat();
        let named = |name: &str, own: &[Dimension], inputs: &[Dimension]| {
            self.variable(&format!("{prefix}{name}"), &dims(own), inputs)
        };
        vec![
            self.scale(&format!("{prefix}n1"), &dims(&[d])),
            named("wq", &[d, heads, kv], &[d]),
            named("wk", &[d, heads, kv], &[d]),
            named("wv", &[d, heads, kv], &[d]),
            named("wo", &[heads, kv, d], &[heads, kv]),
            named("w1", &[d, d_ff], &[d]),
            named("w2", &[d_ff, d], &[d_ff]),
            self.scale(&format!("{prefix}n2"), &dims(&[d])),
        ]
    }

    fn layer(&self, h: Tensor<'g>, weights: &[Tensor<'g>]) -> Tensor<'g> {
        let &[n1, query, key, value, output, w1, w2, n2] = weights else { return h };
        let &Self { graph, batch, length, d, d_ff, heads, kv, .. } = self;
        let options = AttentionOptions {
            rules: Mask::along(graph, length, memory_dim(length)).causal(),
            scale: Some((kv.size as f64).powf(-0.5)),
            way: self.attention,
            exchange: self.exchange,
            ..Default::default()
        };
        let weights = MultiHeadWeights { query, key, value, output };
        let attention = MultiHead::new(d, heads, kv);
        let h = h + attention.self_attention(self.normed(h, n1), length, &weights, None, &options);
        let hidden = self.normed(h, n2).einsum(&[w1], [batch, length, d_ff]).relu();
        h + hidden.einsum(&[w2], [batch, length, d])
    }

    /// The loss with whatever layers are between embedding and head.
    fn loss(&self, layers: impl FnOnce(Tensor<'g>) -> Tensor<'g>) -> Loss<'g> {
        let &Self { graph, batch, length, d, vocab, .. } = self;
        let text = graph.input("text", [batch, length], I32);
        let next = graph.input("next", [batch, length], I32);
        let positions = self.variable("pos", &[length, d], &[d]);
        let embedded = self.variable("emb", &[vocab, d], &[d]).gather(text, vocab);
        let h = self.normed(layers(embedded + positions), self.scale("nf", &[d]));
        let logits = h.einsum(&[self.variable("head", &[d, vocab], &[d])], [batch, length, vocab]);
        let loss = logits.softmax_cross_entropy(next, vocab).mean();
        Loss { inputs: [text, next], loss }
    }
}

//! A decoder-only transformer, a language model of tokens.

use mesh_ops::attention::{Exchange, Mask};
use mesh_ops::layers::attention::{
    AttentionOptions, AttentionWay, CacheVariables, KeyValues, MultiHead, Rotation, memory_dim,
};
use mesh_ops::layers::{
    Around, Dense, DenseWeights, FeedForward, Norm, NormWeights, Parameters, TransformerLayer,
    TransformerLayerWeights, Weights, embed, embedding_weights,
};
use mesh_ops::prelude::*;
use mesh_optimize::Optimizer;

/// The base of rotary positions, which gives the slowest rotation.
const ROTARY_BASE: f64 = 10_000.0;

/// What a language model is made of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sizes {
    /// Sequences of a step.
    pub batch: usize,
    /// Tokens of a sequence.
    pub sequence: usize,
    /// Size of the vectors between layers.
    pub width: usize,
    /// Heads of attention, which divide the width.
    pub heads: usize,
    /// Size of the hidden vectors of feed-forward layers.
    pub hidden: usize,
    /// Number of layers.
    pub depth: usize,
    /// How many different tokens there are.
    pub vocab: usize,
    /// Whether to loop over layers with one body.
    pub scan: bool,
    /// Whether layers are computed again for their gradients.
    pub recompute: bool,
    /// How attention of all positions is computed.
    pub attention: AttentionWay,
    /// How its keys and values are exchanged where the length is split.
    pub exchange: Exchange,
    /// In how many pieces positions are dealt in zigzag order, so that processors that share them have equal
    /// work; in order if none. The loss is the same.
    pub pieces: Option<usize>,
    /// What is computed in.
    pub dtype: DType,
}

/// Functions of the graph.
pub struct Functions {
    /// From bytes and those that follow to the mean loss. Updates the variables.
    pub train: Function<2, 1>,
    /// From bytes and those that follow to the mean loss of each window.
    pub evaluate: Function<2, 1>,
    /// From a byte and its position to the logits of the next byte, given the bytes at earlier
    /// positions.
    pub next: Function<2, 1>,
}

/// A decoder-only transformer: rotary positions, norms first.
struct Model {
    layer: TransformerLayer,
    output: Dense,
    length: Dimension,
    layers: Dimension,
    vocab: Dimension,
    scan: bool,
    recompute: bool,
    /// How attention of all positions is computed.
    way: AttentionWay,
    exchange: Exchange,
    pieces: Option<usize>,
    /// The dtype of weights, activations and the key-value cache.
    dtype: DType,
}

/// The model's weights.
struct ModelWeights<'g> {
    /// The embedding of bytes.
    bytes: Tensor<'g>,
    layers: LayerWeights<'g>,
    norm: NormWeights<'g>,
    /// The layer from the last vectors to logits.
    output: DenseWeights<'g>,
}

/// Weights of all layers.
enum LayerWeights<'g> {
    Each(Vec<TransformerLayerWeights<'g>>),
    /// With the dim `layers`.
    Stacked(TransformerLayerWeights<'g>),
}

/// What a step of training is made of.
struct Training<'g> {
    model: Model,
    weights: ModelWeights<'g>,
    inputs: [Tensor<'g>; 2],
    /// The loss of each token.
    losses: Tensor<'g>,
    train: Function<2, 1>,
}

fn training<'g>(graph: &'g Graph, sizes: &Sizes, optimizer: &dyn Optimizer) -> Training<'g> {
    let (batch, length) = (dim("batch", sizes.batch), dim("length", sizes.sequence));
    let model = Model::new(sizes, length);
    let weights = model.weights(graph);
    let bytes = graph.input("bytes", [batch, length], I32);
    let following = graph.input("following", [batch, length], I32);
    let logits = model.logits(model.dealt(bytes), &weights);
    let losses = logits.softmax_cross_entropy(model.dealt(following), model.vocab);
    let loss = losses.mean();
    let inputs = [bytes, following];
    let train = graph.function("train", inputs, [loss], optimizer.minimize(loss));
    Training { model, weights, inputs, losses, train }
}

/// Builds the model and the function that trains it, alone.
pub fn build_training(graph: &Graph, sizes: &Sizes, optimizer: &dyn Optimizer) -> Function<2, 1> {
    training(graph, sizes, optimizer).train
}

/// Builds the model and the function that reads one token after the other, alone: see [`Functions::next`].
pub fn build_decoding(graph: &Graph, sizes: &Sizes) -> Function<2, 1> {
    let model = Model::new(sizes, dim("length", sizes.sequence));
    let weights = model.weights(graph);
    let (byte, position) = (graph.input("byte", [], I32), graph.input("position", [], I32));
    let (logits, kept) = model.next(byte, position, &weights);
    graph.function("next", [byte, position], [logits], kept)
}

impl Sizes {
    /// Bytes that a token reads at least where so many positions of the cache are filled: all weights but
    /// the embedding's, and the keys and values.
    pub fn read(&self, filled: usize) -> usize {
        let &Self { width, hidden, depth, vocab, .. } = self;
        let layer = 4 * width * width + 2 * width * hidden;
        let cache = 2 * filled * width;
        (depth * (layer + cache) + width * vocab) * self.dtype.size()
    }
}

/// Builds the model and its functions.
pub fn build(graph: &Graph, sizes: &Sizes, optimizer: &dyn Optimizer) -> Functions {
    let Training { model, weights, inputs, losses, train } = training(graph, sizes, optimizer);
    let length = model.length;
    let each = losses.mean_over([length]);
    let each = at_evaluation(optimizer, each, Vec::new()).0;
    let evaluate = graph.function("evaluate", inputs, [each], []);

    let byte = graph.input("byte", [], I32);
    let position = graph.input("position", [], I32);
    let (logits, kept) = model.next(byte, position, &weights);
    let (logits, kept) = at_evaluation(optimizer, logits, kept);
    let next = graph.function("next", [byte, position], [logits], kept);
    Functions { train, evaluate, next }
}

/// A result and updates with the weights that the optimizer evaluates with.
fn at_evaluation<'g>(
    optimizer: &dyn Optimizer,
    result: Tensor<'g>,
    updates: Vec<Update<'g>>,
) -> (Tensor<'g>, Vec<Update<'g>>) {
    let values = updates.iter().map(|update| update.value());
    let all: Vec<_> = std::iter::once(result).chain(values).collect();
    let found = optimizer.for_evaluation(&all);
    let assigned = updates.iter().zip(&found[1..]);
    (found[0], assigned.map(|(update, value)| update.variable().assign(*value)).collect())
}

impl Model {
    fn new(sizes: &Sizes, length: Dimension) -> Self {
        let (width, heads) = (dim("d_model", sizes.width), dim("heads", sizes.heads));
        let kv = dim("kv", sizes.width / sizes.heads);
        let vocab = dim("vocab", sizes.vocab);
        let feed_forward = FeedForward::new(width, dim("d_ff", sizes.hidden));
        Self {
            output: Dense::onto([vocab]).over([width]).without_bias(),
            layer: TransformerLayer {
                norm: Norm::Rms,
                attention: MultiHead::new(width, heads, kv),
                feed_forward,
            },
            length,
            layers: dim("layers", sizes.depth),
            vocab,
            scan: sizes.scan,
            recompute: sizes.recompute,
            way: sizes.attention,
            exchange: sizes.exchange,
            pieces: sizes.pieces,
            dtype: sizes.dtype,
        }
    }

    fn weights<'g>(&self, graph: &'g Graph) -> ModelWeights<'g> {
        let parameters = Parameters::new(graph, self.dtype);
        let width = self.layer.attention.model;
        let layers = if self.scan {
            let stacked = parameters.clone().stacked([self.layers]);
            LayerWeights::Stacked(self.layer.weights(&stacked, "layers"))
        } else {
            let layer = |i: usize| self.layer.weights(&parameters, &format!("layer{i}"));
            LayerWeights::Each((0..self.layers.size).map(layer).collect())
        };
        ModelWeights {
            bytes: embedding_weights(&parameters, self.vocab, [width], "bytes"),
            layers,
            norm: Norm::Rms.weights(&parameters, width, "norm"),
            output: self.output.weights(&parameters, "output"),
        }
    }

    /// The factor that queries are multiplied by. Their initial weights contain it as well. Without
    /// it here the products of queries and keys would grow too fast under Adam, whose steps do not
    /// depend on the size of weights.
    fn scale(&self) -> Option<f64> {
        Some((self.layer.attention.kv.size as f64).powf(-0.5))
    }

    /// The rotation of queries and keys at these positions.
    fn rotation<'g>(&self, positions: Tensor<'g>) -> Option<Rotation<'g>> {
        Some(Rotation::new_in(self.dtype, positions, self.layer.attention.kv, ROTARY_BASE))
    }

    /// What has positions, in the order in which the model has them.
    fn dealt<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        self.pieces.map_or(x, |pieces| mesh_ops::zigzag(x, self.length, pieces))
    }

    /// The logits of the token after each position, of tokens that are [`dealt`](Self::dealt).
    fn logits<'g>(&self, bytes: Tensor<'g>, weights: &ModelWeights<'g>) -> Tensor<'g> {
        let graph = bytes.graph();
        let (length, memory) = (self.length, memory_dim(self.length));
        let mask = match self.pieces {
            Some(pieces) => Mask::in_zigzag(graph, length, memory, pieces),
            None => Mask::along(graph, length, memory),
        };
        let rules = mask.causal();
        let (scale, way, exchange) = (self.scale(), self.way, self.exchange);
        let around = Around {
            attention: AttentionOptions { rules, scale, way, exchange, ..Default::default() },
            rotation: self.rotation(self.dealt(mesh_ops::range(graph, length, I32))),
            ..Default::default()
        };
        let layer = |x: Tensor<'g>, weights: &TransformerLayerWeights<'g>| {
            let apply = |x| self.layer.apply(x, self.length, weights, &around);
            if self.recompute { graph.recompute([x], |[x]| [apply(x)])[0] } else { apply(x) }
        };
        let x = embed(bytes, weights.bytes, self.vocab);
        let x = match &weights.layers {
            LayerWeights::Each(all) => all.iter().fold(x, layer),
            LayerWeights::Stacked(all) => {
                let (last, _) = graph.scan_lists(self.layers, &[x], &all.tensors(), |x, slices| {
                    (vec![layer(x[0], &with(all, slices))], Vec::new())
                });
                last[0]
            }
        };
        self.bytes_after(x, weights)
    }

    fn bytes_after<'g>(&self, x: Tensor<'g>, weights: &ModelWeights<'g>) -> Tensor<'g> {
        let x = Norm::Rms.apply(x, self.layer.attention.model, &weights.norm);
        self.output.apply_with(x, &weights.output)
    }

    /// The logits of the token after one token, and the updates of the key-value cache.
    fn next<'g>(
        &self,
        byte: Tensor<'g>,
        position: Tensor<'g>,
        weights: &ModelWeights<'g>,
    ) -> (Tensor<'g>, Vec<Update<'g>>) {
        let graph = byte.graph();
        let memory = memory_dim(self.length);
        let around = Around {
            attention: AttentionOptions { scale: self.scale(), ..Default::default() },
            rotation: self.rotation(position),
            ..Default::default()
        };
        let mut x = embed(byte, weights.bytes, self.vocab);
        let mut kept = Vec::new();
        let cache = |dims: &[Dimension], name: &str| -> CacheVariables<'g> {
            self.layer.attention.cache_variables(graph, dims, memory, self.dtype, name)
        };
        match &weights.layers {
            LayerWeights::Each(all) => {
                for (i, weights) in all.iter().enumerate() {
                    let cache = cache(&[], &format!("cache{i}"));
                    let (y, now) =
                        self.layer.decode(x, position, &cache.value(), memory, weights, &around);
                    x = y;
                    kept.extend(cache.assign(&now));
                }
            }
            LayerWeights::Stacked(all) => {
                let cache = cache(&[self.layers], "cache");
                let before = cache.value();
                let sliced = [all.tensors(), before.tensors()].concat();
                let (last, now) = graph.scan_lists(self.layers, &[x], &sliced, |x, slices| {
                    let (of_layer, of_cache) = slices.split_at(slices.len() - 2);
                    let (before, weights) = (with(&before, of_cache), with(all, of_layer));
                    let (y, now) =
                        self.layer.decode(x[0], position, &before, memory, &weights, &around);
                    (vec![y], now.tensors())
                });
                x = last[0];
                kept.extend(cache.assign(&KeyValues { key: now[0], value: now[1] }));
            }
        }
        (self.bytes_after(x, weights), kept)
    }
}

/// A structure like `structure`, with other tensors.
fn with<'g, W: Weights<'g>>(structure: &W, tensors: &[Tensor<'g>]) -> W {
    let mut tensors = tensors.iter();
    structure.clone().mapped(&mut |old| tensors.next().copied().unwrap_or(old))
}

#[cfg(test)]
mod tests;

//! Multi-head attention: projections to heads, attention, projection back.

use super::dot_product::attention_to_itself;
use super::{AttentionOptions, Rotation, dot_product_attention};
use crate::layers::parameters::weights;
use crate::layers::{Dense, DenseWeights, Parameters};
use crate::room::*;
use mesh_core::graph::Initializer;

/// Which heads there are.
///
/// Queries have the dims `[shared heads, own heads, kv]`; keys and values have only the shared
/// heads: every query head of its own group uses one head of keys and values.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::Parameters;
/// use mesh_ops::layers::attention::{AttentionOptions, MultiHead, causal};
/// # let g = mesh_ops::graph();
/// let (batch, length, model) = (dim("batch", 2), dim("length", 16), dim("model", 32));
/// let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 8));
/// let x = g.input("x", [batch, length, model], F32);
/// let weights = attention.weights(&Parameters::like(x), "attention");
/// let options = AttentionOptions { mask: Some(causal(&g, length)), ..Default::default() };
/// let y = attention.self_attention(x, length, &weights, None, &options);
/// assert_eq!(y.shape(), x.shape());
/// ```
#[derive(Clone, Debug)]
pub struct MultiHead {
    /// The dim of its input and output.
    pub model: Dimension,
    /// The dim of a head's queries, keys and values.
    pub kv: Dimension,
    /// The memory's dim that keys and values are made of; `model` unless set otherwise.
    pub memory_model: Dimension,
    shared: Vec<Dimension>,
    own: Vec<Dimension>,
}

/// Weights of a [`MultiHead`]: no biases.
#[derive(Clone, Copy, Debug)]
pub struct MultiHeadWeights<'g> {
    /// From the model to queries.
    pub query: Tensor<'g>,
    /// From the memory to keys.
    pub key: Tensor<'g>,
    /// From the memory to values.
    pub value: Tensor<'g>,
    /// From heads back to the model.
    pub output: Tensor<'g>,
}
weights!(MultiHeadWeights { query, key, value, output });

/// Keys and values of a memory.
#[derive(Clone, Copy, Debug)]
pub struct KeyValues<'g> {
    /// What queries are compared with.
    pub key: Tensor<'g>,
    /// What they get.
    pub value: Tensor<'g>,
}
weights!(KeyValues { key, value });

impl MultiHead {
    /// Every head has keys and values of its own.
    pub fn new(model: Dimension, heads: Dimension, kv: Dimension) -> Self {
        Self { model, kv, memory_model: model, shared: vec![heads], own: Vec::new() }
    }

    /// All heads share one head of keys and values (arXiv 1911.02150).
    pub fn multi_query(model: Dimension, heads: Dimension, kv: Dimension) -> Self {
        Self { shared: Vec::new(), own: vec![heads], ..Self::new(model, heads, kv) }
    }

    /// `groups` heads of keys and values, each shared by `heads` heads of queries (arXiv
    /// 2305.13245).
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::attention::MultiHead;
    /// let (model, heads, kv) = (dim("model", 32), dim("heads", 4), dim("kv", 8));
    /// let grouped = MultiHead::grouped(model, dim("groups", 2), heads, kv);
    /// assert_eq!(grouped.heads().count(), 2);
    /// assert!(grouped.memory_heads().eq([dim("groups", 2)]));
    /// assert!(MultiHead::multi_query(model, heads, kv).memory_heads().eq([]));
    /// ```
    pub fn grouped(model: Dimension, groups: Dimension, heads: Dimension, kv: Dimension) -> Self {
        Self { own: vec![heads], ..Self::new(model, groups, kv) }
    }

    /// The memory has another dim than the queries' model.
    pub fn with_memory_model(mut self, memory_model: Dimension) -> Self {
        self.memory_model = memory_model;
        self
    }

    /// Dims of all query heads.
    pub fn heads(&self) -> impl Iterator<Item = Dimension> + Clone + '_ {
        self.shared.iter().chain(&self.own).copied()
    }

    /// Dims of the heads of keys and values.
    pub fn memory_heads(&self) -> impl Iterator<Item = Dimension> + Clone + '_ {
        self.shared.iter().copied()
    }

    fn onto_queries(&self) -> Dense {
        Dense::onto(self.heads().chain([self.kv])).over([self.model]).without_bias()
    }

    fn onto_memory(&self) -> Dense {
        Dense::onto(self.memory_heads().chain([self.kv])).over([self.memory_model]).without_bias()
    }

    fn onto_model(&self) -> Dense {
        Dense::onto([self.model]).over(self.heads().chain([self.kv])).without_bias()
    }

    /// New variables `{name}/q/kernel`, `/k/`, `/v/` and `/o/`, with Mesh TensorFlow's deviations:
    /// queries `(model * kv)^-1/2`, which holds the factor `kv^-1/2` of the logits, others
    /// `inputs^-1/2`.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> MultiHeadWeights<'g> {
        let _layer = parameters.graph().for_layer("attention");
        let _scope = parameters.scope(name);
        let stddev = ((self.model.size * self.kv.size) as f64).powf(-0.5);
        let queries = Initializer::TruncatedNormal { mean: 0.0, stddev };
        MultiHeadWeights {
            query: self.onto_queries().initializer(queries).weights(parameters, "q").kernel,
            key: self.onto_memory().weights(parameters, "k").kernel,
            value: self.onto_memory().weights(parameters, "v").kernel,
            output: self.onto_model().weights(parameters, "o").kernel,
        }
    }

    /// Queries of `x`.
    #[track_caller]
    pub fn queries<'g>(
        &self,
        x: Tensor<'g>,
        weights: &MultiHeadWeights<'g>,
        rotation: Option<&Rotation<'g>>,
    ) -> Tensor<'g> {
        let _layer = x.graph().for_layer("attention");
        let q = project(x, self.onto_queries(), weights.query);
        turned(q, self.kv, rotation)
    }

    /// Keys and values of `x`, whose positions keep their dim.
    #[track_caller]
    pub fn keys_values<'g>(
        &self,
        x: Tensor<'g>,
        weights: &MultiHeadWeights<'g>,
        rotation: Option<&Rotation<'g>>,
    ) -> KeyValues<'g> {
        let _layer = x.graph().for_layer("attention");
        let key = project(x, self.onto_memory(), weights.key);
        let value = project(x, self.onto_memory(), weights.value);
        KeyValues { key: turned(key, self.kv, rotation), value }
    }

    /// From heads back to the model.
    #[track_caller]
    pub fn output<'g>(&self, heads: Tensor<'g>, weights: &MultiHeadWeights<'g>) -> Tensor<'g> {
        let _layer = heads.graph().for_layer("attention");
        project(heads, self.onto_model(), weights.output)
    }

    /// Attention of queries to a memory along its dim `memory`, back in the model.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::Parameters;
    /// use mesh_ops::layers::attention::{AttentionOptions, MultiHead};
    /// # let g = mesh_ops::graph();
    /// let (length, model) = (dim("length", 16), dim("model", 32));
    /// let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 8));
    /// let (x, memory) = (g.input("x", [length, model], F32), dim("memory", 6));
    /// let seen = g.input("seen", [memory, model], F32);
    /// let weights = attention.weights(&Parameters::like(x), "attention");
    /// let queries = attention.queries(x, &weights, None);
    /// let kept = attention.keys_values(seen, &weights, None);
    /// let y = attention.attend(queries, &kept, memory, &weights, &AttentionOptions::default());
    /// assert_eq!(y.shape(), x.shape());
    /// // From heads to the model is the last step of it.
    /// assert_eq!(attention.output(queries, &weights).shape(), x.shape());
    /// ```
    #[track_caller]
    pub fn attend<'g>(
        &self,
        q: Tensor<'g>,
        at: &KeyValues<'g>,
        memory: Dimension,
        weights: &MultiHeadWeights<'g>,
        options: &AttentionOptions<'g>,
    ) -> Tensor<'g> {
        let _layer = q.graph().for_layer("attend");
        let (k, v) = (at.key, at.value);
        let heads = dot_product_attention(q, k, v, memory, self.kv, self.kv, options);
        self.output(heads, weights)
    }

    /// Every position of `x` along `length` attends to all of them; masks and biases have the dims
    /// `length` and [`MEMORY_LENGTH`](super::MEMORY_LENGTH). With `length` split, keys and values
    /// are gathered, by the rename of their positions; in blocks, they are exchanged as the options say.
    #[track_caller]
    pub fn self_attention<'g>(
        &self,
        x: Tensor<'g>,
        length: Dimension,
        weights: &MultiHeadWeights<'g>,
        rotation: Option<&Rotation<'g>>,
        options: &AttentionOptions<'g>,
    ) -> Tensor<'g> {
        let _layer = x.graph().for_layer("self_attention");
        if x.is_poisoned() {
            return x;
        }
        let q = self.queries(x, weights, rotation);
        let KeyValues { key, value } = self.keys_values(x, weights, rotation);
        let heads = attention_to_itself(q, key, value, length, self.kv, options);
        self.output(heads, weights)
    }

    /// Every position of `x` attends to a memory with dims `memory` and the memory's model.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::Parameters;
    /// use mesh_ops::layers::attention::{AttentionOptions, MultiHead};
    /// # let g = mesh_ops::graph();
    /// let (length, model, other) = (dim("length", 16), dim("model", 32), dim("other", 24));
    /// let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 8)).with_memory_model(other);
    /// let (x, source) = (g.input("x", [length, model], F32), dim("source", 6));
    /// let seen = g.input("seen", [source, other], F32);
    /// let weights = attention.weights(&Parameters::like(x), "attention");
    /// let y = attention.cross_attention(x, seen, source, &weights, &AttentionOptions::default());
    /// assert_eq!(y.shape(), x.shape());
    /// ```
    #[track_caller]
    pub fn cross_attention<'g>(
        &self,
        x: Tensor<'g>,
        at: Tensor<'g>,
        memory: Dimension,
        weights: &MultiHeadWeights<'g>,
        options: &AttentionOptions<'g>,
    ) -> Tensor<'g> {
        let _layer = x.graph().for_layer("cross_attention");
        let q = self.queries(x, weights, None);
        let at = self.keys_values(at, weights, None);
        self.attend(q, &at, memory, weights, options)
    }
}

#[track_caller]
fn project<'g>(x: Tensor<'g>, dense: Dense, kernel: Tensor<'g>) -> Tensor<'g> {
    dense.apply_with(x, &DenseWeights { kernel, bias: None })
}

#[track_caller]
fn turned<'g>(x: Tensor<'g>, kv: Dimension, rotation: Option<&Rotation<'g>>) -> Tensor<'g> {
    match rotation {
        Some(rotation) => rotation.apply(x, kv),
        None => x,
    }
}

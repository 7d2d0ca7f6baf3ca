//! Memory-compressed attention: queries attend to means of blocks of positions (Liu et al. 2018,
//! arXiv 1801.10198, section 4.2.3, with means in the place of a learned convolution, as in Mesh
//! TensorFlow).
//!
//! The work is `length * length / factor`. Under a layout that splits `length` and its blocks over
//! one axis, the means are gathered, not the positions.

use super::blocks::{Blocks, cut};
use super::{AttentionOptions, MEMORY_LENGTH, dot_product_attention};
use super::{MultiHead, MultiHeadWeights, Rotation};
use crate::elementwise::greater_equal;
use crate::room::*;
use mesh_core::graph::Graph;

/// A memory with one position for every `factor` positions of a dim.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{AttentionOptions, CompressedMemory};
/// # let g = mesh_ops::graph();
/// let (length, heads, kv) = (dim("length", 64), dim("heads", 4), dim("kv", 8));
/// let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [length, heads, kv], F32));
/// let memory = CompressedMemory::new(length, 4).looking_back();
/// let y = memory.apply(q, k, v, kv, kv, &AttentionOptions::default());
/// assert_eq!(y.shape(), q.shape());
///
/// // What it does: keys and values get a short dim, and queries see the blocks before their own.
/// assert_eq!(memory.compressed(k).shape().to_string(), "[memory_length:16, heads:4, kv:8]");
/// assert_eq!(memory.mask(&g).shape().to_string(), "[length:64, memory_length:16]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompressedMemory {
    length: Blocks,
    back: bool,
}

impl CompressedMemory {
    /// Means of `factor` positions, which divides the length; every query sees all of them.
    pub fn new(length: Dimension, factor: usize) -> Self {
        Self { length: Blocks { dim: length, size: factor }, back: false }
    }

    /// A query sees the blocks that end with or before its own position. Where there is none it
    /// attends to nothing, by an extra logit of 0 unless the options have one.
    pub fn looking_back(mut self) -> Self {
        self.back = true;
        self
    }

    /// The dim of the memory: [`MEMORY_LENGTH`].
    pub fn memory(&self) -> Dimension {
        self.length.blocks().renamed(MEMORY_LENGTH)
    }

    /// The means of blocks of `x`, along [`memory`](Self::memory) instead of the length.
    #[track_caller]
    pub fn compressed<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let cut = Blocks::cut(&[self.length], "compressed_attention", x);
        if cut.is_poisoned() {
            return cut;
        }
        let means = crate::reduce::mean(cut, [self.length.in_block()]);
        crate::rename(means, self.length.blocks(), MEMORY_LENGTH)
    }

    /// True where a block ends with or before a query's position: dims length and
    /// [`memory`](Self::memory).
    #[track_caller]
    pub fn mask<'g>(&self, graph: &'g Graph) -> Tensor<'g> {
        let _caller = graph.for_caller();
        let number = |n: usize| graph.scalar(n as f64, DType::I32);
        let factor = self.length.size;
        let first = crate::range(graph, self.memory(), DType::I32) * number(factor);
        let last = first + number(factor.saturating_sub(1));
        greater_equal(crate::range(graph, self.length.dim, DType::I32), last)
    }

    /// Attention along the length, which queries, keys and values have. Masks and biases of the
    /// options have the dims of the length and of [`memory`](Self::memory).
    #[track_caller]
    pub fn apply<'g>(
        &self,
        q: Tensor<'g>,
        k: Tensor<'g>,
        v: Tensor<'g>,
        key: Dimension,
        value: Dimension,
        options: &AttentionOptions<'g>,
    ) -> Tensor<'g> {
        let _layer = q.graph().for_layer("compressed_memory");
        let Some([q, k, v]) = cut([q, k, v], |q| q, |x| self.compressed(x)) else {
            return q.poisoned();
        };
        let mut options = *options;
        if self.back {
            let mask = self.mask(q.graph());
            let Some(within) = options.within(mask, q, self.memory(), key) else {
                return q.poisoned();
            };
            let nothing = q.graph().scalar(0.0, q.dtype().reduction());
            options =
                AttentionOptions { extra_logit: options.extra_logit.or(Some(nothing)), ..within };
        }
        dot_product_attention(q, k, v, self.memory(), key, value, &options)
    }
}

impl MultiHead {
    /// As [`self_attention`](Self::self_attention), of means of keys and values.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::Parameters;
    /// use mesh_ops::layers::attention::{AttentionOptions, CompressedMemory, MultiHead};
    /// # let g = mesh_ops::graph();
    /// let (length, model) = (dim("length", 64), dim("model", 32));
    /// let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 8));
    /// let x = g.input("x", [length, model], F32);
    /// let weights = attention.weights(&Parameters::like(x), "attention");
    /// let (memory, options) = (CompressedMemory::new(length, 4), AttentionOptions::default());
    /// let y = attention.compressed_self_attention(x, &memory, &weights, None, &options);
    /// assert_eq!(y.shape(), x.shape());
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn compressed_self_attention<'g>(
        &self,
        x: Tensor<'g>,
        memory: &CompressedMemory,
        weights: &MultiHeadWeights<'g>,
        rotation: Option<&Rotation<'g>>,
        options: &AttentionOptions<'g>,
    ) -> Tensor<'g> {
        let q = self.queries(x, weights, rotation);
        let own = self.keys_values(x, weights, rotation);
        self.output(memory.apply(q, own.key, own.value, self.kv, self.kv, options), weights)
    }
}

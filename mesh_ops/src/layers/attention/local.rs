//! Local attention: every position attends to a window that ends with it, block by block.
//!
//! `length` is cut into blocks. A block's memory is itself and the `window - 1` positions before
//! it, so the work is `length * (block + window)`, not `length^2`. Under a layout that splits
//! `length` and its blocks over one axis, nothing but the windows at the borders travels.

use super::blocks::{Blocks, cut};
use super::{AttentionOptions, MEMORY_LENGTH, dot_product_attention};
use super::{MultiHead, MultiHeadWeights, Rotation, window_mask};
use crate::elementwise::{greater_equal, logical_and};
use crate::room::*;
use mesh_core::graph::Graph;

/// A window over the positions of a dim.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{AttentionOptions, LocalAttention};
/// # let g = mesh_ops::graph();
/// let (length, heads, kv) = (dim("length", 64), dim("heads", 4), dim("kv", 8));
/// let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [length, heads, kv], F32));
/// let local = LocalAttention::new(length, 10).in_blocks_of(16);
/// let y = local.apply(q, k, v, kv, kv, &AttentionOptions::default());
/// assert_eq!(y.shape(), q.shape());
///
/// // What it does: each block of queries sees its own positions, and those before.
/// assert_eq!((local.blocks().size, local.in_block().size, local.memory().size), (4, 16, 25));
/// assert_eq!(local.seen(k).shape().get("length_blocks".into()), Some(local.blocks()));
/// assert_eq!(local.mask(&g).dtype(), Bool);
/// assert_eq!(local.joined(local.cut(q)).shape(), q.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAttention {
    length: Blocks,
    window: usize,
}

impl LocalAttention {
    /// Every position attends to itself and the `window - 1` before it. A block is the greatest
    /// divisor of the length that is at most the window or 128.
    pub fn new(length: Dimension, window: usize) -> Self {
        let window = window.clamp(1, length.size.max(1));
        Self { length: Blocks::of_at_most(length, window.max(128)), window }
    }

    /// Blocks of another size; it divides the length.
    pub fn in_blocks_of(mut self, block: usize) -> Self {
        self.length.size = block;
        self
    }

    /// The dim of blocks, `{length}_blocks`.
    pub fn blocks(&self) -> Dimension {
        self.length.blocks()
    }

    /// The dim of positions in a block, `{length}_in_block`.
    pub fn in_block(&self) -> Dimension {
        self.length.in_block()
    }

    /// The dim of a block's memory: [`MEMORY_LENGTH`] of size `block + window - 1`.
    pub fn memory(&self) -> Dimension {
        Dimension::new(MEMORY_LENGTH, self.length.size + self.window - 1)
    }

    /// `x` with `length` cut into blocks.
    #[track_caller]
    pub fn cut<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("local_attention");
        Blocks::cut(&[self.length], "local_attention", x)
    }

    /// The inverse of [`cut`](Self::cut).
    #[track_caller]
    pub fn joined<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("local_attention");
        self.length.joined(x)
    }

    /// What each block of `x` sees: cut, with the positions before each block in front of it, zeros
    /// before the first. Dims are blocks and [`memory`](Self::memory).
    #[track_caller]
    pub fn seen<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("local_attention");
        let (blocks, rows) = (self.blocks(), self.in_block());
        let cut = self.cut(x);
        let seen = crate::left_halo_exchange(cut, blocks, rows, self.window - 1, false);
        crate::rename(seen, rows.resized(self.memory().size), MEMORY_LENGTH)
    }

    /// True where a position of a block may attend to its memory: within the window, and not
    /// before the first position. Dims are those of [`blocks`](Self::blocks),
    /// [`in_block`](Self::in_block) and [`memory`](Self::memory).
    #[track_caller]
    pub fn mask<'g>(&self, graph: &'g Graph) -> Tensor<'g> {
        let _caller = graph.for_caller();
        let range = |dim| crate::range(graph, dim, DType::I32);
        let before = graph.scalar((self.window - 1) as f64, DType::I32);
        let memory = range(self.memory()) - before;
        let near = window_mask(range(self.in_block()), memory, self.window);
        let begin = range(self.blocks()) * graph.scalar(self.length.size as f64, DType::I32);
        let real = greater_equal(begin + memory, graph.scalar(0.0, DType::I32));
        logical_and(real, near)
    }

    /// Attention along `length`, which queries, keys and values have. Masks and biases of the
    /// options have the dims of blocks; the window's own mask is added.
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
        let _layer = q.graph().for_layer("local_attention");
        let Some([q, k, v]) = cut([q, k, v], |x| self.cut(x), |x| self.seen(x)) else {
            return q.poisoned();
        };
        let Some(options) = options.within(self.mask(q.graph()), q, self.memory(), key) else {
            return q.poisoned();
        };
        self.joined(dot_product_attention(q, k, v, self.memory(), key, value, &options))
    }
}

impl MultiHead {
    /// As [`self_attention`](Self::self_attention) of a window.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::Parameters;
    /// use mesh_ops::layers::attention::{AttentionOptions, LocalAttention, MultiHead};
    /// # let g = mesh_ops::graph();
    /// let (length, model) = (dim("length", 64), dim("model", 32));
    /// let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 8));
    /// let x = g.input("x", [length, model], F32);
    /// let weights = attention.weights(&Parameters::like(x), "attention");
    /// let (local, options) = (LocalAttention::new(length, 16), AttentionOptions::default());
    /// let y = attention.local_self_attention(x, &local, &weights, None, &options);
    /// assert_eq!(y.shape(), x.shape());
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn local_self_attention<'g>(
        &self,
        x: Tensor<'g>,
        local: &LocalAttention,
        weights: &MultiHeadWeights<'g>,
        rotation: Option<&Rotation<'g>>,
        options: &AttentionOptions<'g>,
    ) -> Tensor<'g> {
        let _layer = x.graph().for_layer("local_self_attention");
        let q = self.queries(x, weights, rotation);
        let own = self.keys_values(x, weights, rotation);
        self.output(local.apply(q, own.key, own.value, self.kv, self.kv, options), weights)
    }
}

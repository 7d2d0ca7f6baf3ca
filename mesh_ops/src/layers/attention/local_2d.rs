//! Local attention over two dims: every position attends to those near it, block by block (Image
//! Transformer, Parmar et al. 2018, arXiv 1802.05751, section 3.3).
//!
//! Both dims are cut into blocks. A block's memory is itself and its surroundings as far as its
//! positions reach. Under a layout that splits a dim and its blocks over one axis, nothing but the
//! borders travels.

use super::blocks::{Blocks, cut};
use super::{AttentionOptions, MEMORY_LENGTH, dot_product_attention};
use super::{MultiHead, MultiHeadWeights, Rotation};
use crate::elementwise::{abs, equal, greater_equal, less, less_equal, logical_and, logical_or};
use crate::room::*;
use mesh_core::graph::Graph;

/// A neighbourhood over the positions of two dims.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{AttentionOptions, LocalAttention2d};
/// # let g = mesh_ops::graph();
/// let (height, width, kv) = (dim("height", 16), dim("width", 24), dim("kv", 8));
/// let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [height, width, kv], F32));
/// let local = LocalAttention2d::new([height, width], [2, 3]).in_blocks_of([4, 8]);
/// let y = local.apply(q, k, v, kv, kv, &AttentionOptions::default());
/// assert_eq!(y.shape(), q.shape());
///
/// // What it does: each block of queries sees its own positions, and those around it.
/// assert_eq!(local.blocks().map(|d| d.size), [4, 3]);
/// assert_eq!(local.in_block().map(|d| d.size), [4, 8]);
/// assert_eq!(local.memory().size, (4 + 2 * 2) * (8 + 2 * 3));
/// assert_eq!(local.seen(k).shape().get("memory_length".into()), Some(local.memory()));
/// assert_eq!(local.mask(&g).dtype(), Bool);
/// assert_eq!(local.joined(local.cut(q)).shape(), q.shape());
///
/// // In raster order nothing below is needed.
/// assert_eq!(local.in_raster_order().memory().size, (4 + 2) * (8 + 2 * 3));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAttention2d {
    dims: [Blocks; 2],
    reach: [usize; 2],
    raster: bool,
}

impl LocalAttention2d {
    /// Every position attends to those that are at most `reach` away along each of the dims, itself
    /// among them. A block is the greatest divisor of a dim that is at most its reach or 16.
    pub fn new(dims: [Dimension; 2], reach: [usize; 2]) -> Self {
        let reach = [0, 1].map(|i| reach[i].min(dims[i].size.saturating_sub(1)));
        let dims = [0, 1].map(|i| Blocks::of_at_most(dims[i], reach[i].max(16)));
        Self { dims, reach, raster: false }
    }

    /// Blocks of other sizes; they divide the dims.
    pub fn in_blocks_of(mut self, sizes: [usize; 2]) -> Self {
        self.dims[0].size = sizes[0];
        self.dims[1].size = sizes[1];
        self
    }

    /// Only to positions that do not come later in raster order: row by row (the first dim counts
    /// rows), each row from its first position on.
    pub fn in_raster_order(mut self) -> Self {
        self.raster = true;
        self
    }

    /// The dims of blocks, `{dim}_blocks`.
    pub fn blocks(&self) -> [Dimension; 2] {
        self.dims.map(Blocks::blocks)
    }

    /// The dims of positions in a block, `{dim}_in_block`.
    pub fn in_block(&self) -> [Dimension; 2] {
        self.dims.map(Blocks::in_block)
    }

    /// The dim of a block's memory: [`MEMORY_LENGTH`], row by row.
    pub fn memory(&self) -> Dimension {
        Dimension::new(MEMORY_LENGTH, self.around().map(|d| d.size).iter().product())
    }

    /// The positions of a block and of its surroundings along each dim.
    fn around(&self) -> [Dimension; 2] {
        let after = if self.raster { [0, self.reach[1]] } else { self.reach };
        [0, 1].map(|i| {
            let Blocks { dim, size } = self.dims[i];
            let name = format!("{}_around", dim.name);
            dim.renamed(&name).resized(self.reach[i] + size + after[i])
        })
    }

    /// `x` with both dims cut into blocks.
    #[track_caller]
    pub fn cut<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        Blocks::cut(&self.dims, "local_2d_attention", x)
    }

    /// The inverse of [`cut`](Self::cut).
    #[track_caller]
    pub fn joined<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let mut joined = x;
        for dim in self.dims {
            joined = dim.joined(joined);
        }
        joined
    }

    /// What each block of `x` sees: cut, with what surrounds each block, zeros beyond the ends. Dims
    /// are blocks and [`memory`](Self::memory).
    #[track_caller]
    pub fn seen<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let mut seen = self.cut(x);
        if seen.is_poisoned() {
            return seen;
        }
        let (blocks, rows, around) = (self.blocks(), self.in_block(), self.around());
        // One dim after the other: the second exchange takes corners along.
        for i in 0..2 {
            seen = match self.raster && i == 0 {
                true => crate::left_halo_exchange(seen, blocks[i], rows[i], self.reach[i], false),
                false => crate::halo_exchange(seen, blocks[i], rows[i], self.reach[i], false),
            };
            let wide = rows[i].resized(around[i].size);
            seen = crate::rename(seen, wide, &around[i].name.to_string());
        }
        crate::merge_dims(seen, around, MEMORY_LENGTH)
    }

    /// True where a position of a block may attend to its memory: within reach, and not beyond the
    /// ends. Dims are those of [`blocks`](Self::blocks), [`in_block`](Self::in_block) and
    /// [`memory`](Self::memory).
    #[track_caller]
    pub fn mask<'g>(&self, graph: &'g Graph) -> Tensor<'g> {
        let _caller = graph.for_caller();
        let number = |n: usize| graph.scalar(n as f64, DType::I32);
        let range = |dim| crate::range(graph, dim, DType::I32);
        let [rows, columns] = [0, 1].map(|i| {
            let Blocks { dim, size } = self.dims[i];
            let begin = range(self.blocks()[i]) * number(size);
            let query = begin + range(self.in_block()[i]);
            let memory = begin + range(self.around()[i]) - number(self.reach[i]);
            let near = less_equal(abs(memory - query), number(self.reach[i]));
            let real = greater_equal(memory, number(0));
            let real = logical_and(real, less(memory, number(dim.size)));
            (query, memory, logical_and(near, real))
        });
        let mut mask = logical_and(rows.2, columns.2);
        if self.raster {
            let same = logical_and(equal(rows.1, rows.0), less_equal(columns.1, columns.0));
            mask = logical_and(mask, logical_or(less(rows.1, rows.0), same));
        }
        crate::merge_dims(mask, self.around(), MEMORY_LENGTH)
    }

    /// Attention over both dims, which queries, keys and values have. Masks and biases of the options
    /// have the dims of blocks; the neighbourhood's own mask is added.
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
        let _layer = q.graph().for_layer("local_attention_2d");
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
    /// As [`self_attention`](Self::self_attention), of a neighbourhood over two dims.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::Parameters;
    /// use mesh_ops::layers::attention::{AttentionOptions, LocalAttention2d, MultiHead};
    /// # let g = mesh_ops::graph();
    /// let (height, width, model) = (dim("height", 16), dim("width", 16), dim("model", 32));
    /// let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 8));
    /// let x = g.input("x", [height, width, model], F32);
    /// let weights = attention.weights(&Parameters::like(x), "attention");
    /// let local = LocalAttention2d::new([height, width], [2, 2]).in_blocks_of([4, 4]);
    /// let options = AttentionOptions::default();
    /// let y = attention.local_2d_self_attention(x, &local, &weights, None, &options);
    /// assert_eq!(y.shape(), x.shape());
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn local_2d_self_attention<'g>(
        &self,
        x: Tensor<'g>,
        local: &LocalAttention2d,
        weights: &MultiHeadWeights<'g>,
        rotation: Option<&Rotation<'g>>,
        options: &AttentionOptions<'g>,
    ) -> Tensor<'g> {
        let q = self.queries(x, weights, rotation);
        let own = self.keys_values(x, weights, rotation);
        self.output(local.apply(q, own.key, own.value, self.kv, self.kv, options), weights)
    }
}

//! The ops and layers of Mesh: one room each.
//!
//! Every op is a function on [`Tensor`](mesh_core::graph::Tensor)s and, where it reads well, a
//! method of [`Ops`]. A room holds everything about its op: shape rule, split rule, what one
//! processor does on its slices, gradient, tests. Layers are compositions of ops.
//!
//! ```
//! use mesh_ops::prelude::*;
//!
//! let g = mesh_ops::graph();
//! let (batch, x, y) = (dim("batch", 4), dim("x", 2), dim("y", 3));
//! let input = g.input("input", [batch, x], F32);
//! let output = input.dense(y, "layer").relu();
//! let predict = g.function("predict", [input], [output], []);
//!
//! let module = g.lower(&"all:2".parse()?, &"batch:all".parse()?)?;
//! let mut session = Session::threads(&module, 0)?;
//! let [result] = session.call(&predict, [ndarray::arr2(&[[1f32, 2.0]; 4]).view().into()])?;
//! assert_eq!(result.shape(), [4, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adaptive_pool;
mod add_n;
mod algebra;
mod argmax;
mod associative_scan;
pub mod attention;
mod banded;
mod broadcast;
mod concat;
pub mod conv;
mod counts;
mod cumsum;
mod dynamic_shift;
pub mod einsum;
pub mod elementwise;
mod filled;
mod gated;
mod gather;
mod grid;
mod halo;
pub mod layers;
mod like;
mod linear_recurrence;
mod matrix;
mod methods;
pub mod metrics;
mod one_hot;
mod pad;
mod pad_with;
mod placed;
pub mod pool;
mod pool_1d;
pub mod random;
mod range;
pub mod reduce;
mod repeat;
mod replace_dims;
mod reshape;
pub mod resize;
mod reverse;
mod room;
mod scatter;
mod scatter_add;
mod searchsorted;
mod share;
mod shift;
mod slice;
mod sort;
mod space_to_depth;
mod split;
mod stack;
mod statistics;
mod take_along;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod top_k;
mod transpose;
mod unstack;
mod update_at;
mod windows;
mod zigzag;

pub use methods::Ops;

// In the order of docs/ops.md.
rooms! {
    einsum;
    filled: einsum_filled, einsum_filled_in_blocks;
    reduce;
    statistics: median, quantile, std, var, vector_norm;
    argmax: argmax, argmin;
    counts: bincount, count_nonzero, histogram;
    searchsorted: Side, searchsorted;
    cumsum: Cumulative, cummax, cummin, cumprod, cumsum, cumsum_with, logcumsumexp;
    associative_scan: AssociativeScan, associative_scan, associative_scan_with;
    linear_recurrence: linear_recurrence;
    reshape: rename, reshape;
    transpose: transpose;
    broadcast: broadcast;
    add_n: add_n;
    concat: concat;
    slice: slice;
    pad: pad;
    pad_with: Padding, pad_with;
    repeat: flip, repeat, roll, tile;
    matrix: diag, diagonal, eye, tril, triu;
    grid: linspace, meshgrid;
    space_to_depth: depth_to_space, space_to_depth;
    stack: stack;
    unstack: pick, unstack;
    shift: shift;
    gather: gather;
    gated: glu, swiglu;
    take_along: take_along;
    scatter_add: scatter_add;
    scatter: Scatter, scatter, segment_max, segment_sum;
    update_at: update_at;
    top_k: nth_largest, nth_smallest, top_1, top_k;
    sort: Order, argsort, sort;
    dynamic_shift: dynamic_shift;
    reverse: reverse;
    split: split, split_evenly;
    replace_dims: merge_dims, replace_dims;
    pool_1d: pool_1d, stride_1d;
    one_hot: one_hot, one_hot_with;
    like: ones_like, zeros_like;
    conv;
    windows: overlap_add, windows;
    windows/overlap;
    range: range;
    random;
    random/dropout;
    random/jitter;
    random/sample;
    halo: halo_exchange, left_halo_exchange;
    zigzag: zigzag, zigzag_inverse;
    conv/blocks;
    pool;
    adaptive_pool: adaptive_avg_pool, adaptive_max_pool;
    resize;
    attention;
}

use mesh_core::graph::Graph;
use room::rooms;

/// An empty graph whose operators are this crate's ops.
///
/// ```
/// use mesh_ops::prelude::*;
/// let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 4)], F32);
/// assert_eq!((2.0 * x + x).shape(), x.shape());
/// ```
pub fn graph() -> Graph {
    Graph::new(&algebra::MeshAlgebra)
}

/// What a model needs: `use mesh_ops::prelude::*;`.
pub mod prelude {
    pub use crate::Ops;
    pub use mesh_core::array::{Array, ArrayRef};
    pub use mesh_core::graph::{Fan, Function, Graph, Initializer, Tensor, Update, Variable};
    pub use mesh_core::lower::Module;
    pub use mesh_core::names::DType::{self, BF16, Bool, F32, F64, I32};
    pub use mesh_core::names::{Dimension, Layout, Mesh, Shape, dim};
    pub use mesh_core::session::Session;
}

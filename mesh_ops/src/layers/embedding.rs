//! `embedding`: a vector for each number of a vocabulary, and logits by the same vectors.

use super::Parameters;
use super::fit::Fit;
use crate::room::*;
use mesh_core::graph::Initializer;

/// A new variable `{name}/embedding` of dims `[vocab, dims]`: truncated normal of deviation 1.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::{Parameters, embed, embedding_logits, embedding_weights};
/// # let g = mesh_ops::graph();
/// let (vocab, model, length) = (dim("vocab", 100), dim("model", 8), dim("length", 16));
/// let table = embedding_weights(&Parameters::new(&g, F32), vocab, [model], "tokens");
/// let x = embed(g.input("ids", [length], I32), table, vocab);
/// assert_eq!(x.shape().to_string(), "[length:16, model:8]");
/// let logits = embedding_logits(x, table, vocab);
/// assert_eq!(logits.shape().to_string(), "[length:16, vocab:100]");
/// ```
#[track_caller]
pub fn embedding_weights<'g>(
    parameters: &Parameters<'g>,
    vocab: Dimension,
    dims: impl IntoIterator<Item = Dimension>,
    name: &str,
) -> Tensor<'g> {
    let _layer = parameters.graph().for_layer("embedding_weights");
    let _scope = parameters.scope(name);
    table(parameters, vocab, dims)
}

#[track_caller]
fn table<'g>(
    parameters: &Parameters<'g>,
    vocab: Dimension,
    dims: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    let dims = std::iter::once(vocab).chain(dims);
    let initializer = Initializer::TruncatedNormal { mean: 0.0, stddev: 1.0 };
    parameters.variable("embedding", dims, initializer)
}

/// The vectors of `ids` (i32): rows of `table` along `vocab`; zeros for a number out of range.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (length, vocab, model) = (dim("length", 16), dim("vocab", 100), dim("model", 8));
/// let (ids, table) = (g.input("ids", [length], I32), g.input("table", [vocab, model], F32));
/// let x = mesh_ops::layers::embed(ids, table, vocab);
/// assert_eq!(x.shape().to_string(), "[length:16, model:8]");
/// ```
#[track_caller]
pub fn embed<'g>(ids: Tensor<'g>, table: Tensor<'g>, vocab: Dimension) -> Tensor<'g> {
    let _layer = ids.graph().for_layer("embed");
    let fit = Fit::new().integers("ids", ids).has("the table", table, vocab);
    if let Some(poisoned) = fit.refused("embed", ids) {
        return poisoned;
    }
    crate::gather(table, ids, vocab)
}

/// Products of `x` with every vector of an embedding, over all dims of a vector, divided by the
/// root of the vector's size: tied output weights, which start with deviation 1.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (length, vocab, model) = (dim("length", 16), dim("vocab", 100), dim("model", 8));
/// let (x, table) = (g.input("x", [length, model], F32), g.input("table", [vocab, model], F32));
/// let logits = mesh_ops::layers::embedding_logits(x, table, vocab);
/// assert_eq!(logits.shape().to_string(), "[length:16, vocab:100]");
/// ```
#[track_caller]
pub fn embedding_logits<'g>(x: Tensor<'g>, table: Tensor<'g>, vocab: Dimension) -> Tensor<'g> {
    let _layer = x.graph().for_layer("embedding_logits");
    let own = x.shape();
    let summed = table.shape().without(&[vocab.name]);
    let fit = Fit::new().floats("the input", x).like("the table", table, x);
    let fit = fit.has("the table", table, vocab);
    let fit = summed.iter().fold(fit, |fit, dim| fit.has("the input", x, dim));
    if let Some(poisoned) = fit.refused("embedding_logits", x) {
        return poisoned;
    }
    let kept = own.iter().filter(|d| !summed.contains(d.name)).chain([vocab]);
    crate::einsum::einsum(x * (summed.size() as f64).powf(-0.5), &[table], kept)
}

/// The vectors of `ids`, with a new variable `{name}/embedding`, f32.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let ids = g.input("ids", [dim("length", 16)], I32);
/// let x = mesh_ops::layers::embedding(ids, dim("vocab", 100), [dim("model", 8)], "tokens");
/// assert_eq!(x.shape().to_string(), "[length:16, model:8]");
/// ```
#[track_caller]
pub fn embedding<'g>(
    ids: Tensor<'g>,
    vocab: Dimension,
    dims: impl IntoIterator<Item = Dimension>,
    name: &str,
) -> Tensor<'g> {
    let _layer = ids.graph().for_layer("embedding");
    if let Some(poisoned) = Fit::new().integers("ids", ids).refused("embedding", ids) {
        return poisoned;
    }
    let _scope = ids.graph().scope(name);
    let table = table(&Parameters::new(ids.graph(), DType::F32), vocab, dims);
    embed(ids, table, vocab)
}

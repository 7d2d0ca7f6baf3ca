//! Which variables are matrices, for optimizers that treat matrices as wholes.

use crate::{Optimizer, pattern};
use mesh_core::graph::{Fans, Tensor, Variable};
use mesh_core::names::Dimension;
use mesh_ops::einsum::einsum;
use mesh_ops::elementwise::{equal, modulo};
use mesh_ops::reshape;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Which variables an optimizer takes for matrices, and which of their dims are rows and columns. All
/// other dims count matrices: those of layers or experts are many matrices in one variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Matrices {
    /// How rows and columns are found.
    pub dims: MatrixDims,
    /// Names of dims that count matrices in any case, as `heads` if each head is a matrix of its own.
    pub stacked: Vec<String>,
    /// Regular expressions. A variable in whose name one of them matches is no matrix.
    pub exclude: Vec<String>,
}

/// How the rows and columns of a variable are found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MatrixDims {
    /// By the first product of the model in which the variable is a factor ([`Variable::fans`]): what it
    /// sums over is the fan-in, what it produces the fan-out. Norms, biases and embeddings are no
    /// matrices.
    ByUse,
    /// Every variable with two dims that are not stacked is a matrix, the first of them its fan-in. So
    /// PyTorch and optax take embeddings for matrices, too.
    Pairs,
    /// By names of dims. A variable that lacks one of both kinds is no matrix.
    Named {
        /// Fan-in.
        inputs: Vec<String>,
        /// Fan-out.
        outputs: Vec<String>,
    },
}

/// By use, nothing stacked, nothing excluded.
impl Default for Matrices {
    fn default() -> Self {
        Self { dims: MatrixDims::ByUse, stacked: Vec::new(), exclude: Vec::new() }
    }
}

impl Matrices {
    /// The fan-in and fan-out of a variable, if it is a matrix.
    #[track_caller]
    pub(crate) fn fans(&self, variable: Variable<'_>) -> Option<Fans> {
        let named =
            |names: &[String], dim: &Dimension| names.iter().any(|n| n == dim.name.as_str());
        if pattern::found(variable.graph(), "exclude", &self.exclude, &variable.name()) {
            return None;
        }
        let mut dims = variable.shape().dims().to_vec();
        dims.retain(|dim| !named(&self.stacked, dim));
        let of = |names: &[String]| dims.iter().copied().filter(|d| named(names, d)).collect();
        let mut fans = match (&self.dims, &dims[..]) {
            (MatrixDims::ByUse, _) => variable.fans()?,
            (MatrixDims::Pairs, &[input, output]) => {
                Fans { inputs: vec![input], outputs: vec![output] }
            }
            (MatrixDims::Pairs, _) => return None,
            (MatrixDims::Named { inputs, outputs }, _) => {
                Fans { inputs: of(inputs), outputs: of(outputs) }
            }
        };
        fans.inputs.retain(|dim| dims.contains(dim));
        fans.outputs.retain(|dim| dims.contains(dim));
        (!fans.inputs.is_empty() && !fans.outputs.is_empty()).then_some(fans)
    }
}

/// The optimizer of variables that are no matrices.
///
/// ```
/// use mesh_optimize::{Adam, Muon, Optimizer};
///
/// let muon = Muon { others: Adam::new(3e-4).into(), ..Muon::new(1e-3) };
/// assert_eq!(muon.slot_names(), ["muon_m", "adam_m", "adam_v", "adam_t"]);
/// ```
#[derive(Clone)]
pub struct Others(Arc<dyn Optimizer + Send + Sync>);

impl Others {
    /// The evaluation value of a variable: that of the other optimizer, unless the variable is a matrix.
    #[track_caller]
    pub(crate) fn evaluated<'g>(&self, matrices: &Matrices, variable: Variable<'g>) -> Tensor<'g> {
        match matrices.fans(variable) {
            Some(_) => variable.value(),
            None => self.evaluation_value(variable),
        }
    }
}

impl<O: Optimizer + Send + Sync + 'static> From<O> for Others {
    fn from(optimizer: O) -> Self {
        Self(Arc::new(optimizer))
    }
}

impl Deref for Others {
    type Target = dyn Optimizer + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Others").field(&self.slot_names()).finish()
    }
}

/// The number of rows or columns that dims are together.
pub(crate) fn count(dims: &[Dimension]) -> usize {
    dims.iter().fold(1, |count: usize, dim| count.saturating_mul(dim.size))
}

/// The dims under other names.
pub(crate) fn others(dims: &[Dimension], suffix: &str) -> Vec<Dimension> {
    dims.iter().map(|dim| dim.renamed(&format!("{}_{suffix}", dim.name.as_str()))).collect()
}

/// A tensor with the dims `from` under the names of `onto`.
#[track_caller]
pub(crate) fn renamed<'g>(x: Tensor<'g>, from: &[Dimension], onto: &[Dimension]) -> Tensor<'g> {
    let place = |dim: &Dimension| from.iter().position(|known| known == dim);
    let new = |dim| place(&dim).and_then(|at| onto.get(at).copied()).unwrap_or(dim);
    reshape(x, x.shape().iter().map(new).collect::<Vec<_>>())
}

/// A tensor cut into blocks whose sides have at most `most` rows, and their dims. The first dim of a side is
/// cut, and its name stays that of the dim that counts blocks.
pub(crate) fn blocks<'g>(x: Tensor<'g>, fans: &Fans, most: u64) -> (Tensor<'g>, Fans) {
    let mut fans = fans.clone();
    let mut dims = x.shape().dims().to_vec();
    for side in [&mut fans.inputs, &mut fans.outputs] {
        let (all, Some(first)) = (count(side), side.first_mut()) else { continue };
        let fits =
            |parts: &usize| all / parts <= most as usize && first.size.is_multiple_of(*parts);
        let parts = (1..=first.size).find(fits).unwrap_or(first.size);
        if let (true, Some(at)) = (parts > 1, dims.iter().position(|dim| dim == first)) {
            let whole = *first;
            *first = others(&[whole], "block")[0].resized(whole.size / parts);
            dims.splice(at..=at, [whole.resized(parts), *first]);
        }
    }
    (reshape(x, dims), fans)
}

/// Each side of matrices, with the other side.
pub(crate) fn sides(fans: &Fans) -> [[&[Dimension]; 2]; 2] {
    [[&fans.inputs, &fans.outputs], [&fans.outputs, &fans.inputs]]
}

/// The products of the rows of matrices with one another, or of their columns: over `side`, with all of
/// `summed`.
pub(crate) fn gram<'g>(x: Tensor<'g>, [side, summed]: [&[Dimension]; 2]) -> Tensor<'g> {
    let shape = x.shape();
    let rest = shape.iter().filter(|dim| !side.contains(dim) && !summed.contains(dim));
    let dims: Vec<_> = rest.chain(side.iter().copied()).chain(others(side, "other")).collect();
    einsum(x, &[renamed(x, side, &others(side, "other"))], dims)
}

/// Whether the update of number t, from 1, is the first of `interval`.
pub(crate) fn first_of(interval: u64, t: Tensor<'_>) -> Tensor<'_> {
    equal(modulo(t - 1.0, t.scalar_like(interval.max(1) as f64)), t.scalar_like(0.0))
}

/// The products of square matrices, whose dims are `side` and the same under other names, with the columns
/// of `x`.
pub(crate) fn product<'g>(factor: Tensor<'g>, x: Tensor<'g>, side: &[Dimension]) -> Tensor<'g> {
    einsum(factor, &[renamed(x, side, &others(side, "other"))], x.shape().iter())
}

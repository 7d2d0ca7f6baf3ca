//! `max_pool`, `avg_pool`: the greatest element or the mean of windows, in any number of dims.
//!
//! | shape | pooled dims by [`Padding`] and stride |
//! |---|---|
//! | split | pooled dims exchange(permute), others parallel |
//! | linear | adds x for avg, else none |
//! | gradient | max: in equal parts to the elements of a window that attain it; avg: in equal parts to the elements of a window |
//!
//! Max-unpooling, which puts elements back where the greatest were, is the gradient of the pool: `Graph::gradients` of
//! `max_pool(x)` with respect to x, with these elements as the cotangent. There is no function of its own, as it would
//! need the indices beside the pool.
//!
//! A pooled dim has one name before and after, so one rule cuts both, and both sizes must be
//! divisible. Where windows divide the slices nothing is exchanged; else each processor gets the
//! margins that its windows see.

mod op;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof;
#[cfg(test)]
mod tests;

use crate::conv::Padding;
use crate::room::*;
use mesh_core::program::PoolKind;
use op::{Along, Pooling};

/// Which dims are pooled, and how: the size of the window along each, any number of dims.
///
/// ```
/// use mesh_ops::{conv::Padding, pool::Pool};
/// let halves = Pool::over([("h", 2), ("w", 2)]);
/// let overlapping = Pool::over([("h", 3), ("w", 3)]).strides([2, 2]).padding(Padding::Same);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pool {
    windows: Vec<(DimName, usize)>,
    /// One per window; empty for the windows' sizes.
    strides: Vec<usize>,
    padding: Padding,
}

impl Pool {
    /// Windows of these sizes along dims of these names; each begins where the one before it ends,
    /// and all lie inside (padding `Valid`).
    ///
    /// ```
    /// # use mesh_ops::pool::Pool;
    /// let thirds = Pool::over([("time", 3)]);
    /// ```
    pub fn over<D: Into<DimName>>(windows: impl IntoIterator<Item = (D, usize)>) -> Self {
        let windows = windows.into_iter().map(|(dim, size)| (dim.into(), size)).collect();
        Self { windows, strides: Vec::new(), padding: Padding::Valid }
    }

    /// Positions from one window to the next, one number per window.
    ///
    /// ```
    /// # use mesh_ops::pool::Pool;
    /// let smooth = Pool::over([("time", 3)]).strides([1]);
    /// ```
    pub fn strides(mut self, strides: impl IntoIterator<Item = usize>) -> Self {
        self.strides = strides.into_iter().collect();
        self
    }

    /// Whether windows may reach beyond the ends. What is there does not count.
    ///
    /// ```
    /// # use mesh_ops::{conv::Padding, pool::Pool};
    /// let all = Pool::over([("time", 3)]).padding(Padding::Same);
    /// ```
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Where the windows lie along each dim of `x`, or what is wrong.
    fn along(&self, x: &Shape) -> Result<Vec<Along>, OpError> {
        let count = self.windows.len();
        if !self.strides.is_empty() && self.strides.len() != count || self.strides.contains(&0) {
            return Err(OpError::new(format!(
                "pooling of {count} dims: strides are {count} numbers of at least 1, not {:?}",
                self.strides
            )));
        }
        let mut windows: Vec<Along> = Vec::new();
        for (i, &(dim, size)) in self.windows.iter().enumerate() {
            let Some(Dimension { size: seen, .. }) = x.get(dim) else {
                return Err(OpError::new(format!("pooling of {dim}, which {x} does not have")));
            };
            if windows.iter().any(|window| window.dim == dim) {
                return Err(OpError::new(format!("pooling names {dim} twice")));
            }
            if size == 0 {
                return Err(OpError::new(format!("a window along {dim} has at least 1 position")));
            }
            let stride = self.strides.get(i).copied().unwrap_or(size);
            let (count, low) = match self.padding {
                Padding::Valid if seen < size => {
                    return Err(OpError::new(format!(
                        "windows along {dim} have {size} positions, but {dim} has only {seen}"
                    )));
                }
                Padding::Valid => ((seen - size) / stride + 1, 0),
                Padding::Same => {
                    let count = seen.div_ceil(stride);
                    let end = ((count - 1) * stride).saturating_add(size);
                    (count, end.saturating_sub(seen) / 2)
                }
            };
            // Windows end where every one of them would see nothing more.
            let stride = if count == 1 { size.min(seen) } else { stride };
            let before = low.min(seen + (count - 1) * stride);
            let size = (size - (low - before)).min(before + seen);
            let low = before;
            windows.push(Along { dim, seen, count, size, stride, low });
        }
        Ok(windows)
    }
}

/// The windows of a pool along `x`; `None` if something is wrong, and recorded.
#[track_caller]
fn along(op: &str, x: Tensor<'_>, pool: &Pool) -> Option<Vec<Along>> {
    if x.is_poisoned() {
        return None;
    }
    match pool.along(&x.shape()) {
        Ok(windows) => Some(windows),
        Err(error) => {
            x.graph().record(op, error.to_string());
            None
        }
    }
}

/// The greatest element of each window; NaN if there is one. Elements that are equally great share
/// the gradient equally (Mesh TensorFlow gives each of them all of it).
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::pool::{Pool, max_pool};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:8;h:28;w:28;colour:3".parse::<Shape>()?, F32);
/// let y = max_pool(x, &Pool::over([("h", 2), ("w", 2)]));
/// assert_eq!(y.shape().to_string(), "[batch:8, h:14, w:14, colour:3]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn max_pool<'g>(x: Tensor<'g>, pool: &Pool) -> Tensor<'g> {
    let Some(windows) = along("max_pool", x, pool) else { return x.poisoned() };
    if x.dtype() == DType::Bool {
        x.graph().record("max_pool", "max_pool needs numbers, not bool");
        return x.poisoned();
    }
    if windows.is_empty() { x } else { Pooling::of(PoolKind::Max, windows, &[x]) }
}

/// The mean of each window over the elements that it has: of a window that reaches beyond the ends,
/// over those inside. Floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::conv::Padding;
/// use mesh_ops::pool::{Pool, avg_pool};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:8;time:30".parse::<Shape>()?, F32);
/// let smooth = Pool::over([("time", 5)]).strides([1]).padding(Padding::Same);
/// assert_eq!(avg_pool(x, &smooth).shape().to_string(), "[batch:8, time:30]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn avg_pool<'g>(x: Tensor<'g>, pool: &Pool) -> Tensor<'g> {
    let Some(windows) = along("avg_pool", x, pool) else { return x.poisoned() };
    if !x.dtype().is_float() {
        x.graph().record("avg_pool", format!("avg_pool needs floats, not {}", x.dtype()));
        return x.poisoned();
    }
    if windows.is_empty() {
        return x;
    }
    let elements: f64 = windows.iter().map(|along| along.size as f64).product();
    let full = windows.iter().all(Along::is_inside);
    let mut counts = None;
    for along in windows.iter().filter(|_| !full) {
        let counted = counted(x, along);
        counts = Some(counts.map_or(counted, |counts| counts * counted));
    }
    let sums = Pooling::of(PoolKind::Sum, windows, &[x]);
    match counts {
        Some(counts) => sums / counts,
        None => sums * (1.0 / elements),
    }
}

/// How many positions of `x` each window along one dim has.
#[track_caller]
fn counted<'g>(x: Tensor<'g>, along: &Along) -> Tensor<'g> {
    let counts: Vec<f64> = (0..along.count).map(|window| along.sees(window).len() as f64).collect();
    let dim = Dimension { name: along.dim, size: counts.len() };
    let counts = x.graph().constant(ndarray::Array1::from(counts), [dim]);
    crate::elementwise::cast(counts, x.dtype())
}

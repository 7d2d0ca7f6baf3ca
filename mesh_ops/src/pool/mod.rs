//! `max_pool`, `avg_pool`: the greatest element or the mean of windows, in any number of dims.
//!
//! | shape | pooled dims by [`Padding`] and stride | split | as [`windows`](crate::windows) and |
//! |       | reductions | gradient | max: in equal parts to the elements of a window that attain |
//! |       | it; avg: in equal parts to the elements of a window |
//!
//! Compositions of windows and reductions. A pooled dim has one name before and after, so one rule
//! cuts both, and both sizes must be divisible. Where windows divide the slices nothing is
//! exchanged; else each processor gets the margins that its windows see.

#[cfg(test)]
mod tests;

use crate::conv::Padding;
use crate::room::*;
use crate::windows::{Beyond, Frame, windows_with};

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
    fn frames(&self, x: &Shape) -> Result<Vec<Frame>, OpError> {
        let count = self.windows.len();
        if !self.strides.is_empty() && self.strides.len() != count || self.strides.contains(&0) {
            return Err(OpError::new(format!(
                "pooling of {count} dims: strides are {count} numbers of at least 1, not {:?}",
                self.strides
            )));
        }
        let mut names: Vec<_> = x.names().collect();
        let mut frames: Vec<Frame> = Vec::new();
        for (i, &(name, size)) in self.windows.iter().enumerate() {
            let Some(dim) = x.get(name) else {
                return Err(OpError::new(format!("pooling of {name}, which {x} does not have")));
            };
            if frames.iter().any(|frame| frame.dim == name) {
                return Err(OpError::new(format!("pooling names {name} twice")));
            }
            if size == 0 {
                return Err(OpError::new(format!("a window along {name} has at least 1 position")));
            }
            let stride = self.strides.get(i).copied().unwrap_or(size);
            let window = unlike(DimName::new(&format!("{name}_window")), &names);
            names.push(window);
            let pads = match self.padding {
                Padding::Valid => [0, 0],
                Padding::Same => {
                    let end = ((dim.size.div_ceil(stride) - 1) * stride).saturating_add(size);
                    let beyond = end.saturating_sub(dim.size);
                    [beyond / 2, beyond - beyond / 2]
                }
            };
            frames.push(Frame {
                dim: name,
                window: Dimension { name: window, size },
                stride,
                pads,
            });
        }
        Ok(frames)
    }
}

/// The frames of a pool along `x`; `None` if something is wrong, and recorded.
#[track_caller]
fn frames(op: &str, x: Tensor<'_>, pool: &Pool) -> Option<Vec<Frame>> {
    if x.is_poisoned() {
        return None;
    }
    match pool.frames(&x.shape()) {
        Ok(frames) => Some(frames),
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
    let Some(frames) = frames("max_pool", x, pool) else { return x.poisoned() };
    if x.dtype() == DType::Bool {
        x.graph().record("max_pool", "max_pool needs numbers, not bool");
        return x.poisoned();
    }
    let inner: Vec<_> = frames.iter().map(|frame| frame.window).collect();
    // All windows first, one maximum then: it sees every tie.
    let mut wide = x;
    for frame in frames {
        wide = windows_with(wide, frame, Beyond::Least);
    }
    if wide.is_poisoned() { wide } else { crate::reduce::max(wide, inner) }
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
    let Some(frames) = frames("avg_pool", x, pool) else { return x.poisoned() };
    if !x.dtype().is_float() {
        x.graph().record("avg_pool", format!("avg_pool needs floats, not {}", x.dtype()));
        return x.poisoned();
    }
    let inside = frames.iter().all(|frame| frame.pads == [0, 0]);
    let elements: f64 = frames.iter().map(|frame| frame.window.size as f64).product();
    let mut counts = None;
    let mut sums = x;
    for frame in frames {
        if !inside {
            let along = count(sums, &frame);
            counts = Some(counts.map_or(along, |counts| counts * along));
        }
        let window = frame.window;
        sums = windows_with(sums, frame, Beyond::Zero);
        if sums.is_poisoned() {
            return sums;
        }
        sums = crate::reduce::sum(sums, [window]);
    }
    match counts {
        Some(counts) => sums / counts,
        None => sums * (1.0 / elements),
    }
}

/// How many positions of `x` each window along one dim has.
#[track_caller]
fn count<'g>(x: Tensor<'g>, frame: &Frame) -> Tensor<'g> {
    let n = x.shape().get(frame.dim).map_or(1, |d| d.size);
    let counts: Vec<f64> = (0..n.div_ceil(frame.stride))
        .map(|window| {
            let begin = window * frame.stride;
            let end = begin.saturating_add(frame.window.size).saturating_sub(frame.pads[0]).min(n);
            end.saturating_sub(begin.saturating_sub(frame.pads[0])) as f64
        })
        .collect();
    let dim = Dimension { name: frame.dim, size: counts.len() };
    let counts = x.graph().constant(ndarray::Array1::from(counts), [dim]);
    crate::elementwise::cast(counts, x.dtype())
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                max("max_pool", "n:2;h:12", || Pool::over([("h", 2)])),
                max("max", "n:2;h:8;w:4", square),
                max("max, overlapping, same", "h:12;c:2", overlapping),
                max("max, overlapping, valid", "h:14;c:2", || Pool::over([("h", 3)]).strides([1])),
                max("max, three dims", "d:6;h:4;w:3", || {
                    Pool::over([("d", 3), ("h", 2), ("w", 3)])
                }),
                Case::new("max with ties", |_, x| {
                    max_pool(x[0], &Pool::over([("h", 4), ("w", 2)]))
                })
                .computes(|x, ty| pooled(&Pool::over([("h", 4), ("w", 2)]), x[0], ty, greatest))
                .without_gradient()
                .input("x", "h:8;w:4", F32, Fill::Integers(0, 1))
                .meshes(LINES),
                Case::new("max: i32", |_, x| max_pool(x[0], &overlapping()))
                    .computes(|x, ty| pooled(&overlapping(), x[0], ty, greatest))
                    .without_gradient()
                    .input("x", "h:12", I32, Fill::Integers(-9, -1))
                    .meshes(LINES),
                avg("avg_pool", "n:2;h:12", overlapping),
                avg("avg", "n:2;h:8;w:4", square),
                avg("avg, overlapping, same", "h:12;c:2", overlapping),
                avg("avg, every position, same", "h:12", || overlapping().strides([1])),
                avg("avg, windows apart", "h:12", || Pool::over([("h", 2)]).strides([3])),
                avg("avg, two dims, same", "h:6;w:5", || square().padding(Padding::Same)),
            ]
        },
    };

    fn square() -> Pool {
        Pool::over([("h", 2), ("w", 2)])
    }

    fn overlapping() -> Pool {
        Pool::over([("h", 3)]).strides([2]).padding(Padding::Same)
    }

    fn max(name: &str, x: &str, pool: fn() -> Pool) -> Case {
        Case::new(name, move |_, x| max_pool(x[0], &pool()))
            .computes(move |x, ty| pooled(&pool(), x[0], ty, greatest))
            .input("x", x, F32, Fill::Distinct)
            .meshes(LINES)
    }

    fn avg(name: &str, x: &str, pool: fn() -> Pool) -> Case {
        Case::new(name, move |_, x| avg_pool(x[0], &pool()))
            .computes(move |x, ty| pooled(&pool(), x[0], ty, mean))
            .normal("x", x, F32)
            .meshes(LINES)
    }

    fn greatest(elements: &[f64]) -> f64 {
        elements.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    fn mean(elements: &[f64]) -> f64 {
        elements.iter().sum::<f64>() / elements.len() as f64
    }

    /// What a fold makes of the elements under each window, those beyond the ends left out.
    fn pooled(pool: &Pool, x: &Dense, ty: &TensorType, fold: fn(&[f64]) -> f64) -> Dense {
        let under = |from: &At, at: &At, i: usize| {
            let (dim, size) = (pool.windows[i].0, pool.windows[i].1);
            let step = pool.strides.get(i).copied().unwrap_or(size);
            let (n, count) = (extent(&x.ty.shape, dim), extent(&ty.shape, dim));
            let beyond = match pool.padding {
                Padding::Same => ((count - 1) * step + size).saturating_sub(n),
                Padding::Valid => 0,
            };
            let begin = at.along(dim.as_str()) * step;
            let position = from.along(dim.as_str()) + beyond / 2;
            (begin..begin + size).contains(&position)
        };
        let others = x.ty.shape.without(&pool.windows.iter().map(|w| w.0).collect::<Vec<_>>());
        let all = At::all(&x.ty.shape);
        Dense::each(ty, |at| {
            let same =
                |from: &At| others.names().all(|d| from.along(d.as_str()) == at.along(d.as_str()));
            let seen =
                |from: &&At| same(from) && (0..pool.windows.len()).all(|i| under(from, at, i));
            fold(&all.iter().filter(seen).map(|from| x.at(from)).collect::<Vec<_>>())
        })
    }
}

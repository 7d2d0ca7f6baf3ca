//! `adaptive_avg_pool`, `adaptive_max_pool`: windows whose sizes follow from those of the result.
//!
//! New position i of m sees the old positions from `floor(i n / m)` up to `ceil((i + 1) n / m)`, as in torch.
//! Compositions: masked windows over blocks of positions ([`Bands`]), so a split dim exchanges margins.

use crate::banded::Bands;
use crate::elementwise::{cast, select};
use crate::room::*;

/// The windows along each dim of these sizes, or a refusal.
#[track_caller]
fn bands<'g, D: Into<DimName>>(
    op: &str,
    x: Tensor<'g>,
    sizes: impl IntoIterator<Item = (D, usize)>,
) -> Result<Vec<Bands>, Tensor<'g>> {
    if x.is_poisoned() {
        return Err(x);
    }
    let (shape, mut bands, mut seen) = (x.shape(), Vec::new(), Vec::new());
    let mut problem = (!x.dtype().is_float())
        .then(|| format!("{op} needs floats, and {x:?} is of {}; cast it", x.dtype()));
    for (name, size) in sizes.into_iter().map(|(name, size)| (name.into(), size)) {
        match shape.get(name) {
            None => problem = Some(format!("{x:?} has no dim {name}")),
            Some(_) if size == 0 => problem = Some(format!("{name} gets at least 1 position")),
            Some(_) if seen.contains(&name) => {
                problem = Some(format!("the dim {name} is given twice"));
            }
            Some(dim) => bands.push(Bands::new(dim, size, |to| {
                let window = to * dim.size / size..((to + 1) * dim.size).div_ceil(size);
                let weight = 1.0 / window.len() as f64;
                window.map(|from| (from, weight)).collect()
            })),
        }
        seen.push(name);
    }
    match problem {
        Some(problem) => {
            x.graph().record(op, problem);
            Err(x.poisoned())
        }
        None => Ok(bands),
    }
}

/// The mean of each of as many windows as each size says, which cover a dim and overlap only where they must,
/// by sums with weights, zeros among them.
/// With size 1 it is the mean over the whole dim, which stays.
///
/// NaN or an infinity reaches neighbouring windows, which give it the weight 0, as NaN; in torch it stays in its own.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:8;h:10;w:9;colour:3".parse::<Shape>()?, F32);
/// let y = mesh_ops::adaptive_avg_pool(x, [("h", 4), ("w", 3)]);
/// assert_eq!(y.shape().to_string(), "[batch:8, h:4, w:3, colour:3]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn adaptive_avg_pool<'g, D: Into<DimName>>(
    x: Tensor<'g>,
    sizes: impl IntoIterator<Item = (D, usize)>,
) -> Tensor<'g> {
    let _caller = x.graph().for_caller();
    match bands("adaptive_avg_pool", x, sizes) {
        Ok(bands) => bands.iter().fold(x, |x, bands| bands.sums(x)),
        Err(poisoned) => poisoned,
    }
}

/// The greatest element of each of as many windows as each size says, as in [`adaptive_avg_pool`]; NaN if there
/// is one. Elements that are equally great share the gradient equally.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:8;time:10".parse::<Shape>()?, F32);
/// let y = mesh_ops::adaptive_max_pool(x, [("time", 4)]);
/// assert_eq!(y.shape().to_string(), "[batch:8, time:4]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn adaptive_max_pool<'g, D: Into<DimName>>(
    x: Tensor<'g>,
    sizes: impl IntoIterator<Item = (D, usize)>,
) -> Tensor<'g> {
    let _caller = x.graph().for_caller();
    let bands = match bands("adaptive_max_pool", x, sizes) {
        Ok(bands) => bands,
        Err(poisoned) => return poisoned,
    };
    bands.iter().fold(x, |x, bands| {
        let blocks = bands.blocks(x);
        let seen = x.graph().constant(blocks.weights, [blocks.blocks, blocks.tap, blocks.phase]);
        let masked = select(cast(seen, DType::Bool), blocks.windows, f64::NEG_INFINITY);
        let (tap, phase) = (blocks.tap, blocks.phase);
        let kept = blocks.windows.shape();
        let most = crate::reduce::max(masked, [tap]);
        let dims = kept.iter().map(|dim| if dim == tap { phase } else { dim });
        bands.joined(crate::transpose(most, dims.collect::<Vec<_>>()), &x.shape())
    })
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;
    use mesh_core::graph::TensorType;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
            let most = |x: &[f64]| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            vec![
                Case::new("adaptive_avg_pool", |_, x| {
                    adaptive_avg_pool(x[0], [("h", 4), ("w", 2)])
                })
                .computes(move |x, ty| pooled(x[0], ty, [6, 8], mean))
                .normal("x", "h:6;w:8;c:2", DType::F32)
                .meshes(GRIDS),
                Case::new("adaptive_avg_pool: odd", |_, x| {
                    adaptive_avg_pool(x[0], [("h", 3), ("w", 1)])
                })
                .computes(move |x, ty| pooled(x[0], ty, [7, 5], mean))
                .normal("x", "h:7;w:5;c:2", DType::F32)
                .meshes(&["a:2"]),
                Case::new("adaptive_max_pool", |_, x| {
                    adaptive_max_pool(x[0], [("h", 4), ("w", 2)])
                })
                .computes(move |x, ty| pooled(x[0], ty, [6, 8], most))
                .input("x", "h:6;w:8;c:2", DType::F32, Fill::Distinct)
                .meshes(&["a:2"]),
            ]
        },
    };

    /// Along both spatial dims at once.
    fn pooled(x: &Dense, ty: &TensorType, of: [usize; 2], fold: fn(&[f64]) -> f64) -> Dense {
        let sizes = ["h", "w"].map(|dim| ty.shape.get(dim.into()).map_or(1, |dim| dim.size));
        Dense::each(ty, |at| {
            let window = |i: usize, dim: &str| {
                let (n, m, to) = (of[i] as f64, sizes[i] as f64, at.along(dim) as f64);
                (to * n / m).floor() as usize..((to + 1.0) * n / m).ceil() as usize
            };
            let places = window(0, "h").flat_map(|h| window(1, "w").map(move |w| (h, w)));
            let seen: Vec<_> = places.map(|(h, w)| x.at(&at.with("h", h).with("w", w))).collect();
            fold(&seen)
        })
    }
}

//! `overlap_add(y, dim, window, stride, pads)`: windows added up where they lie; the reverse of
//! [`windows`](super::windows).
//!
//! | shape | y without `window`, the dim resized |
//! |---|---|
//! | split | the dim exchange(permute), `window` whole, others parallel |
//! | linear | adds y |
//! | gradient | windows |

use super::{Frame, windows_with};
use crate::placed::resized;
use crate::room::*;
use crate::share::extended;
use mesh_core::lower::{Local, LocalPiece};
use mesh_core::program::{Offset, Scalar};

#[derive(Debug, PartialEq, Eq, Hash)]
struct OverlapAdd {
    /// Where the windows lie.
    frame: Frame,
    /// Positions of the result.
    size: usize,
}

/// Windows added up where they lie: `out[p]` is the sum of all `y[o, t]` with
/// `stride * o + t - pads[0] = p`, for `p` below the size of `dim`, which stands in the place of the
/// dim of that name. What [`windows`](crate::windows) does to a cotangent.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let tap = dim("tap", 20);
/// let y = g.input("y", [dim("time", 9), tap], F32);
/// let signal = mesh_ops::overlap_add(y, dim("time", 100), tap, 10, [0, 0]);
/// assert_eq!(signal.shape().to_string(), "[time:100]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn overlap_add(
    y: Tensor<'_>,
    dim: Dimension,
    window: Dimension,
    stride: usize,
    pads: [usize; 2],
) -> Tensor<'_> {
    of(y, Frame { dim: dim.name, window, stride, pads }, dim.size)
}

#[track_caller]
pub(super) fn of(y: Tensor<'_>, frame: Frame, size: usize) -> Tensor<'_> {
    y.graph().apply1(OverlapAdd { frame, size }, &[y])
}

impl Op for OverlapAdd {
    fn name(&self) -> &'static str {
        "overlap_add"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [y] = inputs(self.name(), types)?;
        let frame = &self.frame;
        let (dim, window) =
            (dim_of(self.name(), y, frame.dim)?, dim_of(self.name(), y, frame.window.name)?);
        if frame.dim == frame.window.name || window != frame.window {
            return Err(OpError::new(format!("{y} has no windows {} along {dim}", frame.window)));
        }
        let count = frame.count(self.size)?;
        if count != dim.size {
            return Err(OpError::new(format!(
                "{} positions have {count} windows, but {y} has {dim}",
                self.size
            )));
        }
        let shape = y.shape.without(&[window.name]);
        Ok(vec![TensorType::new(resized(&shape, dim.resized(self.size))?, y.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        self.frame.rule().linear(Linearity::Adds, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let count = self.frame.size(&cx.signature().inputs[0].shape);
        let frame = self.frame.tight(count);
        let share = frame.share(cx, self.size, count)?;
        let spread = share.spread();
        // Before the part of processor 0 lie as many positions as this, of any other more or fewer.
        let (base, scale) = (spread.pad + spread.begin.0, spread.begin.1);
        let y = extended(cx, &cx.input(0)?, frame.dim, spread.margins)?;
        let y = cx.cast(&y, cx.output_dtype(0))?;
        let order: Vec<_> = cx
            .output_shape(0)
            .names()
            .flat_map(|name| [Some(name), Some(frame.window.name).filter(|_| name == frame.dim)])
            .flatten()
            .collect();
        let y = cx.transpose(&y, &order)?;
        let wide = sums(cx, &frame, &y, spread.pad + spread.size)?;
        let out = if scale == 0 && base == 0 && frame.size(wide.shape()) == share.image {
            wide
        } else {
            let axes = cx.axes(frame.dim)?;
            cx.cut(&wide, frame.dim, Offset { base, axes, scale }, share.image)?
        };
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let dy = windows_with(cx.dy(), self.frame.clone());
        Ok(vec![Some(crate::transpose(dy, cx.input(0).shape()))])
    }
}

/// All of the windows added up: at least `least` positions, from the first of the first window
/// on.
fn sums(
    cx: &mut LocalCx<'_, '_>,
    frame: &Frame,
    y: &Local,
    least: usize,
) -> Result<Local, OpError> {
    let (dim, window) = (frame.dim, frame.window.name);
    let count = frame.size(y.shape());
    let blocks = (count + frame.blocks() - 1).max(least.div_ceil(frame.stride));
    let flat = |cx: &mut LocalCx<'_, '_>, y: &Local| -> Result<Local, OpError> {
        let shape = y.shape().without(&[window]);
        let shape = resized(&shape, Dimension { name: dim, size: blocks * frame.stride })?;
        cx.reshape(y, &shape)
    };
    if frame.window.size == frame.stride && blocks == count {
        return flat(cx, y);
    }
    // Chunk k of every window is in the block k places after the window's own: one shifted copy
    // for each, added up.
    let blocked = resized(y.shape(), Dimension { name: dim, size: blocks })?;
    let blocked = resized(&blocked, Dimension { name: window, size: frame.stride })?;
    let names: Vec<_> = y.shape().names().collect();
    let copy = Dimension { name: unlike(window, &names), size: frame.blocks() };
    let copies = Shape::new(std::iter::once(copy).chain(blocked.iter()))?;
    let pieces: Vec<_> = frame
        .chunks()
        .map(|(block, size)| LocalPiece {
            input: y.clone(),
            begin: vec![(window, Offset::fixed(block * frame.stride))],
            at: vec![(copy.name, block), (dim, block)],
            size: vec![(copy.name, 1), (dim, count), (window, size)],
        })
        .collect();
    let zero = Scalar::new(cx.dtype(y), 0.0);
    let copies = cx.assemble(&pieces, zero, &copies)?;
    let sums = cx.reduce(ReduceKind::Sum, &copies, &blocked)?;
    flat(cx, &sums)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;
    use crate::windows::proof::seen;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<OverlapAdd>(|op, y, types| {
            let mut out = Dense::zeros(types[0].clone());
            let seen = seen(&op.frame, &types[0].shape, &y[0].ty.shape);
            for (at, element) in seen.into_iter().zip(&y[0].data) {
                if let Some(at) = at {
                    out.data[at] += element;
                }
            }
            wrap(&mut out);
            vec![out]
        })],
        cases: || {
            vec![
                case("added, touching", "h:6;c:2;t:2", |y| {
                    overlap_add(y, dim("h", 12), dim("t", 2), 2, [0, 0])
                }),
                case("added, overlapping", "t:3;c:2;h:12", |y| {
                    overlap_add(y, dim("h", 12), dim("t", 3), 1, [1, 1])
                }),
                case("added, apart", "h:6;t:1", |y| {
                    overlap_add(y, dim("h", 12), dim("t", 1), 2, [0, 0])
                }),
            ]
        },
    };

    fn case(name: &str, shape: &str, function: Unary) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .exact()
            .integers("y", shape, F32)
            .meshes(LINES)
            .shows("overlap_add")
    }
}

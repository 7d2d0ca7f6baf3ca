//! `windows(x, dim, window, stride, pads)`: the windows along a dim, each whole, overlapping or not.
//!
//! | shape | x with the dim resized to the count of windows, and `window` after it |
//! |---|---|
//! | split | the dim exchange(permute), `window` whole, others parallel |
//! | linear | moves x, if zeros stand beyond the ends |
//! | gradient | [`overlap_add`] |
//!
//! The dim has one name in `x` and in the result, so one rule cuts both; both sizes must be
//! divisible. Windows that touch but do not overlap are a reshape, and where they divide the slices
//! nothing is exchanged.

pub(crate) mod overlap;

pub use overlap::overlap_add;

use crate::room::*;
use crate::share::{MARGINS, Share};
use mesh_core::lower::{Local, LocalPiece};
use mesh_core::program::{Offset, Scalar};

const WHOLE: &str = "every processor holds whole windows; split the dim that counts them";

/// How windows lie along a dim: element `t` of window `o` is at `stride * o + t - pads[0]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    /// The dim.
    pub(crate) dim: DimName,
    /// The positions of a window.
    pub(crate) window: Dimension,
    /// Positions from one window to the next.
    pub(crate) stride: usize,
    /// Positions before the first of `x`, and after the last.
    pub(crate) pads: [usize; 2],
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Windows {
    /// Where they lie.
    pub(crate) frame: Frame,
}

/// The windows of `x` along `dim`: `out[o, t] = x[stride * o + t - pads[0]]`, with zeros beyond the
/// ends. `window` is the new dim of their positions; pads are zeros before and after, each less
/// than a window. There are `(n + pads - window) / stride + 1` windows.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 100);
/// let x = g.input("x", [time, dim("channel", 4)], F32);
/// let frames = mesh_ops::windows(x, time, dim("tap", 20), 10, [0, 0]);
/// assert_eq!(frames.shape().to_string(), "[time:9, tap:20, channel:4]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn windows(
    x: Tensor<'_>,
    dim: Dimension,
    window: Dimension,
    stride: usize,
    pads: [usize; 2],
) -> Tensor<'_> {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("windows", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return x.poisoned();
    }
    windows_with(x, Frame { dim: dim.name, window, stride, pads })
}

#[track_caller]
pub(crate) fn windows_with(x: Tensor<'_>, frame: Frame) -> Tensor<'_> {
    x.graph().apply1(Windows { frame }, &[x])
}

impl Frame {
    /// How many windows there are along a dim of size `n`, or why there are none.
    fn count(&self, n: usize) -> Result<usize, OpError> {
        let (size, [low, high]) = (self.window.size, self.pads);
        if self.stride == 0 {
            return Err(OpError::new("the stride of windows is at least 1"));
        }
        if low.max(high) >= size {
            return Err(OpError::new(format!(
                "pads of {} are {low} and {high}: each must be less than {}",
                self.dim, self.window
            )));
        }
        let last = n.saturating_add(low).saturating_add(high).checked_sub(size);
        last.map(|last| last / self.stride + 1).ok_or_else(|| {
            OpError::new(format!("windows are {}, but {} has only {n}", self.window, self.dim))
        })
    }

    /// The same windows; if there is one only, with a stride that leaves nothing between windows.
    fn tight(&self, count: usize) -> Self {
        let stride = if count == 1 { self.window.size } else { self.stride };
        Self { stride, ..self.clone() }
    }

    /// `x` with the dim resized and the window dim after it.
    fn windowed(&self, x: &Shape, size: usize, window: usize) -> Result<Shape, OpError> {
        let dims = x.iter().flat_map(|d| match d.name == self.dim {
            true => vec![d.resized(size), self.window.resized(window)],
            false => vec![d],
        });
        Ok(Shape::new(dims)?)
    }

    /// Blocks of `stride` positions that a window touches.
    fn blocks(&self) -> usize {
        self.window.size.div_ceil(self.stride)
    }

    /// The window positions in each block, in order.
    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> {
        let (stride, size) = (self.stride, self.window.size);
        (0..self.blocks()).map(move |block| (block, stride.min(size - block * stride)))
    }

    /// The part of the dim that a processor has; sizes are global.
    fn share(&self, cx: &LocalCx<'_, '_>, image: usize, output: usize) -> Result<Share, OpError> {
        let parts = cx.parts(self.dim)?;
        Ok(Share {
            dim: self.dim,
            parts,
            image: image / parts,
            output: output / parts,
            stride: self.stride,
            reach: self.window.size,
            low: self.pads[0],
        })
    }

    fn size(&self, shape: &Shape) -> usize {
        shape.get(self.dim).map_or(1, |d| d.size)
    }

    fn rule(&self) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Exchange(MARGINS))
            .with([self.window.name], Role::Whole(WHOLE))
    }
}

impl Op for Windows {
    fn name(&self) -> &'static str {
        "windows"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        let dim = dim_of(self.name(), x, self.frame.dim)?;
        let count = self.frame.count(dim.size)?;
        let shape = self.frame.windowed(&x.shape, count, self.frame.window.size)?;
        Ok(vec![TensorType::new(shape, x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        self.frame.rule().linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let signature = cx.signature();
        let size = |types: &[TensorType]| self.frame.size(&types[0].shape);
        let (global, count) = (size(signature.inputs), size(signature.outputs));
        let frame = self.frame.tight(count);
        let share = frame.share(cx, global, count)?;
        let size = (share.output + frame.blocks() - 1) * frame.stride;
        let rows = self.rows(cx, &share, size)?;
        let blocks = frame.windowed(rows.shape(), size / frame.stride, frame.stride)?;
        let blocks = cx.reshape(&rows, &blocks)?;
        if frame.window.size == frame.stride {
            cx.finish(0, blocks)?;
            return Ok(());
        }
        let shape = cx.output_shape(0);
        let (dim, window) = (frame.dim, frame.window.name);
        let pieces: Vec<_> = frame
            .chunks()
            .map(|(block, size)| LocalPiece {
                input: blocks.clone(),
                begin: vec![(dim, Offset::fixed(block))],
                at: vec![(window, block * frame.stride)],
                size: vec![(dim, share.output), (window, size)],
            })
            .collect();
        let zero = Scalar::new(cx.dtype(&blocks), 0.0);
        let out = cx.assemble(&pieces, zero, &shape)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let x = cx.input(0).tensor_type();
        let dim = dim_of(self.name(), &x, self.frame.dim)?;
        let dx = overlap::of(cx.dy(), self.frame.clone(), dim.size);
        Ok(vec![Some(crate::transpose(dx, &x.shape))])
    }
}

impl Windows {
    /// `size` positions from the first of this processor's windows on.
    fn rows(&self, cx: &mut LocalCx<'_, '_>, share: &Share, size: usize) -> Result<Local, OpError> {
        let (mut rows, mut low) = (cx.input(0)?, share.low);
        let dtype = cx.dtype(&rows);
        if share.parts > 1 {
            rows = share.seen(cx, &rows)?;
            low = 0;
        }
        let held = self.frame.size(rows.shape());
        if low == 0 && held == size {
            return Ok(rows);
        }
        let shape = crate::placed::resized(rows.shape(), Dimension { name: share.dim, size })?;
        let mut piece = LocalPiece { at: vec![(share.dim, low)], ..LocalPiece::whole(rows) };
        piece.size.push((share.dim, held.min(size - low)));
        cx.assemble(&[piece], Scalar::new(dtype, 0.0), &shape)
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Windows>(|op, x, types| {
            let at = seen(&op.frame, &x[0].ty.shape, &types[0].shape);
            let data = at.into_iter().map(|at| at.map_or(0.0, |at| x[0].data[at])).collect();
            vec![Dense { ty: types[0].clone(), data }]
        })],
        cases: || {
            vec![
                case("touching", 12, |x| windows(x, dim("h", 12), dim("t", 2), 2, [0, 0])),
                case("overlapping", 12, |x| windows(x, dim("h", 12), dim("t", 3), 1, [1, 1])),
                case("overlapping by more than a stride", 18, |x| {
                    windows(x, dim("h", 18), dim("t", 7), 3, [3, 0])
                }),
                case("apart", 12, |x| windows(x, dim("h", 12), dim("t", 1), 2, [0, 0])),
                case("of one", 6, |x| windows(x, dim("h", 6), dim("t", 1), 1, [0, 0])),
                case("drifting", 14, |x| windows(x, dim("h", 14), dim("t", 3), 1, [0, 0])),
            ]
        },
    };

    fn case(name: &str, size: usize, function: Unary) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .exact()
            .integers("x", &format!("h:{size};c:2"), F32)
            .meshes(LINES)
            .shows("windows")
    }

    /// For each element of the windows, in order, where it lies in the image; `None` beyond the ends.
    pub(crate) fn seen(frame: &Frame, image: &Shape, windows: &Shape) -> Vec<Option<usize>> {
        let element = |number| {
            let mut at = Some(0);
            for dim in image {
                let mut position = along(windows, number, dim.name) as i64;
                if dim.name == frame.dim {
                    position *= frame.stride as i64;
                    position += along(windows, number, frame.window.name) as i64;
                    position -= frame.pads[0] as i64;
                }
                let inside = (0..dim.size as i64).contains(&position);
                let step = stride(image, dim.name);
                at = at.filter(|_| inside).map(|at| at + position as usize * step);
            }
            at
        };
        (0..windows.size()).map(element).collect()
    }
}

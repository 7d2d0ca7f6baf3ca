//! `conv`: windowed products of an image and a filter, in any number of spatial dims.
//!
//! | shape | spatial dims by [`Padding`] and stride, input channels replaced by output channels |
//! |---|---|
//! | split | spatial dims exchange(permute), of a filter gradient then reduced(sum); filter dims whole; dims not in the result reduced(sum); others parallel |
//! | linear | multiplies each factor |
//! | gradient | of each factor: the same op making that factor |
//!
//! A spatial dim has one name in image and output. So one rule cuts both, into as many equal parts,
//! and both sizes must be divisible. Each processor gets from its neighbours the margins that its
//! windows see; an image gradient, the margins of the output gradient whose windows see its part:
//! no sums are owed. A filter gradient sums over the parts.
//!
//! Image, filter and output are tied by the windows; given two of them the op makes the third.
//! So forward, both gradients and the gradients of these are one op.

pub(crate) mod blocks;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof;
#[cfg(test)]
mod tests;
mod window;

pub use blocks::conv_with_blocks;
pub use window::{Conv, Padding};

use crate::placed::resized;
use crate::room::*;
use crate::share::{MARGINS, Share, extended};
use mesh_core::lower::{Local, LocalWindow};
use window::Slide;

/// Which of the three is made of the other two. The inputs come in the order image, filter, output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Makes {
    /// The result of a convolution.
    Output,
    /// The image, of this shape: input gradient, transposed convolution.
    Image(Shape),
    /// The filter, of this shape: filter gradient.
    Filter(Shape),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Convolution {
    /// How the filter slides.
    conv: Conv,
    /// What is made.
    makes: Makes,
}

/// `filter` slid over the image `x` as `conv` says: at every position the sum of products over the
/// window and over the dims that both share. The result has the dims of `x` in order, with the
/// shared dims (input channels) replaced by the filter's own (output channels).
///
/// Whether zeros that stand around an image, between its elements (strides of a transposed convolution or of a gradient)
/// or for other groups are multiplied at all is left open: kernels and layouts differ. Where such a zero meets
/// an infinity or NaN of the other factor, the sum may be NaN or without that product.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::conv::{Conv, conv};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:8;h:28;w:28;colour:3".parse::<Shape>()?, F32);
/// let filter = g.input("filter", "fh:5;fw:5;colour:3;feature:16".parse::<Shape>()?, F32);
/// let y = conv(x, filter, &Conv::over([("h", "fh"), ("w", "fw")]).strides([2, 2]));
/// assert_eq!(y.shape().to_string(), "[batch:8, h:14, w:14, feature:16]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn conv<'g>(x: Tensor<'g>, filter: Tensor<'g>, conv: &Conv) -> Tensor<'g> {
    x.graph().apply1(Convolution { conv: conv.clone(), makes: Makes::Output }, &[x, filter])
}

/// The transposed convolution: what the gradient of [`conv`] does to `y`. Every position of `y` is
/// spread over a window. With padding `Same` spatial dims grow to `n * stride`, with `Valid` to
/// `n * stride + max(filter - stride, 0)`. The dims that `y` and `filter` share are summed. Of zeros between elements
/// that meet infinities or NaN see [`conv`].
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::conv::{Conv, conv_transpose};
/// # let g = mesh_ops::graph();
/// let y = g.input("y", "batch:8;h:7;w:7;feature:16".parse::<Shape>()?, F32);
/// let filter = g.input("filter", "fh:2;fw:2;feature:16;colour:3".parse::<Shape>()?, F32);
/// let x = conv_transpose(y, filter, &Conv::over([("h", "fh"), ("w", "fw")]).strides([2, 2]));
/// assert_eq!(x.shape().to_string(), "[batch:8, h:14, w:14, colour:3]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn conv_transpose<'g>(y: Tensor<'g>, filter: Tensor<'g>, conv: &Conv) -> Tensor<'g> {
    if y.is_poisoned() || filter.is_poisoned() {
        return y.poisoned();
    }
    match conv.image(&y.shape(), &filter.shape()) {
        Ok(shape) => Convolution { conv: conv.clone(), makes: Makes::Image(shape) }.of(filter, y),
        Err(error) => {
            y.graph().record("conv_transpose", error.to_string());
            y.poisoned()
        }
    }
}

const FILTER: &str = "every window needs the whole filter";

impl Convolution {
    #[track_caller]
    fn of<'g>(self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
        a.graph().apply1(self, &[a, b])
    }

    /// The shapes of image, filter and output.
    fn shapes(&self, [a, b]: [&Shape; 2]) -> Result<[Shape; 3], OpError> {
        let (image, filter, output) = match &self.makes {
            Makes::Output => (a, b, None),
            Makes::Image(shape) => (shape, a, Some(b)),
            Makes::Filter(shape) => (a, shape, Some(b)),
        };
        let shape = self.conv.output(image, filter)?;
        if let Some(output) = output.filter(|output| !output.is_permutation_of(&shape)) {
            return Err(OpError::new(format!("{filter} over {image} gives {shape}, not {output}")));
        }
        Ok([image.clone(), filter.clone(), output.cloned().unwrap_or(shape)])
    }

    /// The part of a spatial dim that a processor has.
    fn share(
        &self,
        cx: &LocalCx<'_, '_>,
        slide: &Slide,
        global: &[Shape; 3],
    ) -> Result<Share, OpError> {
        let size = |shape: &Shape, name| shape.get(name).map_or(1, |d: Dimension| d.size);
        let [image, filter, output] = global;
        let (parts, taps) = (cx.parts(slide.image)?, size(filter, slide.filter));
        let image = size(image, slide.image);
        Ok(Share {
            dim: slide.image,
            parts,
            image: image / parts,
            output: size(output, slide.image) / parts,
            stride: slide.stride,
            reach: slide.reach(taps),
            low: self.conv.low(slide, image, taps),
        })
    }

    /// The local product. Spatial dims of image and output share their names: the output's get
    /// others meanwhile.
    fn product(
        &self,
        cx: &mut LocalCx<'_, '_>,
        [a, b]: [&Local; 2],
        mut windows: Vec<LocalWindow>,
        onto: Shape,
        dtype: DType,
    ) -> Result<Local, OpError> {
        let all = a.shape().names().chain(b.shape().names()).chain(onto.names());
        let taken: Vec<_> = all.collect();
        for window in &mut windows {
            window.output = unlike(window.input, &taken);
        }
        let rename = |shape: &Shape| -> Result<Shape, OpError> {
            Ok(Shape::new(shape.iter().map(|d| {
                let window = windows.iter().find(|window| window.input == d.name);
                window.map_or(d, |window| d.renamed(window.output.as_str()))
            }))?)
        };
        if self.made() == 2 {
            let out = cx.convolve(a, b, &windows, &rename(&onto)?, dtype)?;
            return cx.renamed(&out, onto);
        }
        let b = cx.renamed(b, rename(b.shape())?)?;
        cx.convolve(a, &b, &windows, &onto, dtype)
    }

    /// The made one of the three.
    fn made(&self) -> usize {
        match self.makes {
            Makes::Image(_) => 0,
            Makes::Filter(_) => 1,
            Makes::Output => 2,
        }
    }
}

impl Op for Convolution {
    fn name(&self) -> &'static str {
        ["conv_image", "conv_filter", "conv"][self.made()]
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [a, b] = inputs(self.name(), types)?;
        let dtype = crate::elementwise::number(self.name(), &[a.dtype, b.dtype])?;
        let [image, filter, output] = self.shapes([&a.shape, &b.shape])?;
        let shape = [image, filter, output].into_iter().nth(self.made()).unwrap_or_default();
        Ok(vec![TensorType::new(shape, dtype)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let made = &io.outputs[0].shape;
        let summed = io.inputs.iter().flat_map(|t| t.shape.names());
        let summed: Vec<_> = summed.filter(|&name| !made.contains(name)).collect();
        let spatial = match self.makes {
            Makes::Filter(_) => Role::ExchangeReduced(ReduceKind::Sum, MARGINS),
            _ => Role::Exchange(MARGINS),
        };
        SplitRule::parallel()
            .with(self.conv.pairs.iter().map(|pair| pair.0), spatial)
            .with(self.conv.pairs.iter().map(|pair| pair.1), Role::Whole(FILTER))
            .with(summed, Role::Reduced(ReduceKind::Sum))
            .product(2)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let types = cx.signature().inputs;
        let global = self.shapes([&types[0].shape, &types[1].shape])?;
        let (mut a, mut b) = (cx.input(0)?, cx.input(1)?);
        let (mut onto, dtype) = (cx.output_shape(0), cx.output_dtype(0));
        let mut windows = Vec::new();
        let mut shares = Vec::new();
        for slide in self.conv.slides()? {
            let share = self.share(cx, &slide, &global)?;
            let mut pad = share.low;
            if share.parts > 1 && self.made() == 0 {
                let spread = share.spread();
                b = extended(cx, &b, slide.image, spread.margins)?;
                onto = resized(&onto, Dimension { name: slide.image, size: spread.size })?;
                pad = spread.pad;
            } else if share.parts > 1 {
                a = share.seen(cx, &a)?;
                pad = 0;
            }
            shares.push(share);
            windows.push(LocalWindow {
                input: slide.image,
                kernel: slide.filter,
                output: slide.image,
                stride: slide.stride,
                dilation: slide.dilation,
                pad,
            });
        }
        let mut out = self.product(cx, [&a, &b], windows, onto, dtype)?;
        if self.made() == 0 {
            for share in shares {
                out = share.own(cx, &out)?;
            }
        }
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (a, b, dy) = (cx.input(0), cx.input(1), cx.dy());
        let make = |makes| Self { conv: self.conv.clone(), makes };
        let (image, filter) =
            (|| Makes::Image(a.shape()), |t: Tensor<'g>| Makes::Filter(t.shape()));
        // What makes each input, of dy and the other input, in the order image, filter, output.
        let (of_a, of_b) = match self.makes {
            Makes::Output => (make(image()).of(b, dy), make(filter(b)).of(a, dy)),
            Makes::Image(_) => (make(filter(a)).of(dy, b), make(Makes::Output).of(dy, a)),
            Makes::Filter(_) => (make(image()).of(dy, b), make(Makes::Output).of(a, dy)),
        };
        let ordered = |grad, like: Tensor<'g>| Some(crate::transpose(grad, like.shape()));
        Ok(vec![ordered(of_a, a), ordered(of_b, b)])
    }
}

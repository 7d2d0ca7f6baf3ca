//! Convolutions.

use super::ops::Padding;
use super::writer::{Tensor, Writer, kind, listed};
use crate::program::Extents;
use ndarray::{Dimension, indices};

/// How a convolution's window moves along a dim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::program) struct Slide {
    /// Positions of the (padded) image from one window to the next.
    pub(in crate::program) stride: usize,
    /// Positions of the image from one position of the kernel to the next.
    pub(in crate::program) dilation: usize,
    /// What is added to the image.
    pub(in crate::program) padding: Padding,
}

impl Writer<'_> {
    /// The convolution of an image, whose dims are a batch, a position for each slide, and features, of so
    /// many groups; and a kernel, whose dims are a position for each slide, a group's features, and results of all
    /// groups. Products of bf16 are held in f32.
    pub(in crate::program) fn convolved(
        &mut self,
        image: &Tensor,
        kernel: &Tensor,
        slides: &[Slide],
        groups: usize,
    ) -> Tensor {
        let rank = slides.len();
        let positions = (0..rank).map(|dim| {
            let Slide { stride, dilation, padding } = slides[dim];
            let padded = padding.extent(image.extents[dim + 1]);
            (padded - dilation * (kernel.extents[dim] - 1) - 1) / stride + 1
        });
        let results = kernel.extents[rank + 1];
        let extents: Extents =
            [image.extents[0]].into_iter().chain(positions).chain([results]).collect();
        if !image.element.is_float() {
            return self.convolved_by_taps([image, kernel], slides, groups, &extents);
        }
        let names = listed(0..rank);
        let of = |of: fn(&Slide) -> String| listed(slides.iter().map(of));
        let stride = of(|s| s.stride.to_string());
        let pad = of(|s| format!("[{}, {}]", s.padding.low, s.padding.high));
        let between = of(|s| (s.padding.between + 1).to_string());
        let dilation = of(|s| s.dilation.to_string());
        let precision = format!("#stablehlo<precision {}>", self.options.precision.name());
        let element = image.element.reduction();
        let (i, k, to) = (image.kind(), kernel.kind(), kind(element, &extents));
        let text = format!(
            "stablehlo.convolution({image}, {kernel}) dim_numbers = \
             [b, {names}, f]x[{names}, i, o]->[b, {names}, f], window = {{stride = [{stride}], pad = [{pad}], \
             lhs_dilate = [{between}], rhs_dilate = [{dilation}]}} {{batch_group_count = 1 : i64, \
             feature_group_count = {groups} : i64, precision_config = [{precision}, {precision}]}} : \
             ({i}, {k}) -> {to}"
        );
        self.line(text, element, &extents)
    }

    /// A convolution as the sum over the kernel's positions of products of matrices. Integers take it: the compiler for
    /// NVIDIA's GPUs gives convolutions to cuDNN, which has none of 32-bit integers.
    fn convolved_by_taps(
        &mut self,
        [image, kernel]: [&Tensor; 2],
        slides: &[Slide],
        groups: usize,
        extents: &[usize],
    ) -> Tensor {
        let rank = slides.len();
        let mut padding = vec![Padding::default(); rank + 2];
        let mut strides = vec![1; rank + 2];
        for (dim, slide) in slides.iter().enumerate() {
            (padding[dim + 1], strides[dim + 1]) = (slide.padding, slide.stride);
        }
        let image = self.padded(image, 0.0, &padding);
        let (features, made) = (kernel.extents[rank], kernel.extents[rank + 1] / groups);
        let mut sum = None;
        for tap in indices(&kernel.extents[..rank]).into_iter() {
            let mut begin = vec![0; rank + 2];
            for (dim, slide) in slides.iter().enumerate() {
                begin[dim + 1] = slide.dilation * tap[dim];
            }
            let part = [&extents[..=rank], &[groups * features]].concat();
            let part = self.sliced_by(&image, &begin, &part, &strides);
            let part = self.reshaped(&part, &[&extents[..=rank], &[groups, features]].concat());
            let (begin, mut weights) = ([tap.slice(), &[0, 0]].concat(), vec![1; rank]);
            weights.extend([features, groups * made]);
            let weights = self.sliced(kernel, &begin, &weights);
            let weights = self.reshaped(&weights, &[features, groups, made]);
            let product =
                self.multiplied([&part, &weights], [&[rank + 1], &[1]], [&[rank + 2], &[0]]);
            sum = Some(match sum {
                Some(sum) => self.binary("add", &sum, &product),
                None => product,
            });
        }
        let sum = sum.unwrap_or_else(|| self.fill(image.element, extents, 0.0));
        // The groups stand first.
        let order: Vec<_> = (1..=rank + 1).chain([0, rank + 2]).collect();
        let sum = self.transposed(&sum, &order);
        self.reshaped(&sum, extents)
    }
}

//! Networks for images as people train them: a residual one and one of depthwise convolutions; a
//! transformer and a U-Net.
//!
//! PyTorch's are in `examples/bench/nets.py`.

mod unet;
mod vit;

pub(crate) use unet::{BATCH as UNET_BATCH, unet};
pub(crate) use vit::vit;

use super::models::Loss;
use mesh_ops::conv::{Conv, conv};
use mesh_ops::layers::{BatchNorm, Parameters};
use mesh_ops::prelude::*;

/// Images of a step, of 32 by 32 pixels and three colours.
pub(crate) const BATCH: usize = 64;

/// A network that is being made.
pub(crate) struct Net<'g> {
    graph: &'g Graph,
    layers: usize,
    /// What moves the averages of its norms.
    averages: Vec<Update<'g>>,
}

fn channels(x: Tensor<'_>) -> Dimension {
    x.shape().get("channels".into()).unwrap_or(dim("channels", 1))
}

impl<'g> Net<'g> {
    /// A convolution without bias onto so many channels and a batch norm.
    fn conv(&mut self, x: Tensor<'g>, onto: usize, taps: usize, stride: usize) -> Tensor<'g> {
        let (from, onto) = (channels(x), dim("channels", onto));
        let y = self.slide(
            x.rename(from, "_channels"),
            taps,
            stride,
            &[from.renamed("_channels"), onto],
        );
        self.norm(y)
    }

    /// A convolution of each channel by itself and a batch norm.
    fn depthwise(&mut self, x: Tensor<'g>, stride: usize) -> Tensor<'g> {
        let y = self.slide(x, 3, stride, &[channels(x)]);
        self.norm(y)
    }

    /// Windows of `taps` by `taps` with half of them as padding. The filter has these dims beside.
    fn slide(
        &mut self,
        x: Tensor<'g>,
        taps: usize,
        stride: usize,
        dims: &[Dimension],
    ) -> Tensor<'g> {
        self.layers += 1;
        let (height, width) = (dim("fh", taps), dim("fw", taps));
        let all = [height, width].into_iter().chain(dims.iter().copied());
        let inputs = if dims.len() > 1 { &dims[..1] } else { &[] };
        let inputs: Vec<_> = [height, width].iter().chain(inputs).copied().collect();
        let initial = Initializer::variance_scaling(2.0, Fan::In, &inputs, &[]);
        let filter = self.graph.variable(&format!("c{}", self.layers), all, F32, initial);
        let pad = (taps / 2, taps / 2);
        let slide = Conv::over([("rows", "fh"), ("cols", "fw")]).strides([stride; 2]);
        let slide = slide.pads([pad; 2]);
        let slide = if dims.len() > 1 { slide } else { slide.depthwise(["channels"]) };
        conv(x, filter.value(), &slide)
    }

    fn norm(&mut self, x: Tensor<'g>) -> Tensor<'g> {
        let norm = BatchNorm::keeping([channels(x)]).epsilon(1e-5);
        let weights = norm.weights(&Parameters::like(x), &format!("n{}", self.layers));
        let (y, averages) = norm.train(x, &weights);
        self.averages.extend(averages);
        y
    }

    fn residual(&mut self, x: Tensor<'g>, onto: usize, stride: usize) -> Tensor<'g> {
        let y = self.conv(x, onto, 3, stride).relu();
        let y = self.conv(y, onto, 3, 1);
        let x = if stride > 1 { self.conv(x, onto, 1, stride) } else { x };
        (x + y).relu()
    }

    fn inverted(&mut self, x: Tensor<'g>, times: usize, onto: usize, stride: usize) -> Tensor<'g> {
        let from = channels(x).size;
        let y = if times > 1 { relu6(self.conv(x, from * times, 1, 1)) } else { x };
        let y = relu6(self.depthwise(y, stride));
        let y = self.conv(y, onto, 1, 1);
        if stride == 1 && from == onto { x + y } else { y }
    }

    /// The loss of classifying by the mean over all pixels.
    fn classified(&self, image: Tensor<'g>, x: Tensor<'g>) -> Loss<'g> {
        let (graph, classes) = (self.graph, dim("classes", 10));
        let label = graph.input("label", [dim("batch", BATCH)], I32);
        let (shape, spatial) = (x.shape(), ["rows", "cols"]);
        let x = x.mean_over(shape.iter().filter(|d| spatial.contains(&d.name.as_str())));
        let from = channels(x);
        let initial = Initializer::variance_scaling(1.0, Fan::In, &[from], &[]);
        let head = graph.variable("head", [from, classes], F32, initial).value();
        let logits = x.einsum(&[head], [dim("batch", BATCH), classes]);
        let loss = logits.softmax_cross_entropy(label, classes).mean();
        Loss { inputs: [image, label], loss }
    }
}

fn relu6(x: Tensor<'_>) -> Tensor<'_> {
    x.clip(0.0, 6.0)
}

fn image(graph: &Graph) -> Tensor<'_> {
    let dims = [("batch", BATCH), ("rows", 32), ("cols", 32), ("channels", 3)];
    graph.input("image", dims.map(|(name, size)| dim(name, size)), F32)
}

/// A ResNet-18 for images of this size: a stem of 3 by 3, no pooling before the mean.
pub(crate) fn resnet18(graph: &Graph) -> (Loss<'_>, Vec<Update<'_>>) {
    let mut net = Net { graph, layers: 0, averages: Vec::new() };
    let image = image(graph);
    let mut x = net.conv(image, 64, 3, 1).relu();
    for (onto, stride) in
        [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]
    {
        x = net.residual(x, onto, stride);
    }
    (net.classified(image, x), net.averages)
}

/// Ten inverted residuals of MobileNetV2.
pub(crate) fn mobilenet(graph: &Graph) -> (Loss<'_>, Vec<Update<'_>>) {
    let mut net = Net { graph, layers: 0, averages: Vec::new() };
    let image = image(graph);
    let mut x = relu6(net.conv(image, 32, 3, 1));
    for (times, onto, stride) in [
        (1, 16, 1),
        (6, 24, 1),
        (6, 24, 1),
        (6, 32, 2),
        (6, 32, 1),
        (6, 64, 2),
        (6, 64, 1),
        (6, 96, 1),
        (6, 160, 2),
        (6, 160, 1),
    ] {
        x = net.inverted(x, times, onto, stride);
    }
    (net.classified(image, x), net.averages)
}

//! A U-Net (arXiv 1505.04597) of three levels that says of every pixel which of ten classes it is.

use super::super::models::Loss;
use super::{Net, channels};
use mesh_ops::conv::{Conv, conv_transpose};
use mesh_ops::pool::{Pool, max_pool};
use mesh_ops::prelude::*;

/// Images of a step, of 64 by 64 pixels and three colours.
pub(crate) const BATCH: usize = 8;
const SIDE: usize = 64;

pub(crate) fn unet(graph: &Graph) -> (Loss<'_>, Vec<Update<'_>>) {
    let mut net = Net { graph, layers: 0, averages: Vec::new() };
    let (rows, cols) = (dim("rows", SIDE), dim("cols", SIDE));
    let (batch, classes) = (dim("batch", BATCH), dim("classes", 10));
    let image = graph.input("image", [batch, rows, cols, dim("channels", 3)], F32);
    let label = graph.input("label", [batch, rows, cols], I32);
    let (mut x, mut levels) = (image, Vec::new());
    for features in [32, 64] {
        x = twice(&mut net, x, features);
        levels.push(x);
        x = max_pool(x, &Pool::over([("rows", 2), ("cols", 2)]));
    }
    x = twice(&mut net, x, 128);
    for (i, level) in levels.into_iter().enumerate().rev() {
        x = wider(&net, x, channels(level), &format!("up{i}"));
        let both = mesh_ops::concat(level, &[x], "channels");
        x = twice(&mut net, both, channels(level).size);
    }
    let logits = x.dense(classes, "head");
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    (Loss { inputs: [image, label], loss }, net.averages)
}

fn twice<'g>(net: &mut Net<'g>, x: Tensor<'g>, features: usize) -> Tensor<'g> {
    let x = net.conv(x, features, 3, 1).relu();
    net.conv(x, features, 3, 1).relu()
}

/// Twice as many rows and columns, by a transposed convolution with windows of 2 by 2.
fn wider<'g>(net: &Net<'g>, x: Tensor<'g>, onto: Dimension, name: &str) -> Tensor<'g> {
    let from = channels(x).renamed("_channels");
    let dims = [dim("fh", 2), dim("fw", 2), from, onto];
    let initial = Initializer::variance_scaling(2.0, Fan::In, &[from], &[]);
    let filter = net.graph.variable(name, dims, F32, initial).value();
    let slide = Conv::over([("rows", "fh"), ("cols", "fw")]).strides([2, 2]);
    conv_transpose(x.rename(channels(x), "_channels"), filter, &slide)
}

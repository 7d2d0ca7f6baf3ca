//! The models. They know no mesh.

use super::flags::{self, Flags};
use examples::optimizer::Training;
use mesh_ops::conv::{Conv, conv_with_blocks};
use mesh_ops::layers::Dense;
use mesh_ops::prelude::*;

/// The name of the function that counts correct answers.
pub(crate) const EVALUATE: &str = "evaluate";

/// The name of the dim that holds the examples.
pub(crate) const BATCH: &str = "batch";

/// Functions of the graph.
pub(crate) struct Functions {
    /// From image and label to the mean loss and the learning rate. Updates the variables.
    pub(crate) train: Function<2, 2>,
    /// From image, label and weight to the weighted number of correct answers.
    pub(crate) evaluate: Function<3, 1>,
}

/// The dims of an image as it is fed.
pub(crate) fn image_dims(model: flags::Model, batch: Dimension) -> Vec<Dimension> {
    match model {
        flags::Model::Conv => {
            let (rows, cols) = (dim("rows_size", 7), dim("cols_size", 7));
            vec![batch, dim("row_blocks", 4), rows, dim("col_blocks", 4), cols]
        }
        flags::Model::Mlp | flags::Model::Linear => vec![batch, dim("pixels", 784)],
    }
}

/// Builds the model and both functions.
pub(crate) fn build(graph: &Graph, flags: &Flags, training: &Training) -> Functions {
    let (batch, classes) = (dim(BATCH, flags.batch), dim("classes", 10));
    let wide = flags.dtype.wide();
    let image = graph.input("image", image_dims(flags.model, batch), wide);
    let label = graph.input("label", [batch], I32);
    let x = image.cast(flags.dtype.activations());
    let logits = match flags.model {
        flags::Model::Conv => conv(x, classes, flags),
        flags::Model::Mlp => {
            let [hidden1, hidden2] = hidden(flags);
            let h = x.dense(hidden1, "hidden1").relu();
            h.dense(hidden2, "hidden2").relu().dense(classes, "logits")
        }
        flags::Model::Linear => x.dense(classes, "logits"),
    };
    let logits = logits.cast(wide);
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    let (updates, rate) = training.minimize(loss);
    let train = graph.function("train", [image, label], [loss, rate], updates);

    let weight = graph.input("weight", [batch], wide);
    let correct = logits.argmax(classes).equal(label).cast(wide);
    let correct = training.for_evaluation((correct * weight).sum_all());
    let evaluate = graph.function(EVALUATE, [image, label, weight], [correct], []);
    Functions { train, evaluate }
}

/// The dims of the hidden layers.
fn hidden(flags: &Flags) -> [Dimension; 2] {
    ["hidden1", "hidden2"].map(|name| dim(name, flags.hidden))
}

/// Mesh TensorFlow's example: convolutions on blocks. If `row_blocks` and `col_blocks` are split,
/// only the borders of blocks are sent.
fn conv<'g>(image: Tensor<'g>, classes: Dimension, flags: &Flags) -> Tensor<'g> {
    let dims: Vec<_> = image.shape().iter().collect();
    let &[batch, row_blocks, rows, col_blocks, cols] = dims.as_slice() else { return image };
    let blocks = image.transpose([batch, row_blocks, col_blocks, rows, cols]);
    let channel = dim("one_channel", 1);
    let x = blocks.reshape([batch, row_blocks, col_blocks, rows, cols, channel]);
    let (filters1, filters2) = (dim("filters1", flags.filters), dim("filters2", flags.filters));
    let x = filter(x, [row_blocks, col_blocks], [rows, cols], channel, filters1, "conv1").relu();
    let x = filter(x, [row_blocks, col_blocks], [rows, cols], filters1, filters2, "conv2").relu();
    let x = mesh_ops::reduce::mean(x, [filters2]);
    let [hidden1, hidden2] = hidden(flags);
    let all = [row_blocks, col_blocks, rows, cols];
    let h = Dense::onto([hidden1]).over(all).apply(x, "hidden1").relu();
    h.dense(hidden2, "hidden2").relu().dense(classes, "logits")
}

fn filter<'g>(
    x: Tensor<'g>,
    blocks: [Dimension; 2],
    sizes: [Dimension; 2],
    from: Dimension,
    onto: Dimension,
    name: &str,
) -> Tensor<'g> {
    let (height, width) = (dim("filter_height", 9), dim("filter_width", 9));
    let initializer = Initializer::variance_scaling(1.0, Fan::In, &[height, width, from], &[onto]);
    let scope = x.graph().scope(name);
    let stored = x.dtype().reduction();
    let kernel = x.graph().variable("kernel", [height, width, from, onto], stored, initializer);
    drop(scope);
    let conv = Conv::over([(sizes[0].name, height.name), (sizes[1].name, width.name)]);
    conv_with_blocks(x, kernel.value().cast(x.dtype()), &conv, blocks)
}

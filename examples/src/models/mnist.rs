//! Classifiers of digits.

use crate::optimizer::Training;
use clap::ValueEnum;
use mesh_ops::conv::{Conv, conv_with_blocks};
use mesh_ops::layers::Dense;
use mesh_ops::prelude::*;

/// The name of the function that counts correct answers.
pub const EVALUATE: &str = "evaluate";

/// The name of the dim that holds the examples.
pub const BATCH: &str = "batch";

/// What is trained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Model {
    /// Mesh TensorFlow's example: two 9x9 convolutions on 4x4 blocks, three dense layers; 691,738
    /// parameters unless sizes are given. Dims: batch, row_blocks, col_blocks, rows_size, cols_size,
    /// filters1, filters2, hidden1, hidden2, classes.
    Conv,
    /// 784-512-512-10, unless a size is given. Dims: batch, pixels, hidden1, hidden2, classes.
    Mlp,
    /// Softmax regression. Dims: batch, pixels, classes.
    Linear,
}

/// What a classifier is made of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sizes {
    /// What is trained.
    pub model: Model,
    /// Examples of a step.
    pub batch: usize,
    /// Size of the hidden layers; not of `linear`, which has none.
    pub hidden: usize,
    /// Filters of each convolution; of `conv` only.
    pub filters: usize,
    /// The dtype of images, parameters and losses.
    pub wide: DType,
    /// The dtype of activations.
    pub activations: DType,
}

/// Functions of the graph.
pub struct Functions {
    /// From image and label to the mean loss and the learning rate. Updates the variables.
    pub train: Function<2, 2>,
    /// From image, label and weight to the weighted number of correct answers.
    pub evaluate: Function<3, 1>,
}

/// The dims of an image as it is fed.
pub fn image_dims(model: Model, batch: Dimension) -> Vec<Dimension> {
    match model {
        Model::Conv => {
            let (rows, cols) = (dim("rows_size", 7), dim("cols_size", 7));
            vec![batch, dim("row_blocks", 4), rows, dim("col_blocks", 4), cols]
        }
        Model::Mlp | Model::Linear => vec![batch, dim("pixels", 784)],
    }
}

/// Builds the model and both functions.
pub fn build(graph: &Graph, sizes: &Sizes, training: &Training) -> Functions {
    let (batch, classes) = (dim(BATCH, sizes.batch), dim("classes", 10));
    let wide = sizes.wide;
    let image = graph.input("image", image_dims(sizes.model, batch), wide);
    let label = graph.input("label", [batch], I32);
    let x = image.cast(sizes.activations);
    let logits = match sizes.model {
        Model::Conv => conv(x, classes, sizes),
        Model::Mlp => {
            let [hidden1, hidden2] = hidden(sizes);
            let h = x.dense(hidden1, "hidden1").relu();
            h.dense(hidden2, "hidden2").relu().dense(classes, "logits")
        }
        Model::Linear => x.dense(classes, "logits"),
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
fn hidden(sizes: &Sizes) -> [Dimension; 2] {
    ["hidden1", "hidden2"].map(|name| dim(name, sizes.hidden))
}

/// Mesh TensorFlow's example: convolutions on blocks. If `row_blocks` and `col_blocks` are split,
/// only the borders of blocks are sent.
fn conv<'g>(image: Tensor<'g>, classes: Dimension, sizes: &Sizes) -> Tensor<'g> {
    let dims: Vec<_> = image.shape().iter().collect();
    let &[batch, row_blocks, rows, col_blocks, cols] = dims.as_slice() else { return image };
    let blocks = image.transpose([batch, row_blocks, col_blocks, rows, cols]);
    let channel = dim("one_channel", 1);
    let x = blocks.reshape([batch, row_blocks, col_blocks, rows, cols, channel]);
    let (filters1, filters2) = (dim("filters1", sizes.filters), dim("filters2", sizes.filters));
    let x = filter(x, [row_blocks, col_blocks], [rows, cols], channel, filters1, "conv1").relu();
    let x = filter(x, [row_blocks, col_blocks], [rows, cols], filters1, filters2, "conv2").relu();
    let x = mesh_ops::reduce::mean(x, [filters2]);
    let [hidden1, hidden2] = hidden(sizes);
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

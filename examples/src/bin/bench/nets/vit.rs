//! A vision transformer (arXiv 2010.11929) of six layers, on patches of 4 by 4 pixels.

use super::super::models::Loss;
use super::BATCH;
use mesh_ops::layers::attention::MultiHead;
use mesh_ops::layers::{
    Activation, Around, Dense, FeedForward, Norm, Parameters, TransformerLayer, layer_norm,
};
use mesh_ops::prelude::*;

const LAYERS: usize = 6;
/// Patches along each side of an image.
const PATCHES: usize = 8;

pub(crate) fn vit(graph: &Graph) -> Loss<'_> {
    let (rows, cols) = (dim("rows", PATCHES), dim("cols", PATCHES));
    let (pixel_rows, pixel_cols, colours) =
        (dim("pixel_rows", 4), dim("pixel_cols", 4), dim("colours", 3));
    let (batch, classes) = (dim("batch", BATCH), dim("classes", 10));
    let (patches, model) = (dim("patches", PATCHES * PATCHES), dim("model", 192));
    let image = graph.input("image", [batch, rows, pixel_rows, cols, pixel_cols, colours], F32);
    let label = graph.input("label", [batch], I32);
    let parameters = Parameters::like(image);
    let x = Dense::onto([model]).over([pixel_rows, pixel_cols, colours]).apply(image, "patches");
    let small = Initializer::TruncatedNormal { mean: 0.0, stddev: 0.02 };
    let x = x.merge_dims([rows, cols], "patches")
        + parameters.variable("places", [patches, model], small);
    let layer = TransformerLayer {
        norm: Norm::Layer,
        attention: MultiHead::new(model, dim("heads", 3), dim("kv", 64)),
        feed_forward: FeedForward::new(model, dim("hidden", 768)).activations([Activation::Gelu]),
    };
    let x = (0..LAYERS).fold(x, |x, i| {
        let weights = layer.weights(&parameters, &format!("layer{i}"));
        layer.apply(x, patches, &weights, &Around::default())
    });
    let logits = layer_norm(x, model, "norm").mean_over([patches]).dense(classes, "logits");
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    Loss { inputs: [image, label], loss }
}

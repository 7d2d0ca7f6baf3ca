//! Layers with weights.

use super::{Row, Words, rows};
use mesh_ops::conv::{Conv, Padding, conv, conv_transpose};
use mesh_ops::layers::attention::{
    AttentionOptions, MultiHead, causal, dot_product_attention, memory_dim,
};
use mesh_ops::layers::*;
use mesh_ops::pool::{Pool, avg_pool, max_pool};
use mesh_ops::prelude::*;
use mesh_ops::random::{dropout, dropout_over};
use mesh_ops::resize::{Method, Resize, resize};
use mesh_ops::{adaptive_avg_pool, adaptive_max_pool};

pub(super) fn layers(words: &Words<'_>) -> Vec<Row> {
    let &Words { g, ids, sequence, length, model, columns, x, .. } = words;
    let parameters = Parameters::like(sequence);
    let heads = MultiHead::new(model, dim("heads", 2), dim("kv", 4));
    let attention = heads.weights(&parameters, "attention");
    let layer = TransformerLayer {
        norm: Norm::Layer,
        attention: heads.clone(),
        feed_forward: FeedForward::new(model, dim("hidden", 16)),
    };
    let layer_weights = layer.weights(&parameters, "layer");
    let lstm = Recurrent::new(Cell::Lstm, length, model, dim("state", 8)).layers(2);
    let lstm_weights = lstm.weights(&parameters, "lstm");
    let gru = Recurrent::new(Cell::Gru, length, model, dim("state", 8)).bidirectional();
    let gru_weights = gru.weights(&parameters, "gru");
    let plain = Recurrent::new(Cell::Plain(Activation::Tanh), length, model, dim("state", 8));
    let plain_weights = plain.weights(&parameters, "plain");
    let (memory, kv) = (memory_dim(length), dim("kv", 4));
    let q = g.input("q", [length, kv], F32);
    let [k, v] = ["k", "v"].map(|name| g.input(name, [memory, kv], F32));
    rows! {
        "nn.Linear F.linear", "linen.Dense" => sequence.dense(dim("outputs", 4), "dense");
        "nn.Bilinear", "linen.DenseGeneral" => Dense::onto([dim("outputs", 4), dim("more", 2)])
            .over([model])
            .apply(sequence, "general"), "over any dims, onto any dims";
        "nn.Embedding F.embedding", "linen.Embed" => embedding(ids, dim("vocab", 50), [model], "tokens");
        "nn.LayerNorm F.layer_norm", "linen.LayerNorm" => layer_norm(sequence, model, "layer_norm");
        "nn.RMSNorm F.rms_norm", "linen.RMSNorm" => rms_norm(sequence, model, "rms_norm");
        "nn.Dropout F.dropout", "linen.Dropout" => dropout(x, 0.1), "the function that evaluates leaves it out";
        "nn.Identity", "" => x;
        "nn.Dropout1d nn.Dropout2d nn.Dropout3d F.dropout1d F.dropout2d F.dropout3d", "" => dropout_over(x, 0.1, [columns]), "one draw for each place of these dims";
        "F.scaled_dot_product_attention", "nn.dot_product_attention" => {
            dot_product_attention(q, k, v, memory, kv, kv, &AttentionOptions::default())
        };
        "nn.MultiheadAttention", "linen.MultiHeadDotProductAttention" => {
            let options = AttentionOptions { mask: Some(causal(g, length)), ..Default::default() };
            heads.self_attention(sequence, length, &attention, None, &options)
        };
        "nn.TransformerEncoderLayer nn.TransformerDecoderLayer", "" => {
            layer.apply(sequence, length, &layer_weights, &Around::default())
        };
        "nn.LSTM nn.LSTMCell", "linen.OptimizedLSTMCell linen.RNN" => lstm.apply(sequence, &lstm_weights, None, None), "`torch_names` says where PyTorch's weights go";
        "nn.GRU nn.GRUCell", "linen.GRUCell" => gru.apply(sequence, &gru_weights, None, None);
        "nn.RNN nn.RNNCell", "linen.SimpleCell" => plain.apply(sequence, &plain_weights, None, None);
    }
}

pub(super) fn images(words: &Words<'_>) -> Vec<Row> {
    let &Words { g, image, channels, .. } = words;
    let (height, width) = (dim("height", 8), dim("width", 8));
    let over = [("height", "fh"), ("width", "fw")];
    let outputs = dim("outputs", 4);
    let filter = g.input("filter", [dim("fh", 3), dim("fw", 3), channels, outputs], F32);
    let back = g.input("back", [dim("fh", 2), dim("fw", 2), channels, outputs], F32);
    let kernel = g.input("kernel", [dim("fh", 3), dim("fw", 3), channels], F32);
    let pairs = Pool::over([("height", 2), ("width", 2)]);
    rows! {
        "F.conv1d F.conv2d F.conv3d", "lax.conv_general_dilated" => conv(image, filter, &Conv::over(over).padding(Padding::Same));
        "nn.Conv1d nn.Conv2d nn.Conv3d", "linen.Conv" => conv_layer(image, &Conv::over(over), [3, 3], outputs, "conv");
        "F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d nn.ConvTranspose1d nn.ConvTranspose2d nn.ConvTranspose3d", "linen.ConvTranspose lax.conv_transpose" => {
            conv_transpose(image, back, &Conv::over(over).strides([2, 2]))
        };
        "", "lax.conv" => conv(image, kernel, &Conv::over(over)), "depthwise: the filter has the channels and no outputs";
        "F.max_pool1d F.max_pool2d F.max_pool3d nn.MaxPool1d nn.MaxPool2d nn.MaxPool3d", "linen.max_pool lax.reduce_window" => max_pool(image, &pairs);
        "F.avg_pool1d F.avg_pool2d F.avg_pool3d nn.AvgPool1d nn.AvgPool2d nn.AvgPool3d", "linen.avg_pool" => avg_pool(image, &pairs);
        "F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d nn.AdaptiveAvgPool1d nn.AdaptiveAvgPool2d nn.AdaptiveAvgPool3d", "" => {
            adaptive_avg_pool(image, [("height", 2), ("width", 2)])
        }, "globally: `mean` over both dims";
        "F.adaptive_max_pool1d F.adaptive_max_pool2d F.adaptive_max_pool3d nn.AdaptiveMaxPool1d nn.AdaptiveMaxPool2d nn.AdaptiveMaxPool3d", "" => {
            adaptive_max_pool(image, [("height", 2), ("width", 2)])
        }, "globally: `max` over both dims";
        "F.lp_pool1d F.lp_pool2d nn.LPPool1d nn.LPPool2d", "" => (4.0 * avg_pool(image.square(), &pairs)).sqrt(), "of order 2";
        "F.interpolate nn.Upsample nn.UpsamplingBilinear2d nn.UpsamplingNearest2d", "jax.image.resize" => {
            resize(image, &Resize::to([("height", 16), ("width", 16)]).method(Method::Linear))
        }, "`Method::Nearest`; `corners()` aligns corners, as `UpsamplingBilinear2d` does";
        "nn.BatchNorm1d nn.BatchNorm2d nn.BatchNorm3d", "linen.BatchNorm" => batch_norm(image, [channels], "batch_norm");
        "nn.SyncBatchNorm", "" => batch_norm(image, [channels], "synchronous"), "of the whole batch, however it is split";
        "nn.GroupNorm F.group_norm", "linen.GroupNorm" => group_norm(image, channels, 4, [height, width], "group_norm");
        "nn.InstanceNorm1d nn.InstanceNorm2d nn.InstanceNorm3d F.instance_norm", "linen.InstanceNorm" => instance_norm(image, channels, [height, width], "instance_norm");
        "nn.LocalResponseNorm nn.CrossMapLRN2d F.local_response_norm", "" => LocalResponseNorm::of(5).apply(image, channels);
    }
}

//! Losses, one for each example, and metrics.

use super::{Row, Words, rows};
use mesh_ops::layers::*;
use mesh_ops::metrics::*;
use mesh_ops::prelude::*;

pub(super) fn losses(words: &Words<'_>) -> Vec<Row> {
    let &Words { g, rows, columns, x, y, ids, sequence, length, model, .. } = words;
    let (labels, batch) = (dim("labels", 3), dim("batch", 2));
    let spelt = g.input("spelt", [batch, labels], I32);
    let [times, lengths] = ["times", "lengths"].map(|name| g.input(name, [batch], I32));
    let ctc = Ctc { time: length, classes: model, labels, blank: 0 };
    let side = mesh_ops::pick(x, columns, 0);
    rows! {
        "F.mse_loss nn.MSELoss", "optax.squared_error" => squared_error(x, y).mean();
        "F.l1_loss nn.L1Loss", "" => absolute_error(x, y).mean();
        "F.huber_loss nn.HuberLoss", "optax.huber_loss" => huber_loss(x, y, 1.0).mean();
        "F.smooth_l1_loss nn.SmoothL1Loss", "" => smooth_l1_loss(x, y, 1.0).mean();
        "", "optax.log_cosh" => log_cosh(x, y).mean();
        "F.cross_entropy nn.CrossEntropyLoss", "optax.softmax_cross_entropy_with_integer_labels" => {
            softmax_cross_entropy(x, ids, columns).mean()
        };
        "", "optax.softmax_cross_entropy" => softmax_cross_entropy(x, y, columns), "targets of probabilities have the dim of the classes";
        "F.nll_loss nn.NLLLoss", "" => -mesh_ops::take_along(x.log_softmax(columns), ids, columns).mean();
        "F.binary_cross_entropy nn.BCELoss", "" => binary_cross_entropy(x, y).mean();
        "F.binary_cross_entropy_with_logits nn.BCEWithLogitsLoss", "optax.sigmoid_binary_cross_entropy" => sigmoid_cross_entropy(x, y).mean();
        "", "optax.sigmoid_focal_loss" => sigmoid_focal_loss(x, y, 0.25, 2.0);
        "F.kl_div nn.KLDivLoss", "optax.kl_divergence" => kl_divergence(x.log_softmax(columns), y.softmax(columns), columns).mean();
        "F.gaussian_nll_loss nn.GaussianNLLLoss", "" => gaussian_nll(x, y.square(), y).mean();
        "F.poisson_nll_loss nn.PoissonNLLLoss", "" => poisson_nll(x, y).mean();
        "", "optax.hinge_loss" => hinge_loss(x, y);
        "F.hinge_embedding_loss nn.HingeEmbeddingLoss", "" => hinge_embedding_loss(x, y, 1.0);
        "F.margin_ranking_loss nn.MarginRankingLoss", "" => margin_ranking_loss(x, y, y.sign(), 0.5);
        "F.soft_margin_loss nn.SoftMarginLoss", "" => mesh_ops::elementwise::softplus(-(side * x)).mean(), "`side` is 1 or -1";
        "F.multilabel_soft_margin_loss nn.MultiLabelSoftMarginLoss", "" => sigmoid_cross_entropy(x, y).mean_over([columns]);
        "F.cosine_similarity nn.CosineSimilarity", "optax.cosine_similarity" => cosine_similarity(x, y, columns);
        "F.pairwise_distance nn.PairwiseDistance", "" => mesh_ops::vector_norm(x - y + 1e-6, 2.0, [columns]);
        "F.cosine_embedding_loss nn.CosineEmbeddingLoss", "" => cosine_embedding_loss(x, y, side, columns, 0.1);
        "F.triplet_margin_loss nn.TripletMarginLoss", "" => triplet_margin_loss(x, y, -y, columns, 1.0);
        "", "optax.ntxent" => nt_xent(x, y, rows, columns, 0.5), "one partner for each";
        "F.ctc_loss nn.CTCLoss", "optax.ctc_loss" => ctc.apply(sequence, spelt, times, lengths);
        "", "optax.smooth_labels" => CrossEntropy { z_loss: 0.0, label_smoothing: 0.1 }.apply(x, ids, columns);
    }
}

pub(super) fn metrics(words: &Words<'_>) -> Vec<Row> {
    let &Words { columns, x, y, mask, ids, rows, .. } = words;
    let found = x.greater(0.0);
    let counted = Counted { found, there: mask, kept: &[columns], weights: None };
    let guess = x.argmax(columns);
    let classes = dim("classes", 6);
    rows! {
        "torchmetrics.Accuracy", "clu.metrics.Accuracy" => accuracy(x, ids, columns, None);
        "torchmetrics.TopKAccuracy", "" => top_k_accuracy(x, ids, columns, 3, None);
        "torchmetrics.Precision", "" => precision(&counted);
        "torchmetrics.Recall", "" => recall(&counted);
        "torchmetrics.F1Score", "" => f1_score(&counted);
        "torchmetrics.JaccardIndex", "" => intersection_over_union(&counted);
        "torchmetrics.ConfusionMatrix", "" => confusion_matrix(guess, ids, classes, None);
        "torchmetrics.AUROC", "" => auc(x.sigmoid(), mask, dim("bins", 200), None);
        "torchmetrics.MeanMetric", "clu.metrics.Average" => average(x, None);
        "torchmetrics.MeanSquaredError", "" => average(squared_error(x, y), None);
        "torchmetrics.R2Score", "" => r2_score(x, y, None);
        "torchmetrics.Perplexity", "" => perplexity(softmax_cross_entropy(x, ids, columns), None);
        "torchmetrics.Metric.update", "clu.metrics.Metric.merge" => {
            average(x, None).streaming(words.g, "mean of x")
        }, "updated, read and reset by functions";
        "torchmetrics.aggregation.SumMetric", "" => x.sum([rows, columns]);
    }
}

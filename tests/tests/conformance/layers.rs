//! Layers under the legal layouts, against the reference.

use crate::conform;
use crate::meanings::{self, line};
use mesh_core::graph::TensorType;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{self, At, Case, Fill};

/// One axis and two. With these axis names no inputs are pending; the ops' own cases cover that.
pub(crate) const GRIDS: &[&str] = &["m:2", "m:2;n:2"];
pub(crate) const AXIS: &[&str] = &["m:2", "m:2;n:2"];

/// Few meshes, for layers whose roles are those of another in their table.
pub(crate) const FEW: &[&str] = &["a:2", "a:3", "a:2;b:2"];

pub(crate) fn weights<'g>(kernel: Tensor<'g>, bias: Option<Tensor<'g>>) -> DenseWeights<'g> {
    DenseWeights { kernel, bias }
}

#[test]
fn dense_layers() {
    let (i, j, k) = (dim("i", 4), dim("j", 2), dim("k", 6));
    let e = dim("e", 2);
    conform(
        "dense_layers",
        vec![
            Case::new("several dims summed and produced", move |_, x| {
                let dense = Dense::onto([k, dim("l", 2)]).over([i, j]);
                let dense = dense.activation(Activation::Tanh);
                Dense::apply_with(&dense, x[0], &weights(x[1], Some(x[2])))
            })
            .computes(meanings::dense(&[("i", 4), ("j", 2)], f64::tanh))
            .normal("x", "b:4;i:4;j:2", F32)
            .normal("kernel", "i:4;j:2;k:6;l:2", F32)
            .normal("bias", "k:6;l:2", F32)
            .meshes(GRIDS),
            Case::new("experts in the input", move |_, x| {
                let dense = Dense::onto([k]).over([i]).for_each([e]).unit_scaling();
                Dense::apply_with(&dense, x[0], &weights(x[1], Some(x[2])))
            })
            .computes(|x, ty| {
                // Divided by the root of the number of inputs.
                let products = |at: &At| line(at, ("i", 4), |at| x[0].at(at) * x[1].at(at));
                testing::Dense::each(ty, |at| products(at).iter().sum::<f64>() / 2.0 + x[2].at(at))
            })
            .normal("x", "b:4;e:2;i:4", F32)
            .normal("kernel", "e:2;i:4;k:6", F32)
            .normal("bias", "e:2;k:6", F32)
            .meshes(GRIDS),
            Case::new("experts new", move |_, x| {
                let dense = Dense::onto([k]).over([i]).for_each([e]).without_bias();
                Dense::apply_with(&dense, x[0], &weights(x[1], None))
            })
            .computes(meanings::dense(&[("i", 4)], |y| y))
            .exact()
            .integers("x", "b:4;i:4", F32)
            .integers("kernel", "e:2;i:4;k:6", F32)
            .meshes(GRIDS),
            Case::new("a dim summed and produced", move |_, x| {
                let dense = Dense::onto([i.resized(6), j]).over([i]).without_bias();
                Dense::apply_with(&dense, x[0], &weights(x[1], None))
            })
            .computes(|x, ty| {
                let product = |at: &At| x[0].at(&at.with("i", at.along("_i"))) * x[1].at(at);
                testing::Dense::each(ty, |at| line(at, ("_i", 4), product).iter().sum())
            })
            .exact()
            .integers("x", "b:4;i:4", F32)
            .integers("kernel", "_i:4;i:6;j:2", F32)
            .meshes(GRIDS),
            Case::new("gated feed-forward", move |_, x| {
                let gates = [Activation::Sigmoid, Activation::Linear];
                let layer = FeedForward::new(i, k).activations(gates);
                let inputs = vec![weights(x[1], None), weights(x[2], None)];
                let weights = FeedForwardWeights { inputs, output: weights(x[3], None) };
                FeedForward::apply(&layer, x[0], &weights)
            })
            .computes(|x, ty| {
                let onto = |kernel, at: &At| {
                    let product = |at: &At| x[0].at(at) * testing::Dense::at(kernel, at);
                    line(at, ("i", 4), product).iter().sum::<f64>()
                };
                let hidden = |at: &At| meanings::sigmoid(onto(x[1], at)) * onto(x[2], at);
                let hidden = meanings::tensor("b:4;k:6", hidden);
                let back = meanings::product(&hidden, x[3], "b:4;i:4", &[("k", 6)]);
                testing::Dense::each(ty, |at| back.at(at))
            })
            .normal("x", "b:4;i:4", F32)
            .normal("wi_0", "i:4;k:6", F32)
            .normal("wi_1", "i:4;k:6", F32)
            .normal("wo", "k:6;i:4", F32)
            .meshes(GRIDS),
            // D2 of Mesh TensorFlow: a generic gradient was given a pending sum.
            Case::new("elu and softplus of a split contraction", move |_, x| {
                let h = x[0].einsum(&[x[1]], [dim("b", 4), k]);
                h.elu() + h.softplus() * h.sin()
            })
            .normal("x", "b:4;i:4", F32)
            .normal("w", "i:4;k:6", F32)
            .meshes(GRIDS),
        ],
    );
}

#[test]
fn norms() {
    let k = dim("k", 6);
    conform(
        "norms",
        vec![
            Case::new("layer_norm", move |_, x| {
                Norm::apply(Norm::Layer, x[0], k, &NormWeights { scale: x[1], bias: Some(x[2]) })
            })
            .computes(meanings::norm)
            .normal("x", "b:4;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(&["a:2", "m:2;n:2"]),
            Case::new("rms_norm", move |_, x| {
                Norm::apply(Norm::Rms, x[0], k, &NormWeights { scale: x[1], bias: None })
            })
            .computes(meanings::norm)
            .normal("x", "b:4;k:6", F32)
            .normal("scale", "k:6", F32)
            .meshes(GRIDS),
            Case::new("rms_norm: bf16", move |_, x| {
                Norm::apply(Norm::Rms, x[0], k, &NormWeights { scale: x[1], bias: None })
            })
            .computes(meanings::norm)
            .normal("x", "b:4;k:6", BF16)
            .normal("scale", "k:6", BF16)
            .meshes(GRIDS),
            Case::new("batch_norm", move |g, x| {
                let state = |name| g.state(name, [k], F32, Initializer::ZEROS);
                let (scale, bias) = (x[1], x[2]);
                let (mean, variance) = (state("mean"), state("variance"));
                let weights = BatchNormWeights { scale, bias, mean, variance };
                BatchNorm::train(&BatchNorm::keeping([k]), x[0], &weights).0
            })
            .computes(meanings::batch_norm)
            .normal("x", "b:4;c:2;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(GRIDS),
            Case::new("group_norm", move |_, x| {
                let norm = GroupNorm::new(k, 2).over([dim("h", 2)]);
                GroupNorm::apply(&norm, x[0], &NormWeights { scale: x[1], bias: Some(x[2]) })
            })
            .computes(meanings::group_norm(3))
            .normal("x", "b:4;h:2;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(&["m:2", "m:3", "m:2;n:2"]),
            Case::new("group_norm: instances", move |_, x| {
                let norm = GroupNorm::new(k, 6).over([dim("h", 4)]);
                GroupNorm::apply(&norm, x[0], &NormWeights { scale: x[1], bias: Some(x[2]) })
            })
            .computes(meanings::group_norm(1))
            .normal("x", "b:2;h:4;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(AXIS),
            Case::new("local_response_norm", move |_, x| {
                let norm = LocalResponseNorm { size: 4, alpha: 0.5, beta: 0.75, k: 2.0 };
                LocalResponseNorm::apply(&norm, x[0], k)
            })
            .computes(|x, ty| {
                testing::Dense::each(ty, |at| {
                    let own = at.along("k");
                    let near = own.saturating_sub(2)..(own + 2).min(6);
                    let response: f64 = near.map(|i| x[0].at(&at.with("k", i)).powi(2)).sum();
                    x[0].at(at) / (2.0 + 0.5 * response / 4.0).powf(0.75)
                })
            })
            .normal("x", "b:4;k:6", F32)
            .meshes(GRIDS),
        ],
    );
}

#[test]
fn losses() {
    let classes = dim("classes", 6);
    let options = CrossEntropy { z_loss: 0.25, label_smoothing: 0.125 };
    conform(
        "losses",
        vec![
            Case::new("cross entropy with options", move |_, x| {
                CrossEntropy::apply(&options, x[0], x[1], classes)
            })
            .computes(meanings::cross_entropy(0.25, 0.125))
            .normal("x", "p:4;classes:6", F32)
            .indices("label", "p:4", 6)
            .meshes(GRIDS),
            Case::new("cross entropy with options: soft", move |_, x| {
                CrossEntropy::apply(&options, x[0], x[1], classes)
            })
            .computes(meanings::cross_entropy(0.25, 0.125))
            .normal("x", "p:4;classes:6", F32)
            .input("target", "p:4;classes:6", F32, Fill::Between(0.0, 1.0))
            .meshes(GRIDS),
            Case::new("softmax_with an extra logit", move |_, x| {
                softmax_with(x[0], classes, Some(x[1]))
            })
            .computes(softmaxed)
            .normal("x", "p:4;classes:6", F32)
            .normal("extra", "p:4", F32)
            .meshes(GRIDS),
            Case::new("sigmoid_cross_entropy", |_, x| sigmoid_cross_entropy(x[0], x[1]))
                .computes(|x, ty| {
                    let loss = |x: f64, z: f64| {
                        let s = meanings::sigmoid(x);
                        -z * s.ln() - (1.0 - z) * (1.0 - s).ln()
                    };
                    testing::Dense::each(ty, |at| loss(x[0].at(at), x[1].at(at)))
                })
                .away_from_zero("x", "p:4;q:6", F32)
                .input("target", "p:4;q:6", F32, Fill::Between(0.0, 1.0))
                .meshes(GRIDS),
            Case::new("weighted_mean", |_, x| weighted_mean(x[0], weights_nonzero(x[1], F32)))
                .computes(|x, ty| {
                    let pairs = x[0].data.iter().zip(&x[1].data);
                    let counted: Vec<_> =
                        pairs.filter(|(_, target)| **target != 0.0).map(|(x, _)| *x).collect();
                    testing::Dense::filled(ty.clone(), meanings::mean(&counted))
                })
                .normal("x", "p:4;q:6", F32)
                .indices("target", "p:4;q:6", 3)
                .meshes(GRIDS),
        ],
    );
}

#[test]
fn embeddings() {
    let vocab = dim("vocab", 6);
    conform(
        "embeddings",
        vec![
            Case::new("embed", move |_, x| embed(x[0], x[1], vocab))
                .computes(|x, ty| {
                    testing::Dense::each(ty, |at| match x[0].at(at) {
                        id if (0.0..6.0).contains(&id) => x[1].at(&at.with("vocab", id as usize)),
                        _ => 0.0,
                    })
                })
                .exact()
                .input("ids", "p:4;q:2", I32, Fill::Integers(-1, 6))
                .integers("table", "vocab:6;model:4", F32)
                .meshes(GRIDS),
            Case::new("embedding_logits", move |_, x| embedding_logits(x[0], x[1], vocab))
                .computes(|x, ty| {
                    // Divided by the root of the vector's size.
                    let products = |at: &At| line(at, ("model", 4), |at| x[0].at(at) * x[1].at(at));
                    testing::Dense::each(ty, |at| products(at).iter().sum::<f64>() / 2.0)
                })
                .normal("x", "p:4;model:4", F32)
                .normal("table", "vocab:6;model:4", F32)
                .meshes(GRIDS),
        ],
    );
}

#[test]
fn softmaxes() {
    let classes = dim("classes", 6);
    conform(
        "layers",
        vec![
            Case::new("softmax", move |_, x| softmax(x[0], classes)).computes(softmaxed).normal(
                "x",
                "p:4;classes:6",
                F32,
            ),
            Case::new("log_softmax", move |_, x| log_softmax(x[0], classes))
                .computes(|x, ty| softmaxed(x, ty).map(f64::ln))
                .normal("x", "p:4;classes:6", F32),
            Case::new("logsumexp", move |_, x| logsumexp(x[0], classes))
                .computes(|x, ty| {
                    let logits = |at: &At| line(at, ("classes", 6), |at| x[0].at(at));
                    testing::Dense::each(ty, |at| meanings::logsumexp(&logits(at)))
                })
                .normal("x", "p:4;classes:6", F32),
            Case::new("cross entropy", move |_, x| softmax_cross_entropy(x[0], x[1], classes))
                .computes(meanings::cross_entropy(0.0, 0.0))
                .normal("x", "p:4;classes:6", F32)
                .indices("label", "p:4", 6),
            Case::new("cross entropy: soft", move |_, x| {
                softmax_cross_entropy(x[0], x[1], classes)
            })
            .computes(meanings::cross_entropy(0.0, 0.0))
            .normal("x", "p:4;classes:6", F32)
            .input("target", "p:4;classes:6", F32, Fill::Between(0.0, 1.0)),
            Case::new("weights_nonzero", |_, x| weights_nonzero(x[0], F32))
                .computes(|x, ty| testing::Dense::each(ty, |at| f64::from(x[0].at(at) != 0.0)))
                .input("target", "p:4;q:6", I32, Fill::Integers(-1, 1))
                .meshes(FEW),
        ],
    );
}

#[test]
fn extra_logits() {
    let c = || dim("c", 6);
    let cases = vec![
        Case::new("logsumexp of two dims", move |_, x| {
            logsumexp_with(x[0], [c(), dim("p", 4)], None)
        })
        .computes(|x, ty| {
            let over_c = |at: &At| line(at, ("c", 6), |at| x[0].at(at));
            testing::Dense::each(ty, |at| {
                let all: Vec<_> = (0..4).flat_map(|p| over_c(&at.with("p", p))).collect();
                meanings::logsumexp(&all)
            })
        })
        .normal("x", "p:4;r:2;c:6", F32)
        .meshes(FEW),
        Case::new("logsumexp, extra", move |_, x| logsumexp_with(x[0], [c()], Some(x[1])))
            .computes(|x, ty| {
                let logits = |at: &At| line(at, ("c", 6), |at| x[0].at(at));
                testing::Dense::each(ty, |at| {
                    meanings::logsumexp(&[logits(at), vec![x[1].at(at)]].concat())
                })
            })
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "p:4", F32),
        Case::new("log_softmax, extra", move |_, x| log_softmax_with(x[0], c(), Some(x[1])))
            .computes(|x, ty| softmaxed(x, ty).map(f64::ln))
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "p:4", F32)
            .meshes(FEW),
        Case::new("softmax, extra for all", move |_, x| softmax_with(x[0], c(), Some(x[1])))
            .computes(softmaxed)
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "", F32)
            .meshes(FEW),
        Case::new("softmax, a greater extra", move |_, x| {
            softmax_with(x[0], c(), Some(x[1] + 200.0))
        })
        .normal("x", "p:4;c:6", F64)
        .normal("extra", "p:4", F64)
        .meshes(FEW),
    ];
    conform("extra_logits", cases);
}

/// Shares of exponentials along the dim of logits, which has six; an extra logit perhaps among them.
fn softmaxed(x: &[&testing::Dense], ty: &TensorType) -> testing::Dense {
    let dim = if ty.shape.contains("c".into()) { "c" } else { "classes" };
    testing::Dense::each(ty, |at| {
        let logits = line(at, (dim, 6), |at| x[0].at(at));
        meanings::share(&logits, x[0].at(at), x.get(1).map(|extra| extra.at(at)))
    })
}

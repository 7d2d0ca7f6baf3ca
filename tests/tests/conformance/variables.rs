//! Layers that make their variables, whose initial values the meanings are given after the inputs.

use crate::conform;
use crate::meanings::{self, activation, line, slid};
use mesh_ops::conv::Conv;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{self, At, Case};

/// For dims of 4 and 6.
const FEW: &[&str] = &["a:2", "a:2;b:2"];

#[test]
fn layers_with_variables() {
    let k = dim("k", 6);
    let of_b = |case: Case| case.normal("x", "b:4;i:4", F32).meshes(FEW);
    conform(
        "layers_with_variables",
        vec![
            of_b(Case::new("dense", move |_, x| dense(x[0], k, "d")))
                .computes(meanings::dense(&[("i", 4)], |y| y)),
            of_b(Case::new("dense_product", move |_, x| {
                let gates = [Activation::Sigmoid, Activation::Linear];
                dense_product(x[0], &Dense::onto([k]), &gates, "d")
            }))
            .computes(|x, ty| {
                let first = meanings::dense(&[("i", 4)], meanings::sigmoid)(&x[..3], ty);
                let second = meanings::dense(&[("i", 4)], |y| y)(&[x[0], x[3], x[4]], ty);
                testing::Dense::each(ty, |at| first.at(at) * second.at(at))
            }),
            of_b(Case::new("dense_relu_dense", move |_, x| dense_relu_dense(x[0], k, "d")))
                .computes(|x, ty| {
                    let hidden = meanings::product(x[0], x[1], "b:4;k:6", &[("i", 4)]);
                    let hidden = |at: &At| (hidden.at(at) + x[2].at(at)).max(0.0);
                    testing::Dense::each(ty, |at| {
                        let products = line(at, ("k", 6), |at| hidden(at) * x[3].at(at));
                        products.iter().sum::<f64>() + x[4].at(at)
                    })
                }),
            Case::new("layer_norm: new weights", move |_, x| layer_norm(x[0], k, "n"))
                .computes(meanings::norm)
                .normal("x", "b:4;k:6", F32)
                .meshes(FEW),
            Case::new("rms_norm: new weights", move |_, x| rms_norm(x[0], k, "n"))
                .computes(meanings::norm)
                .normal("x", "b:4;k:6", F32)
                .meshes(FEW),
            Case::new("batch_norm: new weights", move |_, x| batch_norm(x[0], [k], "n").0)
                .computes(meanings::batch_norm)
                .normal("x", "b:4;k:6", F32)
                .meshes(FEW),
            Case::new("group_norm: new weights", move |_, x| {
                group_norm(x[0], k, 2, [dim("h", 2)], "n")
            })
            .computes(meanings::group_norm(3))
            .normal("x", "b:2;h:2;k:6", F32)
            .meshes(&["a:2"]),
            Case::new("instance_norm: new weights", move |_, x| {
                instance_norm(x[0], k, [dim("h", 2)], "n")
            })
            .computes(meanings::group_norm(1))
            .normal("x", "b:2;h:2;k:6", F32)
            .meshes(&["a:2"]),
            // The averages, which come last, are given other values than the initial 0 and 1.
            Case::new("batch_norm: evaluated", move |g, x| {
                let state = |name, value| g.state(name, [k], F32, Initializer::Constant(value));
                let (mean, variance) = (state("mean", 0.5), state("variance", 4.0));
                let weights = BatchNormWeights { scale: x[1], bias: x[2], mean, variance };
                BatchNorm::evaluate(&BatchNorm::keeping([k]), x[0], &weights)
            })
            .computes(|x, ty| {
                let y = |at: &At| (x[0].at(at) - x[3].at(at)) / (x[4].at(at) + 1e-6).sqrt();
                testing::Dense::each(ty, |at| y(at) * x[1].at(at) + x[2].at(at))
            })
            .normal("x", "b:4;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(FEW),
        ],
    );
}

#[test]
fn activations() {
    conform(
        "activations",
        vec![
            Case::several("every activation", |_, x| {
                Activation::ALL.map(|activation| Activation::apply(activation, x[0])).to_vec()
            })
            .computes_all(|x, types| {
                let each = |(i, ty): (usize, &_)| {
                    testing::Dense::each(ty, |at| activation(i, x[0].at(at)))
                };
                types.iter().enumerate().map(each).collect()
            })
            .away_from_zero("x", "b:4;d:4", F32)
            .meshes(FEW),
            Case::new("clip_activation_gradient", |g, x| {
                let y = clip_activation_gradient(x[0], 0.5);
                g.gradients(&[y], &[x[0]], Some(&[x[1]]))[0].unwrap_or(y)
            })
            .computes(|x, ty| {
                let squares: Vec<_> = x[1].data.iter().map(|dy| dy * dy).collect();
                let rms = meanings::mean(&squares).sqrt();
                testing::Dense::each(ty, |at| x[1].at(at) / (rms / 0.5).max(1.0))
            })
            .normal("x", "b:4;d:4", F32)
            .normal("dy", "b:4;d:4", F32)
            .meshes(FEW),
        ],
    );
}

#[test]
fn tables_and_filters() {
    let (vocab, model, o) = (dim("vocab", 6), dim("model", 4), dim("o", 4));
    let time = || Conv::over([("time", "tap")]);
    let of_signal = |case: Case| case.normal("x", "b:2;time:8;c:2", F32).meshes(FEW);
    let filtered = |x: &[&testing::Dense], at: &At| {
        let under = |at: &At| slid(x[0], at, |tap| x[1].at(tap));
        line(at, ("c", 2), under).iter().sum::<f64>()
    };
    conform(
        "tables_and_filters",
        vec![
            Case::new("new variable", move |g, x| {
                let of = Parameters::new(g, F32);
                let initializer = Initializer::TruncatedNormal { mean: 1.0, stddev: 0.5 };
                x[0] * Parameters::variable(&of, "w", [model], initializer)
            })
            .computes(|x, ty| testing::Dense::each(ty, |at| x[0].at(at) * x[1].at(at)))
            .normal("x", "p:4;model:4", F32)
            .meshes(FEW),
            Case::new("embedding", move |_, x| embedding(x[0], vocab, [model], "e"))
                .computes(looked_up)
                .indices("ids", "p:4", 6)
                .meshes(FEW),
            Case::new("embedding_weights", move |g, x| {
                let of = Parameters::new(g, F32);
                embed(x[0], embedding_weights(&of, vocab, [model], "e"), vocab)
            })
            .computes(looked_up)
            .indices("ids", "p:4", 6)
            .meshes(FEW),
            of_signal(Case::new("conv_layer", move |_, x| conv_layer(x[0], &time(), [2], o, "c")))
                .computes(move |x, ty| {
                    testing::Dense::each(ty, |at| filtered(x, at) + x[2].at(at))
                }),
            of_signal(Case::new("conv_layer: no bias", move |_, x| {
                let layer = ConvLayer::onto(o, &time(), [2]).without_bias();
                ConvLayer::apply(&layer, x[0], "c")
            }))
            .computes(move |x, ty| testing::Dense::each(ty, |at| filtered(x, at))),
            of_signal(Case::new("separable_conv_layer", move |_, x| {
                separable_conv_layer(x[0], &time(), [2], o, "c")
            }))
            .computes(|x, ty| {
                let channel = |at: &At| slid(x[0], at, |tap| x[1].at(tap)) * x[2].at(at);
                testing::Dense::each(ty, |at| {
                    line(at, ("c", 2), channel).iter().sum::<f64>() + x[3].at(at)
                })
            }),
        ],
    );
}

fn looked_up(x: &[&testing::Dense], ty: &mesh_core::graph::TensorType) -> testing::Dense {
    testing::Dense::each(ty, |at| x[1].at(&at.with("vocab", x[0].at(at) as usize)))
}

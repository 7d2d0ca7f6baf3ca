//! Mixtures of experts under the legal layouts, against the reference.

use crate::conform;
use crate::layers::{AXIS, weights};
use crate::routed::{Rules, hierarchy, mixture};
use mesh_ops::layers::moe::{
    Gating, HierarchicalMixture, HierarchicalWeights, MixtureOfExperts, MixtureWeights,
};
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::Case;

#[test]
fn mixtures() {
    let model = dim("model", 2);
    let case = |name: &str, gating: Gating, jitter: f64| {
        Case::new(name, move |_, x| {
            let (batch, length) = (dim("batch", 2), dim("length", 4));
            let experts = dim("experts", 2);
            let mut mixture = MixtureOfExperts::new(model, dim("hidden", 2), experts, gating);
            mixture.feed_forward = mixture.feed_forward.activations([Activation::Tanh]);
            mixture.router.min_capacity = 2;
            mixture.router.jitter = jitter;
            let feed_forward = FeedForwardWeights {
                inputs: vec![weights(x[2], None)],
                output: weights(x[3], None),
            };
            let weights = MixtureWeights { router: x[1], feed_forward };
            let tokens = [batch, length];
            let (y, losses) = MixtureOfExperts::apply(&mixture, x[0], &tokens, &weights, None);
            y + losses.balance + losses.z
        })
        .normal("x", "batch:2;length:4;model:2", F32)
        .normal("router", "model:2;experts_whole:2", F32)
        .normal("wi", "experts:2;model:2;hidden:2", F32)
        .normal("wo", "experts:2;hidden:2;model:2", F32)
        .meshes(AXIS)
    };
    conform(
        "mixtures",
        vec![
            case("switch, jitter", Gating::Switch, 0.125).meshes(&["m:2"]),
            case("switch", Gating::Switch, 0.0).computes(|x, _| {
                mixture(&Rules { experts: 2, capacity: 2, second_above: None }, x)
            }),
            case("top two", Gating::TopTwo { threshold: 0.25 }, 0.0).computes(|x, _| {
                mixture(&Rules { experts: 2, capacity: 2, second_above: Some(0.25) }, x)
            }),
            Case::new("hierarchical", move |_, x| {
                let (batch, length) = (dim("batch", 2), dim("length", 4));
                let experts = [dim("outer", 2), dim("inner", 2)];
                let gating = Gating::TopTwo { threshold: 0.0 };
                let mut mixture =
                    HierarchicalMixture::new(model, dim("hidden", 2), experts, gating);
                let tanh = mixture.inner.feed_forward.activations([Activation::Tanh]);
                mixture.inner.feed_forward = tanh;
                let feed_forward = FeedForwardWeights {
                    inputs: vec![weights(x[3], None)],
                    output: weights(x[4], None),
                };
                let inner = MixtureWeights { router: x[2], feed_forward };
                let weights = HierarchicalWeights { outer: x[1], inner };
                let tokens = [batch, length];
                let (y, losses) =
                    HierarchicalMixture::apply(&mixture, x[0], &tokens, &weights, None);
                y + losses.balance + losses.z
            })
            .computes(|x, _| {
                let rules = || Rules { experts: 2, capacity: 4, second_above: Some(0.0) };
                hierarchy(&rules(), &rules(), x)
            })
            .normal("x", "batch:2;length:4;model:2", F32)
            .normal("router", "model:2;outer_whole:2", F32)
            .normal("inner_router", "outer:2;model:2;inner_whole:2", F32)
            .normal("wi", "outer:2;inner:2;model:2;hidden:2", F32)
            .normal("wo", "outer:2;inner:2;hidden:2;model:2", F32)
            .meshes(&["m:2"]),
        ],
    );
}

//! Which functions are compared with numbers of other frameworks, and why others are not.
//!
//! Programs in `tests/golden/` draw instances, and the builders in `tests/tests/golden/`, which are looked through here,
//! make graphs of them; each builder has at least three instances of different sizes. Which of them are at edges shows in
//! what they are given.

use crate::builders::{Builder, builders};
use crate::catalogue::sources::{layer_types, public_functions};
use std::collections::BTreeSet;

/// What no builder calls, with the reason.
const WITHOUT: &[(&[&str], &str)] = &[
    (
        &[
            "dropout",
            "dropout_over",
            "multiplicative_jitter",
            "random_integer",
            "random_normal",
            "random_truncated_normal",
            "random_uniform",
            "sample_with_temperature",
        ],
        "random numbers of others are others; moments and places are tested in the rooms that draw",
    ),
    (&["attention"], "what `dot_product_attention` calls, whose goldens are its own"),
    (
        &["conv_with_blocks", "halo_exchange", "left_halo_exchange", "zigzag", "zigzag_inverse"],
        "how processors share a dim, for which others have no function",
    ),
    (
        &[
            "ConvLayer",
            "batch_norm",
            "conv_layer",
            "dense_product",
            "dense_relu_dense",
            "embedding",
            "embedding_weights",
            "group_norm",
            "instance_norm",
            "layer_norm",
            "rms_norm",
            "separable_conv_layer",
        ],
        "makes variables for what has goldens: `conv`, `Dense`, `FeedForward`, `embed` and the norms",
    ),
    (
        &[
            "BeamSearch",
            "CompressedMemory",
            "HierarchicalMixture",
            "LocalAttention2d",
            "MixtureOfExperts",
            "RelativeBias",
            "clip_activation_gradient",
            "einsum_filled",
            "einsum_filled_in_blocks",
        ],
        "Mesh TensorFlow's own, or Mesh's; cases of the conformance suite say what it computes as a whole",
    ),
];

/// What has no instance with infinities and NaN, with the reason.
const WITHOUT_ENDS: &[(&[&str], &str)] = &[
    (&["binary_cross_entropy"], "PyTorch refuses what is no probability; there are 0 and 1"),
    (
        &["conv_transpose"],
        "whether there are products with the zeros between elements is the choice of a kernel",
    ),
    (
        &["top_k_accuracy"],
        "of NaN: JAX ranks it first, a label that is NaN is no hit here; there are infinities",
    ),
    (&["quantile"], "JAX interpolates between infinities; `median` has both"),
    (
        &["adaptive_avg_pool"],
        "products with weights, zeros among them, so that an infinity reaches all of its row; PyTorch's reach their window",
    ),
];

/// What chooses among elements, and has instances in which some are equal.
const CHOOSING: &[&str] = &[
    "accuracy",
    "adaptive_max_pool",
    "argmax",
    "argmin",
    "argsort",
    "cummax",
    "cummin",
    "huber_loss",
    "max",
    "max_pool",
    "maximum",
    "median",
    "min",
    "minimum",
    "nth_largest",
    "nth_smallest",
    "quantile",
    "scatter",
    "searchsorted",
    "segment_max",
    "sort",
    "top_1",
    "top_k",
    "top_k_accuracy",
    "vector_norm",
];

/// Where there may be nothing to take in, and the builder of instances in which there is nothing.
const OF_NOTHING: &[(&str, &str)] = &[
    ("weighted_mean", "empty_weights"),
    ("dot_product_attention", "attention_of_nothing"),
    ("padding_mask", "attention_of_nothing"),
    ("confusion_matrix", "of_no_classes"),
    ("precision", "of_no_classes"),
    ("recall", "of_no_classes"),
    ("f1_score", "of_no_classes"),
    ("intersection_over_union", "of_no_classes"),
    ("Ctc", "ctc_impossible"),
    ("softmax", "of_nothing"),
    ("log_softmax", "of_nothing"),
    ("logsumexp", "of_nothing"),
    ("max", "of_nothing"),
];

/// Every builder that calls a function, or those that have its name if there are any.
fn callers<'b>(builders: &'b [Builder], function: &str) -> Vec<&'b Builder> {
    let all = builders.iter().filter(|builder| builder.calls.contains(function));
    let (own, others): (Vec<_>, Vec<_>) = all.partition(|builder| builder.name == function);
    if own.is_empty() { others } else { own }
}

fn functions() -> impl Iterator<Item = String> {
    public_functions().into_keys().chain(layer_types())
}

fn named(reasons: &[(&[&str], &str)]) -> BTreeSet<String> {
    reasons.iter().flat_map(|(names, _)| names.iter().map(|name| (*name).to_owned())).collect()
}

#[test]
fn every_function_has_goldens_or_a_reason() {
    let builders = builders();
    let absent: BTreeSet<_> =
        functions().filter(|name| callers(&builders, name).is_empty()).collect();
    let excused = named(WITHOUT);
    let unexcused: Vec<_> = absent.difference(&excused).collect();
    assert!(unexcused.is_empty(), "no golden instance calls {unexcused:?}");
    let needless: Vec<_> = excused.difference(&absent).collect();
    assert!(needless.is_empty(), "golden instances call {needless:?}, or they are gone");
}

#[test]
fn every_function_of_floats_has_goldens_at_infinities_and_nan_or_a_reason() {
    let builders = builders();
    let mut absent = BTreeSet::new();
    for function in functions().filter(|name| !named(WITHOUT).contains(name)) {
        let floats: Vec<_> =
            callers(&builders, &function).iter().flat_map(|b| b.floats()).collect();
        let has = |is: fn(&f64) -> bool| floats.iter().flatten().any(is);
        let is_complete = has(|x| x.is_infinite()) && has(|x| x.is_nan());
        if !floats.is_empty() && !is_complete {
            absent.insert(function);
        }
    }
    let excused = named(WITHOUT_ENDS);
    let unexcused: Vec<_> = absent.difference(&excused).collect();
    assert!(unexcused.is_empty(), "no golden instance has infinities and NaN for {unexcused:?}");
    let needless: Vec<_> = excused.difference(&absent).collect();
    assert!(needless.is_empty(), "golden instances have both for {needless:?}, or they are gone");
}

#[test]
fn what_chooses_has_goldens_of_ties() {
    let builders = builders();
    let mut without = Vec::new();
    for function in CHOOSING {
        let callers: Vec<_> = builders.iter().filter(|b| b.calls.contains(*function)).collect();
        let are_equal = |list: &Vec<f64>| (1..list.len()).any(|i| list[..i].contains(&list[i]));
        let has = callers.iter().flat_map(|b| b.floats()).any(|list| are_equal(&list));
        if !has {
            without.push(function);
        }
    }
    assert!(without.is_empty(), "no golden instance has ties for {without:?}");
}

#[test]
fn what_may_have_nothing_to_take_in_has_goldens_of_nothing() {
    let builders = builders();
    for (function, of_nothing) in OF_NOTHING {
        let is_it = |b: &&Builder| b.name == *of_nothing && b.calls.contains(*function);
        assert!(builders.iter().any(|b| is_it(&b)), "{of_nothing} does not call {function}");
    }
}

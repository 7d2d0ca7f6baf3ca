//! Which functions are compared with numbers of other frameworks, and why others are not.
//!
//! Programs in `tests/golden/` draw instances, and the builders in `tests/tests/golden/`, which are looked through here,
//! make graphs of them; each builder has at least three instances of different sizes.

use crate::catalogue::sources::{layer_types, public_functions, workspace};
use std::collections::BTreeSet;
use std::fs;

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
    (
        &["conv_with_blocks", "halo_exchange", "left_halo_exchange", "zigzag", "zigzag_inverse"],
        "how processors share a dim, for which others have no function",
    ),
    (
        &[
            "ConvLayer",
            "conv_layer",
            "dense_product",
            "dense_relu_dense",
            "embedding",
            "embedding_weights",
            "separable_conv_layer",
        ],
        "makes variables for what has goldens: `conv`, `Dense`, `FeedForward` and `embed`",
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

/// Every word of the builders.
fn words() -> BTreeSet<String> {
    let entries = fs::read_dir(workspace().join("tests/tests/golden")).unwrap();
    let texts = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words =
        |text: String| -> Vec<String> { text.split(|c| !is_word(c)).map(str::to_owned).collect() };
    texts.flat_map(words).collect()
}

#[test]
fn every_function_has_goldens_or_a_reason() {
    let (words, functions) = (words(), public_functions());
    let all = functions.into_keys().chain(layer_types());
    let absent: BTreeSet<String> = all.filter(|name| !words.contains(name)).collect();
    let excused = WITHOUT.iter().flat_map(|(names, _)| names.iter());
    let excused: BTreeSet<_> = excused.map(|name| (*name).to_owned()).collect();
    let unexcused: Vec<_> = absent.difference(&excused).collect();
    assert!(unexcused.is_empty(), "no golden instance calls {unexcused:?}");
    let needless: Vec<_> = excused.difference(&absent).collect();
    assert!(needless.is_empty(), "golden instances call {needless:?}, or they are gone");
}
